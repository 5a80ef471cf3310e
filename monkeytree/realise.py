"""From counts to named workers: which rank leaves which node for which.

On a site whose workers all have the same size any choice of nodes works. Where sizes mix, a bounded
search packs the arrivals; a site it cannot pack is reported, to be split into its nodes and solved
again, since then the program itself decides node by node. Each rank moves at most once, and the
ranks of a group are matched to their targets with the fewest transfers between pods, then between
racks, then in ring order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .counts import Counts
from .problem import Problem
from .snapshot import Snapshot

_PACKING_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class RankMove:
    """One rank of one group (index of ``Snapshot.groups``) changes node."""

    group: int
    rank: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """Sites whose counts the packing could not put on nodes: split them and solve again."""

    sites: tuple[int, ...]


def realise(snapshot: Snapshot, problem: Problem, counts: Counts) -> list[RankMove] | Unplaceable:
    """Named moves for counts, or the sites that have to be split first."""
    leaving: dict[int, list[str]] = defaultdict(list)
    arriving: dict[int, list[str]] = defaultdict(list)
    failed: list[int] = []
    for site in sorted({site for _, site in counts.out} | {site for _, site in counts.into}):
        packed = _Packing(snapshot, problem, counts, site).solve()
        if packed is None:
            failed.append(site)
            continue
        for g, node in packed.leaving:
            leaving[g].append(node)
        for g, node in packed.arriving:
            arriving[g].append(node)
    if failed:
        return Unplaceable(tuple(failed))
    moves: list[RankMove] = []
    for g in sorted(leaving):
        moves += _match(snapshot, problem.members[g].index, leaving[g], arriving[g])
    return moves


@dataclass(frozen=True, slots=True)
class _Packed:
    leaving: list[tuple[int, str]]
    arriving: list[tuple[int, str]]


class _Packing:
    """Chooses the nodes that one site's workers leave and enter."""

    def __init__(self, snapshot: Snapshot, problem: Problem, counts: Counts, site: int) -> None:
        self.nodes = problem.sites[site].nodes
        self.slots = {g: member.slots for g, member in enumerate(problem.members)}
        self.free = dict(zip(self.nodes, problem.sites[site].free_of_fixed, strict=True))
        self.residents: dict[int, Counter[str]] = {}
        inside = set(self.nodes)
        for g, member in enumerate(problem.members):
            if member.movable.get(site):
                group = snapshot.groups[member.index][1]
                here = Counter(
                    node
                    for rank, node in enumerate(group.workers)
                    if node in inside and rank not in group.pinned
                )
                self.residents[g] = here
                for node, count in here.items():
                    self.free[node] -= count * member.slots
        self.spare_before = dict(self.free)
        self.going = [g for (g, at), n in sorted(counts.out.items()) if at == site for _ in range(n)]
        coming = [g for (g, at), n in sorted(counts.into.items()) if at == site for _ in range(n)]
        self.coming = sorted(coming, key=lambda g: -self.slots[g])
        self.steps = _PACKING_STEPS
        self.left_from: list[tuple[int, str]] = []
        self.placed: list[tuple[int, str]] = []

    def solve(self) -> _Packed | None:
        """Nodes to leave and enter; None if the search gave up or there are none."""
        if self._leave(0):
            return _Packed(self.left_from, self.placed)
        return None

    def _leave(self, position: int) -> bool:
        if position == len(self.going):
            return self._enter(0)
        g = self.going[position]
        again = position > 0 and self.going[position - 1] == g
        start = self.left_from[-1][1] if again else ""
        # Same-group leavers in node order only: permutations of them are the same choice.
        for node in sorted(self.residents[g], key=self.nodes.index):
            if self.residents[g][node] == 0 or (start and self._before(node, start)):
                continue
            if self._spent():
                return False
            self.residents[g][node] -= 1
            self.free[node] += self.slots[g]
            self.left_from.append((g, node))
            if self._leave(position + 1):
                return True
            self.left_from.pop()
            self.free[node] -= self.slots[g]
            self.residents[g][node] += 1
        return False

    def _enter(self, position: int) -> bool:
        if position == len(self.coming):
            return True
        slots = self.slots[self.coming[position]]
        tried: set[tuple[int, int]] = set()
        # Slots that are free already come first: entering those needs no waiting.
        order = sorted(self.nodes, key=lambda node: (self.spare_before[node] < slots, self.free[node]))
        for node in order:
            kind = (self.free[node], min(self.spare_before[node], slots))
            if self.free[node] < slots or kind in tried:
                continue
            tried.add(kind)
            if self._spent():
                return False
            self.free[node] -= slots
            self.spare_before[node] -= slots
            self.placed.append((self.coming[position], node))
            if self._enter(position + 1):
                return True
            self.placed.pop()
            self.spare_before[node] += slots
            self.free[node] += slots
        return False

    def _before(self, node: str, other: str) -> bool:
        return self.nodes.index(node) < self.nodes.index(other)

    def _spent(self) -> bool:
        self.steps -= 1
        return self.steps < 0


def _match(snapshot: Snapshot, index: int, sources: Sequence[str], targets: Sequence[str]) -> list[RankMove]:
    """Which rank goes where: within the rack, then within the pod, then in ring order."""
    group = snapshot.groups[index][1]
    ranks = _leavers(group.workers, group.ring_order, group.pinned, sources)
    pairs: list[tuple[int, str]] = []
    waiting = list(targets)
    for closeness in (_same_rack, _same_pod, _anywhere):
        for rank in list(ranks):
            near = [node for node in waiting if closeness(snapshot, group.workers[rank], node)]
            if near:
                ranks.remove(rank)
                waiting.remove(near[0])
                pairs.append((rank, near[0]))
    return [RankMove(index, rank, group.workers[rank], target) for rank, target in sorted(pairs)]


def _leavers(
    workers: Sequence[str], order: Sequence[int], pinned: frozenset[int], sources: Sequence[str]
) -> list[int]:
    """Ranks that leave ``sources``, the last of each node in ring order, in ring order."""
    wanted = Counter(sources)
    chosen: list[int] = []
    for rank in reversed(order):
        if rank not in pinned and wanted[workers[rank]]:
            wanted[workers[rank]] -= 1
            chosen.append(rank)
    return chosen[::-1]


def _same_rack(snapshot: Snapshot, one: str, other: str) -> bool:
    return snapshot.rack_of[one] is snapshot.rack_of[other]


def _same_pod(snapshot: Snapshot, one: str, other: str) -> bool:
    return bool(snapshot.pods) and snapshot.rack_of[one].pod == snapshot.rack_of[other].pod


def _anywhere(snapshot: Snapshot, one: str, other: str) -> bool:
    return True


def free_slots(snapshot: Snapshot, nodes: Mapping[str, int]) -> dict[str, int]:
    """Free usable slots of each node, given the slots occupied on each."""
    return {name: node.usable - nodes.get(name, 0) for name, node in snapshot.node_by_id.items()}
