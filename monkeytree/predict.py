"""What a plan would save and what it would cost, in GPU-seconds, predicted from the snapshot alone.

Saved: over jobs, slots x ``remaining_s`` x (slowdown before - slowdown after). Lost: slots x pause of
every paused job. A plan is worthwhile where it saves more than it loses.

The slowdown of a job is that of its slowest group, 1 + c x stretch / ``iteration_s``, with c =
``traffic_gb`` x 8 / ``nic_gbps`` the seconds a worker sends in an iteration without congestion. The
stretch is what max-min fair sharing adds to them at the worst leaf (or pod) that the group crosses:
m flows that send at once on an uplink of k NIC rates each get k / m of a NIC, so they take m / k times
as long. How many meet on an uplink depends on the routing, how many of those send at once on how
large a part of their iteration they send (:mod:`monkeytree.sharing`): of the iteration as it is, slowed,
so the stretch is taken anew from the one before, :data:`ROUNDS` times. This is an estimate of means: jobs
are taken to be out of phase with each other, and no job to come or go. Max-min sharing:
Bertsekas and Gallager, Data Networks, section 6.5.2; that jobs at large fragmentation degrees slow
down: the paper, section 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .placement import Arrangement, sends
from .plan import Move, Predicted, Ring
from .ring import departures
from .sharing import may_share, stretch
from .snapshot import Job, ReplicaGroup, Snapshot
from .timing import pauses_by_job

ROUNDS = 3
"""Times the stretch is taken. A slowed group sends for longer: round 1 does not know, round 2 corrects it,
round 3 the correction; more moved the mean by under a percent in simulations (docs/savings.md)."""


class Unpredictable(Exception):
    """A group or job whose members a prediction needs does not say them."""


@dataclass(slots=True)
class _Leaf:
    """Flows of each group (by index into ``Snapshot.groups``) that leave one leaf, or one pod."""

    uplinks: int
    flows: dict[int, int] = field(default_factory=lambda: defaultdict(int))


def predict(
    snapshot: Snapshot, before: Arrangement, after: Arrangement, moves: Sequence[Move], rings: Iterable[Ring]
) -> Predicted:
    """What a plan from ``before`` to ``after`` saves and loses; see the head of this file.

    Args:
        moves: of the plan, with their waves.
        rings: of the plan; jobs with a changed ring pause too.

    Returns:
        ``saved_gpu_s`` is None where a job that shares uplinks before or after does not say
        ``iteration_s``, ``traffic_gb`` or ``remaining_s``, or has flows without any uplink.
    """
    moved = {move.job for move in moves}
    changed = {ring.job for ring in rings if ring.changed}
    reordered = sorted(changed - moved)
    slots = {job.id: _slots(job) for job in snapshot.jobs}
    pauses = pauses_by_job(snapshot, moves, reordered)
    lost = sum(slots[job] * pause for job, pause in pauses.items())
    if not moves and not changed:  # a ring may be written from another rank on, and is the same
        return Predicted(0.0, lost)
    try:
        now, then = slowdowns(snapshot, before), slowdowns(snapshot, after)
        saved = _saved(snapshot, now, then)
    except Unpredictable:
        return Predicted(None, lost)
    return Predicted(saved, lost)


def worthwhile(snapshot: Snapshot, predicted: Predicted, moves: Iterable[Move]) -> bool | None:
    """Whether a plan with these moves saves more than it loses; None where that is not predicted.

    A plan that takes workers off draining nodes always is: draining is an order, not a bargain.
    """
    nodes = snapshot.node_by_id
    if any(nodes[move.source].drain for move in moves):
        return True
    if predicted.saved_gpu_s is None:
        return None
    return predicted.saved_gpu_s > predicted.lost_gpu_s


def slowdowns(snapshot: Snapshot, arrangement: Arrangement | None = None) -> dict[str, float]:
    """Expected slowdown of the jobs that share uplinks, by job id; all others are at 1.

    Args:
        arrangement: where the workers are; by default as the snapshot says.

    Raises:
        Unpredictable: a job that shares does not say ``iteration_s`` or ``traffic_gb``.
    """
    fabric = snapshot.fabric
    shared = []
    for leaf in _leaves(snapshot, arrangement or Arrangement.of(snapshot)):
        if may_share(fabric.routing, sum(leaf.flows.values()), leaf.uplinks, fabric.flows_per_uplink):
            if not leaf.uplinks:
                raise Unpredictable
            shared.append(leaf)
    stretches: dict[int, float] = {}
    for _ in range(ROUNDS):
        stretches = _stretches(snapshot, shared, stretches)
    found: dict[str, float] = {}
    for index, more in stretches.items():
        job, group = snapshot.groups[index]
        slowdown = 1 + _send_seconds(snapshot, group) * more / _iteration(group)
        found[job.id] = max(found.get(job.id, 1.0), slowdown)
    return found


def _stretches(snapshot: Snapshot, leaves: Sequence[_Leaf], known: Mapping[int, float]) -> dict[int, float]:
    """The stretch of each group at the worst of ``leaves``, if all send as ``known`` stretches let them."""
    fabric = snapshot.fabric
    found: dict[int, float] = {}
    for leaf in leaves:
        total = sum(leaf.flows.values())
        sending = {index: _sending(snapshot, index, known.get(index, 0.0)) for index in leaf.flows}
        for index in leaf.flows:
            job, _ = snapshot.groups[index]
            own = sum(n for other, n in leaf.flows.items() if snapshot.groups[other][0] is job)
            others = sum(
                n * sending[other] for other, n in leaf.flows.items() if snapshot.groups[other][0] is not job
            )
            busy = (own - 1 + others) / (total - 1) if total > 1 else 0.0
            more = stretch(
                fabric.routing, leaf.flows[index], total, leaf.uplinks, fabric.flows_per_uplink, busy
            )
            found[index] = max(found.get(index, 0.0), more)
    return found


def _saved(snapshot: Snapshot, now: Mapping[str, float], then: Mapping[str, float]) -> float:
    saved = 0.0
    for job in snapshot.jobs:
        if job.id in now or job.id in then:
            if job.remaining_s is None:
                raise Unpredictable
            saved += _slots(job) * job.remaining_s * (now.get(job.id, 1.0) - then.get(job.id, 1.0))
    return saved


def _leaves(snapshot: Snapshot, arrangement: Arrangement) -> Iterator[_Leaf]:
    """Every leaf and pod with flows, in snapshot order."""
    rails, rack_of = snapshot.fabric.rails, snapshot.rack_of
    racks = {(rack.id, rail): _Leaf(len(rack.spines)) for rack in snapshot.racks for rail in range(rails)}
    pods = {pod.id: _Leaf(pod.uplinks) for pod in snapshot.pods}
    for index, (_, group) in enumerate(snapshot.groups):
        if not sends(group):
            continue
        order = arrangement.orders[index]
        places = [rack_of[node] for node in arrangement.nodes[index]]
        if places.count(places[0]) == len(places):
            continue
        for rack, times in departures(order, [place.id for place in places]).items():
            for rail in range(min(rails, group.rings)):
                racks[rack, rail].flows[index] += times * group.rings_on_rail(rail, rails)
        if pods:
            for pod, times in departures(order, [place.pod for place in places]).items():
                pods[str(pod)].flows[index] += times * group.rings
    yield from (leaf for leaf in [*racks.values(), *pods.values()] if leaf.flows)


def _sending(snapshot: Snapshot, index: int, more: float) -> float:
    """The part of its iteration that a group sends, if sharing stretches its sending by ``more``."""
    _, group = snapshot.groups[index]
    seconds = _send_seconds(snapshot, group)
    return min(1.0, seconds * (1 + more) / (_iteration(group) + seconds * more))


def _send_seconds(snapshot: Snapshot, group: ReplicaGroup) -> float:
    if group.traffic_gb is None:
        raise Unpredictable
    return group.traffic_gb * 8 / snapshot.fabric.nic_gbps


def _iteration(group: ReplicaGroup) -> float:
    if group.iteration_s is None:
        raise Unpredictable
    return group.iteration_s


def _slots(job: Job) -> int:
    return sum(len(group.workers) * group.slots_per_worker for group in job.replica_groups)
