"""What plans would have saved: a history of snapshots replayed under a rule.

The history tells what happened without plans. Under a rule, some snapshots would have been planned and
the plan carried out; then the workers would have stood elsewhere from there on. The replay keeps that
other placement: workers that the history leaves alone stay where the plans have put them, others come and
go as in the history, and a slot that a plan has taken is made up for by a free one, in the same rack
where there is one.

Between two snapshots a job gets the same work done in both worlds. At slowdown S in the history and S'
under the rule, an interval of t seconds would have taken t x S' / S: slots x t x (1 - S' / S) GPU-seconds
are saved; of a job that is gone at the end no more than its ``remaining_s`` counts. The slowdowns are those
of :mod:`monkeytree.predict`; pauses cost slots x pause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from .errors import InvalidSnapshot
from .plan import Plan
from .planner import make_plan
from .predict import Unpredictable, slowdowns
from .snapshot import Job, ReplicaGroup, Snapshot

Key = tuple[str, str]
"""(job id, group id)."""
LONGEST_GAP_S = 3600.0
"""Of a longer interval between two snapshots only this much counts: the collector may have been off."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When a plan is carried out.

    Attributes:
        name: how it is called: ``always``, ``worthwhile`` or ``threshold:N``.
        threshold: plan as if no leaf carried more than this many flows; None is each leaf's own bound.
        worthwhile_only: carry out no plan whose ``worthwhile`` is false (``planning.trigger``).
    """

    name: str
    threshold: int | None = None
    worthwhile_only: bool = False


ALWAYS = Rule("always")
WORTHWHILE = Rule("worthwhile", worthwhile_only=True)


def threshold(flows: int) -> Rule:
    """Keep every leaf at ``flows`` flows or fewer, or at its bound where that is less."""
    return Rule(f"threshold:{flows}", flows)


@dataclass(slots=True)
class Savings:
    """What a rule would have done over a history; times are summed over slots.

    Attributes:
        plans: carried out; ``passed_up`` were made and not carried out.
        moves, jobs_paused: of the plans carried out.
        saved_gpu_s: less congestion, over the intervals that could be predicted.
        lost_gpu_s: pauses of the plans carried out.
        unpredicted: intervals in which jobs that share uplinks did not say enough; they count as nothing.
        restarts: times the other placement could not be kept and the history's was taken again.
    """

    rule: Rule
    plans: int = 0
    passed_up: int = 0
    moves: int = 0
    jobs_paused: int = 0
    saved_gpu_s: float = 0.0
    lost_gpu_s: float = 0.0
    intervals: int = 0
    unpredicted: int = 0
    restarts: int = 0

    @property
    def net_gpu_s(self) -> float:
        """Saved less lost."""
        return self.saved_gpu_s - self.lost_gpu_s


@dataclass(slots=True)
class _World:
    """Where the groups that plans have moved stand, as long as the history leaves them alone."""

    seen: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    kept: dict[Key, tuple[tuple[str, ...], tuple[int, ...] | None]] = field(default_factory=dict)


def replay(
    history: Sequence[Snapshot],
    rule: Rule,
    *,
    time_limit_s: float | None = None,
    longest_gap_s: float = LONGEST_GAP_S,
    on_step: Callable[[], None] = lambda: None,
) -> Savings:
    """Replay ``history`` under ``rule``.

    Args:
        history: snapshots of one cluster in any order; they are replayed by time.
        time_limit_s: for each plan; by default each snapshot's own.
        longest_gap_s: of an interval between snapshots at most this much counts.
        on_step: called after each snapshot.

    Returns:
        The savings; the last snapshot only ends the last interval.
    """
    ordered = by_time(history)
    savings = Savings(rule)
    world = _World()
    stay = [{job.id for job in later.jobs} for later in ordered[1:]] + [set()]
    for snapshot, seconds, staying in zip(ordered, _intervals(ordered, longest_gap_s), stay, strict=True):
        if seconds > 0:
            ours = _meet(snapshot, world, savings)
            ours = _act(ours, rule, time_limit_s, savings)
            _remember(snapshot, ours, world)
            _count(snapshot, ours, seconds, staying, savings)
        on_step()
    return savings


def by_time(history: Sequence[Snapshot]) -> list[Snapshot]:
    """Oldest first; of one time by sequence."""
    return sorted(history, key=lambda snapshot: (_instant(snapshot), snapshot.sequence or 0))


def _instant(snapshot: Snapshot) -> float:
    return datetime.fromisoformat(snapshot.taken_at).timestamp()


def _intervals(ordered: Sequence[Snapshot], longest_s: float) -> Iterator[float]:
    times = [_instant(snapshot) for snapshot in ordered]
    for index in range(len(times)):
        yield min(longest_s, times[index + 1] - times[index]) if index + 1 < len(times) else 0.0


def _meet(snapshot: Snapshot, world: _World, savings: Savings) -> Snapshot:
    """The snapshot as it would stand in the other world."""
    kept = {
        (job.id, group.id): world.kept[job.id, group.id]
        for job, group in snapshot.groups
        if world.seen.get((job.id, group.id)) == group.workers and (job.id, group.id) in world.kept
    }
    if not kept:
        return snapshot
    places = _settle(snapshot, {key: nodes for key, (nodes, _) in kept.items()})
    if places is not None:
        orders = {key: order for key, (nodes, order) in kept.items() if places[key] == nodes}
        try:
            return _placed(snapshot, places, orders)
        except InvalidSnapshot:  # pragma: no cover - a last resort: the history's own placement is valid
            pass
    savings.restarts += 1
    world.kept.clear()
    return snapshot


def _settle(snapshot: Snapshot, wanted: Mapping[Key, tuple[str, ...]]) -> dict[Key, tuple[str, ...]] | None:
    """Node of each rank: as wanted, else as in the snapshot, else the nearest free one; None: no room."""
    free = {node.id: node.usable for rack in snapshot.racks for node in rack.nodes}
    open_to = {node.id: node.node_class for rack in snapshot.racks for node in rack.nodes if node.accepts}
    places: dict[Key, list[str]] = {}
    displaced: list[tuple[Key, int, ReplicaGroup, Job]] = []
    for first in (True, False):  # who was there before keeps its slot
        for job, group in snapshot.groups:
            key = (job.id, group.id)
            if (key in wanted) is not first:
                continue
            places[key] = list(wanted.get(key, group.workers))
            for rank, node in enumerate(places[key]):
                if free.get(node, 0) >= group.slots_per_worker:
                    free[node] -= group.slots_per_worker
                else:
                    displaced.append((key, rank, group, job))
    for key, rank, group, job in displaced:
        classes = job.classes or {snapshot.node_by_id[node].node_class for node in group.workers}
        rack = snapshot.rack_of[group.workers[rank]]
        near = {node.id for node in rack.nodes}
        rooms = [n for n, c in open_to.items() if c in classes and free[n] >= group.slots_per_worker]
        if not rooms:
            return None
        node = min(rooms, key=lambda name: (name not in near, free[name]))
        places[key][rank] = node
        free[node] -= group.slots_per_worker
    return {key: tuple(nodes) for key, nodes in places.items()}


def _placed(
    snapshot: Snapshot,
    places: Mapping[Key, tuple[str, ...]],
    orders: Mapping[Key, tuple[int, ...] | None],
) -> Snapshot:
    jobs = tuple(
        replace(
            job,
            replica_groups=tuple(
                replace(
                    group,
                    workers=places.get((job.id, group.id), group.workers),
                    order=orders.get((job.id, group.id), group.order),
                )
                for group in job.replica_groups
            ),
        )
        for job in snapshot.jobs
    )
    return replace(snapshot, jobs=jobs)


def _act(ours: Snapshot, rule: Rule, time_limit_s: float | None, savings: Savings) -> Snapshot:
    """Plan as the rule says; the placement after it."""
    plan = make_plan(_bounded(ours, rule.threshold), time_limit_s=time_limit_s)
    if not plan.moves and not any(ring.changed for ring in plan.rings):
        return ours
    if rule.worthwhile_only and plan.worthwhile is False:  # as executions refuse it; null goes ahead
        savings.passed_up += 1
        return ours
    savings.plans += 1
    savings.moves += plan.moves_needed
    savings.jobs_paused += plan.jobs_paused
    savings.lost_gpu_s += plan.predicted.lost_gpu_s if plan.predicted else 0.0
    return after(ours, plan)


def after(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot with ``plan`` carried out."""
    places = {(job.id, group.id): list(group.workers) for job, group in snapshot.groups}
    for move in plan.moves:
        places[move.job, move.group][move.rank] = move.target
    orders = {(ring.job, ring.group): ring.order for ring in plan.rings if ring.changed}
    return _placed(snapshot, {key: tuple(nodes) for key, nodes in places.items()}, orders)


