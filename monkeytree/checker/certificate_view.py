"""What the certificates need to know of a snapshot, counted by rack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from .placement import Group, Key, Node, Placement


class View:
    """A placement, with the workers of each group counted by rack."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.groups: tuple[Group, ...] = tuple(placement.groups.values())
        self.count: dict[Key, Counter[str]] = {
            group.key: self._by_rack(group, range(len(group.workers))) for group in self.groups
        }
        self.nodes_of: dict[str, list[Node]] = {rack: [] for rack in placement.racks}
        self.name_of: dict[str, list[str]] = {rack: [] for rack in placement.racks}
        for name, node in placement.nodes.items():
            self.nodes_of[node.rack].append(node)
            self.name_of[node.rack].append(name)
        self._nailed: Counter[str] = Counter()
        occupied: Counter[str] = Counter()
        for group in self.groups:
            for worker in group.workers:
                occupied[worker] += group.slots_per_worker
            for rank in self._nailed_ranks(group):
                self._nailed[group.workers[rank]] += group.slots_per_worker
        # Whoever stands on a node that is too full may stay there.
        self._most = {name: max(node.usable, occupied[name]) for name, node in placement.nodes.items()}

    def fixed(self, group: Group) -> bool:
        """Whether no plan moves or reorders it."""
        return self.placement.jobs[group.job].mobility == "none" or group.order_fixed

    def spread(self, group: Group) -> bool:
        """Whether it loads leaves now and a plan may change that."""
        return group.sends and not self.fixed(group) and len(self.count[group.key]) > 1

    def nailed(self, group: Group) -> Counter[str]:
        """Its workers that cannot move, by rack."""
        return self._by_rack(group, self._nailed_ranks(group))

    def draining(self, group: Group, *, movable: bool) -> Counter[str]:
        """Its workers on draining nodes by rack: all, or only those that can leave."""
        nailed = set(self._nailed_ranks(group)) if movable else set()
        nodes = self.placement.nodes
        ranks = (rank for rank, node in enumerate(group.workers) if nodes[node].drain)
        return self._by_rack(group, (rank for rank in ranks if rank not in nailed))

    def lasting(self, rack: str, rail: int) -> int:
        """Flows on a leaf that no plan takes away: those of fixed groups."""
        return self._lasting()[rack, rail]

    def newcomers(self, group: Group, rack: str) -> int:
        """Workers of ``group`` that the nodes of ``rack`` can take, whatever else leaves them."""
        return sum(
            max(0, node.usable - self._nailed[name]) // group.slots_per_worker
            for name, node in self._entrances(group, rack)
        )

    def most_whole(self, group: Group, rack: str) -> int:
        """Workers of ``group`` that ``rack`` can hold once its drains are done."""
        entrances = dict(self._entrances(group, rack))
        held = sum(self._most[name] // group.slots_per_worker for name in entrances)
        nodes = self.placement.nodes
        return held + sum(
            1
            for worker in group.workers
            if nodes[worker].rack == rack and worker not in entrances and not nodes[worker].drain
        )

    def slots(self, rack: str) -> int:
        """Slots that workers on ``rack`` can have once its drains are done."""
        self._fill_caches()
        return self._slots[rack]

    _slots: Counter[str]
    _flows: Counter[tuple[str, int]]

    def _lasting(self) -> Counter[tuple[str, int]]:
        self._fill_caches()
        return self._flows

    def _fill_caches(self) -> None:
        if hasattr(self, "_slots"):
            return
        self._slots, self._flows = Counter(), Counter()
        nodes = self.placement.nodes
        for name, node in nodes.items():
            if not node.cordoned and not node.drain:
                self._slots[node.rack] += self._most[name]
        for group in self.groups:
            for worker in group.workers:
                if nodes[worker].cordoned and not nodes[worker].drain:
                    # A cordoned node takes nobody: what stands on it now is the most it will hold.
                    self._slots[nodes[worker].rack] += group.slots_per_worker
            if self.fixed(group) and group.sends:
                self._add_flows(group)

    def _add_flows(self, group: Group) -> None:
        racks = [self.placement.rack_of[group.workers[rank]] for rank in group.order]
        for here, there in zip(racks, racks[1:] + racks[:1], strict=True):
            if here != there:
                for rail in range(min(self.placement.rails, group.rings)):
                    self._flows[here, rail] += self.placement.rings_on_rail(group, rail)

    def _entrances(self, group: Group, rack: str) -> Iterator[tuple[str, Node]]:
        classes = self.placement.jobs[group.job].classes
        for name, node in zip(self.name_of[rack], self.nodes_of[rack], strict=True):
            if not node.cordoned and not node.drain and node.node_class in classes:
                yield name, node

    def _nailed_ranks(self, group: Group) -> list[int]:
        ranks = range(len(group.workers))
        return list(ranks) if self.fixed(group) else [rank for rank in ranks if rank in group.pinned]

    def _by_rack(self, group: Group, ranks: Iterable[int]) -> Counter[str]:
        return Counter(self.placement.rack_of[group.workers[rank]] for rank in ranks)
