"""As early as possible: waves for the transfers of one cluster of moves.

All transfers whose target has room run now; what they leave is room for the next wave. Think of
free slots as holes: a transfer m -> n moves a hole from n to m. A hole can be led astray, so that
transfers are left behind without one. As with Euler trails, that is prevented by a tree: each node
that ends full keeps one incoming transfer for last, chosen so that these lead every hole on to a
node that ends with room. With equal slots no transfer is then ever left behind, hence none is
staged that need not be. With unequal slots or restarts the same order is a heuristic, and where
nothing can run, a small set that closes on itself runs staged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from .model import Transfer, Unit, count_unstaged

CLOSURES_COMPARED = 12
CLOSURE_LENGTH = 12


def schedule_greedily(
    transfers: Sequence[Transfer], units: Sequence[Unit], free: Mapping[str, int]
) -> dict[Unit, int]:
    """A wave for each unit, from 0 without gaps. ``units`` are all that touch their short nodes."""
    part = _Part(transfers, units, free)
    waves: dict[Unit, int] = {}
    wave = 0
    hopeless = dict.fromkeys(part.hopeless_units())
    chosen = [*hopeless, *part.fitting([unit for unit in units if unit not in hopeless])]
    while part.remaining:
        chosen = chosen or part.closing_units()
        for unit in chosen:
            waves[unit] = wave
        wave += 1
        chosen = part.fitting(part.run(chosen))
    return waves


class _Part:
    def __init__(self, transfers: Sequence[Transfer], units: Sequence[Unit], free: Mapping[str, int]) -> None:
        self.transfers = transfers
        self.order = {unit: position for position, unit in enumerate(units)}
        self.remaining = dict.fromkeys(units)
        self.incoming: dict[str, dict[Unit, None]] = {}
        self.outgoing: dict[str, dict[Unit, None]] = {}
        self.arcs = [transfers[member] for unit in units for member in unit.members]
        self.room = {node: free[node] for arc in self.arcs for node in (arc.source, arc.target)}
        for unit in units:
            for member in unit.members:
                self.incoming.setdefault(transfers[member].target, {})[unit] = None
                self.outgoing.setdefault(transfers[member].source, {})[unit] = None
        self.strict = len({arc.slots for arc in self.arcs}) <= 1 and len(self.arcs) == len(units)
        self.last: dict[str, Unit] = {}
        self.led = self._lead_holes()

    def _lead_holes(self) -> set[str]:
        """Nodes from which holes reach one that ends with room; sets the last transfer of the others."""
        final = dict(self.room)
        landing: dict[str, int] = {}
        for arc in self.arcs:
            final[arc.source] += arc.slots
            final[arc.target] -= arc.slots
            landing[arc.target] = landing.get(arc.target, 0) + arc.slots
        led = {node for node in final if final[node] > 0 or self.room[node] >= landing.get(node, 0)}
        queue = deque(node for node in final if node in led)
        while queue:
            node = queue.popleft()
            for unit in self.outgoing.get(node, ()):
                for arc in (self.transfers[member] for member in unit.members):
                    if arc.source == node and arc.target not in led:
                        led.add(arc.target)
                        self.last[arc.target] = unit
                        queue.append(arc.target)
        return led

    def hopeless_units(self) -> list[Unit]:
        """Transfers among nodes that no hole ever reaches: staged in any order, so all at once."""
        hopeless: list[Unit] = []
        for unit in self.remaining:
            reached = {self.transfers[member].target in self.led for member in unit.members}
            if len(reached) > 1:
                return []
            if reached == {False}:
                hopeless.append(unit)
        return hopeless

    def fitting(self, candidates: Sequence[Unit]) -> list[Unit]:
        """Which of the candidates run unstaged in the next wave."""
        left = dict[str, int]()
        waiting = dict[str, int]()
        chosen: list[Unit] = []
        for unit in sorted(candidates, key=self._urgency):
            needs = self._needs(unit)
            if any(left.get(node, self.room[node]) < slots for node, slots in needs.items()):
                continue
            if self.strict and self._must_wait(unit, waiting):
                continue
            chosen.append(unit)
            for node, slots in needs.items():
                left[node] = left.get(node, self.room[node]) - slots
                waiting[node] = waiting.get(node, len(self.incoming[node])) - 1
        return chosen

    def run(self, chosen: Sequence[Unit]) -> list[Unit]:
        """Carry out one wave; returns the units that may have become able to run."""
        touched: dict[str, None] = {}
        for unit in chosen:
            del self.remaining[unit]
            for arc in (self.transfers[member] for member in unit.members):
                self.room[arc.source] += arc.slots
                self.room[arc.target] -= arc.slots
                self.incoming[arc.target].pop(unit, None)
                self.outgoing[arc.source].pop(unit, None)
                touched[arc.source] = touched[arc.target] = None
        able = [node for node in touched if self.room[node] > 0]
        return list(dict.fromkeys(unit for node in able for unit in self.incoming.get(node, ())))

    def closing_units(self) -> list[Unit]:
        """Where nothing fits: sets that can run in one wave, each with as few staged as any found.

        Sets that share no node do not disturb each other, so they run side by side.
        """
        starts = sorted(self.remaining, key=lambda unit: (self._size(unit), self.order[unit]))
        closures = [found for start in starts if (found := self._close(start, CLOSURE_LENGTH))]
        if not closures:
            closures = [self._close(start, len(starts)) for start in starts[:CLOSURES_COMPARED]]
        ranked = sorted(closures, key=lambda units: (self._staged(units), len(units)))
        fewest = self._staged(ranked[0])
        chosen: list[Unit] = []
        busy: set[str] = set()
        for units in ranked:
            nodes = {node for unit in units for node in self._nodes(unit)}
            if busy.isdisjoint(nodes) and self._staged(units) == fewest:
                chosen += units
                busy |= nodes
        return chosen

    def _close(self, start: Unit, longest: int) -> list[Unit]:
        """Add departures from nodes that would be overfull until none is; [] if that takes too many."""
        chosen = dict.fromkeys([start])
        balance: dict[str, int] = {}
        self._add(balance, start)
        queue = deque(balance)
        while queue:
            node = queue.popleft()
            while self.room[node] + balance[node] < 0:
                if len(chosen) >= longest:
                    return []
                lacking = -self.room[node] - balance[node]
                able = [unit for unit in self.outgoing[node] if unit not in chosen]
                best = min(able, key=lambda unit: self._closing_order(unit, node, lacking, balance))
                chosen[best] = None
                self._add(balance, best)
                queue.extend(self._needs(best))
        return list(chosen)

    def _closing_order(
        self, unit: Unit, node: str, lacking: int, balance: Mapping[str, int]
    ) -> tuple[int, int, int]:
        arcs = [self.transfers[member] for member in unit.members]
        released = sum(arc.slots for arc in arcs if arc.source == node)
        overfull = sum(
            max(0, slots - self.room[target] - balance.get(target, 0))
            for target, slots in self._needs(unit).items()
        )
        return overfull + max(0, lacking - released), len(arcs), self.order[unit]

    def _add(self, balance: dict[str, int], unit: Unit) -> None:
        for arc in (self.transfers[member] for member in unit.members):
            balance[arc.source] = balance.get(arc.source, 0) + arc.slots
            balance[arc.target] = balance.get(arc.target, 0) - arc.slots

    def _staged(self, units: Sequence[Unit]) -> int:
        landings: dict[str, list[int]] = {}
        for arc in (self.transfers[member] for unit in units for member in unit.members):
            landings.setdefault(arc.target, []).append(arc.slots)
        return sum(len(all_) - count_unstaged(sorted(all_), self.room[n]) for n, all_ in landings.items())

    def _must_wait(self, unit: Unit, waiting: Mapping[str, int]) -> bool:
        """Whether it is the transfer its target keeps for last, and others still wait there."""
        node = self.transfers[unit.members[0]].target
        return self.last.get(node) is unit and waiting.get(node, len(self.incoming[node])) > 1

    def _urgency(self, unit: Unit) -> tuple[bool, bool, int]:
        """Kept for last; then those that make room somebody waits for; then in the order given."""
        arcs = [self.transfers[member] for member in unit.members]
        kept = any(self.last.get(arc.target) is unit for arc in arcs)
        awaited = any(self.incoming.get(arc.source) for arc in arcs)
        return kept, not awaited, self.order[unit]

    def _needs(self, unit: Unit) -> dict[str, int]:
        needs: dict[str, int] = {}
        for arc in (self.transfers[member] for member in unit.members):
            needs[arc.target] = needs.get(arc.target, 0) + arc.slots
        return needs

    def _nodes(self, unit: Unit) -> list[str]:
        arcs = (self.transfers[member] for member in unit.members)
        return [node for arc in arcs for node in (arc.source, arc.target)]

    def _size(self, unit: Unit) -> int:
        return sum(self.transfers[member].slots for member in unit.members)
