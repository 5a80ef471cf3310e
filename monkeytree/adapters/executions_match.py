"""Whether the cluster is still as an execution expects it: pure comparisons that tell every difference.

What is expected is the plan's snapshot with the steps done so far. A worker whose move was begun may be at
its source or at its target, since a snapshot may have been taken meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from monkeytree.snapshot import Job, Node, ReplicaGroup, Snapshot
from monkeytree.wire.agents import WorkerStatus

from .executions_rows import Step

#: More of them say no more.
MOST_LISTED = 50
#: States of a worker that is a member of its job.
_MEMBER = ("training", "paused", "parked")

Rank = tuple[str, str, int]
"""Job, group, rank."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as expected; ``subject`` reads like ``worker A/0/3`` or ``node r1n1``."""

    subject: str
    expected: str
    found: str

    def document(self) -> dict[str, Any]:
        """As it is stored and told."""
        return asdict(self)


def tell(differences: Sequence[Difference]) -> str:
    """The first of them in words."""
    first = differences[0]
    more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
    return f"{first.subject}: expected {first.expected}, found {first.found}{more}"


def placement(planned: Snapshot, steps: Iterable[Step]) -> dict[Rank, str]:
    """Where every worker is once the steps that are ``done`` are."""
    places = {
        (job.id, group.id, rank): node
        for job, group in planned.groups
        for rank, node in enumerate(group.workers)
    }
    for step in steps:
        if step.kind == "move" and step.state == "done" and step.rank is not None and step.target:
            places[step.job, step.group, step.rank] = step.target
    return places


def free_slots(planned: Snapshot, places: Mapping[Rank, str]) -> dict[str, int]:
    """Free slots of every node with workers at ``places``."""
    free = {node_id: node.usable for node_id, node in planned.node_by_id.items()}
    sizes = {(job.id, group.id): group.slots_per_worker for job, group in planned.groups}
    for (job, group, _), node in places.items():
        free[node] -= sizes[job, group]
    return free


def oversubscribed(planned: Snapshot, places: Mapping[Rank, str]) -> list[Difference]:
    """Nodes that hold more than their slots, and more than in the plan's snapshot; who is there."""
    found, before = [], free_slots(planned, placement(planned, ()))
    for node, free in sorted(free_slots(planned, places).items()):
        if free < min(0, before[node]):
            here = sorted(_worker(rank) for rank, where in places.items() if where == node)
            usable = planned.node_by_id[node].usable
            told = f"{usable - free}: {', '.join(here)}"
            found.append(Difference(f"node {node}", f"at most {usable} slots in use", told))
    return found


def snapshot_differences(planned: Snapshot, newer: Snapshot, steps: Sequence[Step]) -> list[Difference]:
    """How ``newer`` differs from ``planned`` with ``steps``, the whole cluster over."""
    found = [
        *_of_jobs(planned, newer, steps),
        *_of_targets(planned, newer, steps),
        *_of_racks(planned, newer),
    ]
    return found[:MOST_LISTED]


def worker_differences(
    places: Mapping[Rank, str],
    jobs: Collection[str],
    told: Mapping[str, Sequence[WorkerStatus]],
    unsettled: Collection[Rank] = (),
) -> list[Difference]:
    """How what agents tell differs from ``places``.

    Args:
        jobs: those about to pause: each of their workers must be where it should. Others need not have
            registered with agents, but those that have must be where they should.
        told: workers by node, for all nodes of those jobs and of their moves.
        unsettled: workers of other jobs that are on their way: wherever they are, it is right.
    """
    seen: dict[Rank, list[str]] = {}
    for node, workers in told.items():
        for worker in workers:
            if worker.state in _MEMBER:
                seen.setdefault((worker.job, worker.group, worker.rank), []).append(node)
    found = []
    for rank, node in places.items():
        if rank[0] in jobs and seen.get(rank) != [node]:
            where = f"on {' and on '.join(seen[rank])}" if rank in seen else "not told by any agent"
            found.append(Difference(_worker(rank), f"on {node}", where))
    for rank, nodes in seen.items():
        known = places.get(rank)
        if rank[0] not in jobs and nodes != [known] and rank not in unsettled:
            expected = "nowhere" if known is None else f"on {known}"
            found.append(Difference(_worker(rank), expected, f"on {' and on '.join(nodes)}"))
    return found[:MOST_LISTED]


def _worker(rank: Rank) -> str:
    return "worker {}/{}/{}".format(*rank)


def _of_jobs(planned: Snapshot, newer: Snapshot, steps: Sequence[Step]) -> Iterator[Difference]:
    allowed: dict[Rank, set[str]] = {rank: {node} for rank, node in placement(planned, ()).items()}
    for step in steps:
        if step.kind == "move" and step.begun and step.rank is not None and step.target:
            allowed[step.job, step.group, step.rank].add(step.target)
    before, now = _groups(planned), _groups(newer)
    for key in before.keys() | now.keys():
        name = "group {}/{}".format(*key)
        if key not in now:
            yield Difference(name, f"{len(before[key][1].workers)} workers", "gone")
        elif key not in before:
            yield Difference(name, "not there", f"{len(now[key][1].workers)} workers")
        else:
            yield from _of_group(name, before[key], now[key], allowed)


def _of_group(
    name: str,
    before: tuple[Job, ReplicaGroup],
    now: tuple[Job, ReplicaGroup],
    allowed: Mapping[Rank, set[str]],
) -> Iterator[Difference]:
    old, new = before[1], now[1]
    if len(old.workers) != len(new.workers):
        yield Difference(name, f"{len(old.workers)} workers", f"{len(new.workers)} workers")
        return
    if old.slots_per_worker != new.slots_per_worker:
        yield Difference(name, f"{old.slots_per_worker} slots a worker", f"{new.slots_per_worker}")
    if before[0].mobility != now[0].mobility:
        yield Difference(name, f"mobility {before[0].mobility}", now[0].mobility)
    for rank, node in enumerate(new.workers):
        key = (before[0].id, old.id, rank)
        if node not in allowed[key]:
            yield Difference(_worker(key), "on " + " or ".join(sorted(allowed[key])), f"on {node}")


def _of_targets(planned: Snapshot, newer: Snapshot, steps: Sequence[Step]) -> Iterator[Difference]:
    """Nodes that something is still to land on."""
    for node_id in sorted({step.target for step in steps if step.target and not step.over}):
        before, now = planned.node_by_id.get(node_id), newer.node_by_id.get(node_id)
        if now is None:
            yield Difference(f"node {node_id}", "there", "gone")
        elif before is None or _receives(now) < _receives(before):
            expected = "nothing" if before is None else f"{_receives(before)} slots that take workers"
            yield Difference(f"node {node_id}", expected, f"{_receives(now)}")


def _receives(node: Node) -> int:
    return node.usable if node.accepts else 0


def _of_racks(planned: Snapshot, newer: Snapshot) -> Iterator[Difference]:
    """Live uplinks: the plan has given each flow one of them."""
    now = {rack.id: rack.spines for rack in newer.racks}
    for rack in planned.racks:
        if rack.id not in now:
            yield Difference(f"rack {rack.id}", "there", "gone")
        elif now[rack.id] != rack.spines:
            expected, found = (", ".join(map(str, spines)) for spines in (rack.spines, now[rack.id]))
            yield Difference(f"rack {rack.id}", f"uplinks to spines {expected}", found or "none")


def _groups(snapshot: Snapshot) -> dict[tuple[str, str], tuple[Job, ReplicaGroup]]:
    return {(job.id, group.id): (job, group) for job, group in snapshot.groups}
