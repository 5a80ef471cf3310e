"""Why each move is made: what would go wrong if it alone were undone.

Undone alone, a worker is back on its source node while every other move stands, and its group's ring
visits its racks (and pods) one after the other, as rings do after a plan. Then a rack or pod goes over
its bound, or a worker stays on a draining node, or the source node lacks a slot for a worker that
came. In a plan of fewest moves every move has such a reason: had one none, the plan without it would
be as good and shorter. So a move without a reason can be left out of a plan (docs/solver.md).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

from monkeytree.placement import Arrangement, Degrees, degrees, sends
from monkeytree.plan import Move
from monkeytree.snapshot import ReplicaGroup, Snapshot

Place = TypeVar("Place", bound=Hashable)


def because(
    snapshot: Snapshot, after: Arrangement, moves: Sequence[Move], found: Degrees | None = None
) -> list[tuple[str, ...]]:
    """The reasons of each move, in the order of ``moves``; () where there is none.

    Reasons are ``drain:NODE``, ids of racks, ``pod:ID`` and ``move:INDEX`` (contract, section 2):

    - the source node drains;
    - the rack or pod would be over its bound and carry more than it does after the plan;
    - the move with that index in ``moves`` lands on the source node, in this move's wave or later,
      and the node would be overfull. Where several do, each is listed.

    Args:
        after: the arrangement after all moves.
        found: its degrees, where they are known already.
    """
    return list(_Undoing(snapshot, after, moves, found or degrees(snapshot, after)).reasons())


class _Undoing:
    """Undoes one move after the other, each time counting only what that changes."""

    def __init__(self, snapshot: Snapshot, after: Arrangement, moves: Sequence[Move], found: Degrees) -> None:
        self.snapshot, self.after, self.moves, self.found = snapshot, after, moves, found
        moved = {(move.job, move.group) for move in moves}
        self.groups = {
            (job.id, group.id): (at, group)
            for at, (job, group) in enumerate(snapshot.groups)
            if (job.id, group.id) in moved
        }
        self.landings: dict[str, list[int]] = defaultdict(list)
        for index, move in enumerate(moves):
            self.landings[move.target].append(index)
        self.rack_bounds = {rack.id: snapshot.bound(rack) for rack in snapshot.racks}
        self.pod_bounds = {pod.id: snapshot.pod_bound(pod) for pod in snapshot.pods}
        self.on_racks: dict[int, Counter[str]] = {}
        self.on_pods: dict[int, Counter[str]] = {}
        for at, group in self.groups.values():
            if sends(group):
                places = [snapshot.rack_of[node] for node in after.nodes[at]]
                self.on_racks[at] = Counter(place.id for place in places)
                self.on_pods[at] = Counter(place.pod for place in places if place.pod is not None)
        self.free = _free_slots(snapshot, after, {move.source for move in moves})

    def reasons(self) -> Iterator[tuple[str, ...]]:
        """The reasons of each move."""
        for move in self.moves:
            at, group = self.groups[move.job, move.group]
            drain = self.snapshot.node_by_id[move.source].drain
            found = [f"drain:{move.source}"] if drain else []
            if sends(group):
                found += self._racks(move, at, group)
                found += self._pods(move, at, group)
            if self.free[move.source] < group.slots_per_worker:
                found += [
                    f"move:{index}" for index in self.landings[move.source]
                    if self.moves[index].wave >= move.wave
                ]  # fmt: skip
            yield tuple(found)

    def _racks(self, move: Move, at: int, group: ReplicaGroup) -> list[str]:
        """Racks that would be over their bound, and higher than they are."""
        rack_of, rails = self.snapshot.rack_of, self.snapshot.fabric.rails
        grown = _grown(self.on_racks[at], rack_of[move.target].id, rack_of[move.source].id)
        return [
            rack
            for rack in grown
            if any(
                (rings := group.rings_on_rail(rail, rails))
                and self.found.racks.get((rack, rail), 0) + rings > self.rack_bounds[rack]
                for rail in range(min(rails, group.rings))
            )
        ]

    def _pods(self, move: Move, at: int, group: ReplicaGroup) -> list[str]:
        """The same one tier up."""
        here, there = self.snapshot.rack_of[move.target].pod, self.snapshot.rack_of[move.source].pod
        if here is None or there is None:
            return []
        return [
            f"pod:{pod}"
            for pod in _grown(self.on_pods[at], here, there)
            if self.found.pods.get(pod, 0) + group.rings > self.pod_bounds[pod]
        ]


def _grown(workers: Mapping[Place, int], here: Place, there: Place) -> list[Place]:
    """Places that a ring departs from once more when one worker goes back from ``here`` to ``there``.

    ``workers`` counts the group by place with that worker still here. With the workers of a place
    adjacent, a ring departs once from each of its places, unless there is only one.
    """
    if here == there:
        return []
    whole_before = len(workers) == 1
    whole_after = set(workers) <= {here, there} and workers[here] == 1
    if whole_after:
        return []
    if whole_before:
        return [there, here]
    return [] if there in workers else [there]


def _free_slots(snapshot: Snapshot, after: Arrangement, nodes: set[str]) -> dict[str, int]:
    """Usable slots left on ``nodes`` after all moves."""
    free = {node: snapshot.node_by_id[node].usable for node in nodes}
    for (_, group), places in zip(snapshot.groups, after.nodes, strict=True):
        if not nodes.isdisjoint(places):
            for node in places:
                if node in free:
                    free[node] -= group.slots_per_worker
    return free
