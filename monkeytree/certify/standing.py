"""Where each group stands, as far as certificates need to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from monkeytree.placement import sends
from monkeytree.problem import accepted_classes, may_change
from monkeytree.ring import departures
from monkeytree.snapshot import Rack, Snapshot


@dataclass(frozen=True, slots=True)
class Standing:
    """One replica group; counts are by rack id.

    Attributes:
        number: index of the group in ``Snapshot.groups``.
        size: workers, n.
        slots: slots a worker occupies.
        rings: rings by rail; all 0 where the group sends nothing.
        count: workers, a.
        stuck: of these, the ones that cannot move.
        leaving: those on draining nodes that can.
        gone: those on draining nodes, whether they can move or not.
        free_to_leave: those that can move and are on no draining node.
        departures: of the ring order in force.
        classes: of the nodes it may move to.
        nodes: workers by node id.
        frozen: no plan moves or reorders it.
    """

    number: int
    size: int
    slots: int
    rings: tuple[int, ...]
    count: Mapping[str, int]
    stuck: Mapping[str, int]
    leaving: Mapping[str, int]
    gone: Mapping[str, int]
    free_to_leave: Mapping[str, int]
    departures: Mapping[str, int]
    classes: frozenset[str]
    nodes: Mapping[str, int]
    frozen: bool

    @property
    def spread(self) -> bool:
        """Whether it counts somewhere and a plan may change that."""
        return not self.frozen and any(self.rings) and len(self.count) > 1


def standings(snapshot: Snapshot) -> list[Standing]:
    """All groups of a snapshot, in its order."""
    rails = snapshot.fabric.rails
    rack_of = {node.id: rack.id for rack in snapshot.racks for node in rack.nodes}
    draining = {name for name, node in snapshot.node_by_id.items() if node.drain}
    found = []
    for number, (job, group) in enumerate(snapshot.groups):
        racks = [rack_of[node] for node in group.workers]
        frozen = not may_change(job, group)
        stuck = set(range(len(racks))) if frozen else group.pinned
        drained = [rank for rank, node in enumerate(group.workers) if node in draining]
        found.append(
            Standing(
                number=number,
                size=len(racks),
                slots=group.slots_per_worker,
                rings=tuple(group.rings_on_rail(rail, rails) if sends(group) else 0 for rail in range(rails)),
                count=Counter(racks),
                stuck=Counter(racks[rank] for rank in stuck),
                leaving=Counter(racks[rank] for rank in drained if rank not in stuck),
                gone=Counter(racks[rank] for rank in drained),
                free_to_leave=Counter(
                    rack
                    for rank, rack in enumerate(racks)
                    if rank not in stuck and group.workers[rank] not in draining
                ),
                departures=departures(group.ring_order, racks) if sends(group) else {},
                classes=accepted_classes(snapshot, job),
                nodes=Counter(group.workers),
                frozen=frozen,
            )
        )
    return found


def racks_in_trouble(snapshot: Snapshot, groups: list[Standing]) -> list[str]:
    """Racks over their bound, or with workers that have to leave a node; in the snapshot's order."""
    loads: Counter[tuple[str, int]] = Counter()
    drained: set[str] = set()
    for group in groups:
        drained.update(group.leaving)
        for rack, times in group.departures.items():
            for rail, rings in enumerate(group.rings):
                loads[rack, rail] += times * rings
    rails = range(snapshot.fabric.rails)
    return [
        rack.id
        for rack in snapshot.racks
        if rack.id in drained or any(loads[rack.id, rail] > snapshot.bound(rack) for rail in rails)
    ]


def lasting_load(snapshot: Snapshot, groups: list[Standing]) -> Counter[tuple[str, int]]:
    """f_t by (rack id, rail) of the groups that no plan changes."""
    loads: Counter[tuple[str, int]] = Counter()
    for group in groups:
        if group.frozen:
            for rack, times in group.departures.items():
                for rail, rings in enumerate(group.rings):
                    loads[rack, rail] += times * rings
    return loads


class Rooms:
    """How many workers of a group a rack can take, node by node."""

    def __init__(self, snapshot: Snapshot, groups: list[Standing]) -> None:
        self._racks = {rack.id: rack for rack in snapshot.racks}
        self._held: Counter[str] = Counter()
        for (job, group), standing in zip(snapshot.groups, groups, strict=True):
            ranks = range(len(group.workers)) if not may_change(job, group) else group.pinned
            for rank in ranks:
                self._held[group.workers[rank]] += standing.slots

    def newcomers(self, group: Standing, rack: str) -> int:
        """Most workers of ``group`` from other racks that ``rack`` can take."""
        return sum(
            max(0, node.usable - self._held[node.id]) // group.slots
            for node in self._racks[rack].nodes
            if node.accepts and node.node_class in group.classes
        )

    def whole(self, group: Standing, rack: str) -> int:
        """Most workers of ``group`` that can be on ``rack`` at all."""
        most = 0
        for node in self._racks[rack].nodes:
            if node.accepts and node.node_class in group.classes:
                most += node.usable // group.slots
            elif not node.drain:
                most += group.nodes.get(node.id, 0)
        return most

    def slots(self, rack: str, groups: list[Standing]) -> int:
        """Slots of ``rack`` after the drains: accepting nodes, and what stands on cordoned ones."""
        found: Rack = self._racks[rack]
        cordoned = {node.id for node in found.nodes if node.cordoned and not node.drain}
        kept = sum(
            group.slots * workers
            for group in groups
            if rack in group.count and cordoned
            for node, workers in group.nodes.items()
            if node in cordoned
        )
        return kept + sum(node.usable for node in found.nodes if node.accepts)