def _bounded(snapshot: Snapshot, most: int | None) -> Snapshot:
    """With no more live uplinks a leaf than carry ``most`` flows."""
    if most is None:
        return snapshot
    count = max(1, most // snapshot.fabric.flows_per_uplink)
    racks = tuple(replace(rack, spines=rack.spines[:count]) for rack in snapshot.racks)
    fabric = replace(snapshot.fabric, hash=None)  # it may name spines that are gone, and decides nothing
    return replace(snapshot, fabric=fabric, racks=racks)


def _remember(snapshot: Snapshot, ours: Snapshot, world: _World) -> None:
    world.seen = {(job.id, group.id): group.workers for job, group in snapshot.groups}
    world.kept = {
        (job.id, group.id): (group.workers, group.order)
        for (job, group), (_, theirs) in zip(ours.groups, snapshot.groups, strict=True)
        if (group.workers, group.order) != (theirs.workers, theirs.order)
    }


def _count(
    snapshot: Snapshot, ours: Snapshot, seconds: float, staying: Collection[str], savings: Savings
) -> None:
    """Add what an interval saves; ``staying``: jobs that are still there after it."""
    savings.intervals += 1
    try:
        was = slowdowns(snapshot)
        would_be = slowdowns(ours)
    except Unpredictable:
        savings.unpredicted += 1
        return
    slots: Counter[str] = Counter()
    for job, group in snapshot.groups:
        slots[job.id] += len(group.workers) * group.slots_per_worker
    left = {job.id: job.remaining_s for job in snapshot.jobs}
    for job_id in sorted(was.keys() | would_be.keys()):
        slowed, remaining_s = was.get(job_id, 1.0), left[job_id]
        ran = seconds
        if job_id not in staying and remaining_s is not None:  # it ended, and knew when
            ran = min(seconds, remaining_s * slowed)
        savings.saved_gpu_s += slots[job_id] * ran * (1 - would_be.get(job_id, 1.0) / slowed)
