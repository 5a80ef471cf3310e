"""What cannot be met together: the conflict behind a plan that does not comply."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from monkeytree.placement import Arrangement, degrees
from monkeytree.plan import Conflict
from monkeytree.problem import job_slots
from monkeytree.snapshot import Snapshot

from .demands import Demands, Part, Undecided
from .hopeless import hopeless_drains, hopeless_racks
from .irreducible import irreducible


def conflict(snapshot: Snapshot, *, deadline: float) -> Conflict | None:
    """An irreducible conflict of a snapshot that has no compliant placement (``max_moves`` set aside).

    Drains that cannot be met by themselves are told by themselves, as they come before bounds.

    Args:
        deadline: of ``time.monotonic``; the question at hand may overrun it a little.

    Returns:
        None where there is none, or where it was not found and proved in time.
    """
    demands = Demands(snapshot, deadline)
    try:
        wanted, jobs = _narrowed(snapshot, demands)
        needed = irreducible(jobs, lambda some: demands.impossible([*some, *wanted]))
        if needed is None:
            return None
        kept = irreducible(wanted, lambda some: demands.impossible([*needed, *some]))
    except Undecided:
        return None
    assert kept is not None, "the jobs kept are in conflict with all demands together"
    return _written(snapshot, [*kept, *needed])


def _narrowed(snapshot: Snapshot, demands: Demands) -> tuple[list[Part], list[Part]]:
    """Demands and jobs to look for a conflict among, likely ones first.

    One hopeless demand and the jobs on it, where there is one; else all jobs with the drains, where
    these are in conflict; else everything.
    """
    drains = [Part("drain", node.id) for node in snapshot.node_by_id.values() if node.drain]
    broken, met = _bounds(snapshot)
    jobs = _most_on(snapshot, _nodes_of(snapshot, {*drains, *broken}))
    stuck = demands.impossible([*jobs, *drains])
    hopeless = hopeless_drains(snapshot) if stuck else hopeless_racks(snapshot)
    for part in hopeless[:1]:
        near = _most_on(snapshot, _nodes_of(snapshot, {part}), others=False)
        if demands.impossible([*near, part]):
            return [part], near
    return drains if stuck else [*broken, *drains, *met], jobs


def _nodes_of(snapshot: Snapshot, parts: Collection[Part]) -> set[str]:
    """Nodes that drains, racks and pods among ``parts`` are about."""
    return {
        node.id
        for rack in snapshot.racks
        for node in rack.nodes
        if Part("drain", node.id) in parts
        or Part("rack", rack.id) in parts
        or (rack.pod is not None and Part("pod", rack.pod) in parts)
    }


def _bounds(snapshot: Snapshot) -> tuple[list[Part], list[Part]]:
    """Racks and pods over their bound, the worst first; and the others, the fullest first."""
    found = degrees(snapshot, Arrangement.of(snapshot))
    spare = {
        Part("rack", rack.id): snapshot.bound(rack)
        - max(found.racks.get((rack.id, rail), 0) for rail in range(snapshot.fabric.rails))
        for rack in snapshot.racks
    }
    for pod in snapshot.pods:
        spare[Part("pod", pod.id)] = snapshot.pod_bound(pod) - found.pods.get(pod.id, 0)
    ranked = sorted(spare, key=lambda part: spare[part])
    return [part for part in ranked if spare[part] < 0], [part for part in ranked if spare[part] >= 0]


def _most_on(snapshot: Snapshot, nodes: Collection[str], *, others: bool = True) -> list[Part]:
    """Jobs with most workers on ``nodes`` first, larger before smaller; ``others``: those with none too."""
    weight: dict[Part, tuple[int, int]] = {}
    for job in snapshot.jobs:
        here = sum(node in nodes for group in job.replica_groups for node in group.workers)
        if here or others:
            weight[Part("job", job.id)] = here, job_slots(job)
    return sorted(weight, key=lambda part: weight[part], reverse=True)


def _written(snapshot: Snapshot, parts: Sequence[Part]) -> Conflict:
    found = set(parts)
    return Conflict(
        jobs=tuple(job.id for job in snapshot.jobs if Part("job", job.id) in found),
        racks=tuple(rack.id for rack in snapshot.racks if Part("rack", rack.id) in found),
        pods=tuple(pod.id for pod in snapshot.pods if Part("pod", pod.id) in found),
        drains=tuple(name for name in snapshot.node_by_id if Part("drain", name) in found),
    )
