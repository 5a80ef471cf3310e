"""Small clusters exactly: cheapest path through the sets of transfers already done.

Which slots are free depends only on which transfers are done, so a schedule is a path from the
empty set to the full one through sets that overfill no node. Costs add up along it; A* with the
jobs still to run as bound finds the least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from heapq import heappop, heappush

from .budget import Budget
from .model import Transfer, Unit, count_unstaged
from .timeline import Cost

LARGEST = 12


def schedule_exactly(
    transfers: Sequence[Transfer],
    units: Sequence[Unit],
    free: Mapping[str, int],
    tight: Set[str],
    below: Cost,
    budget: Budget,
) -> dict[Unit, int] | None:
    """The least (staged, (job, wave) pairs, waves), if it is less than ``below``.

    Args:
        units: at most ``LARGEST`` of them, else None is returned.
        tight: nodes where slots are short; the others never hold anything up.

    Returns:
        a wave for each unit, or None: nothing better, or the budget ended first.
    """
    if len(units) > LARGEST:
        return None
    return _Search(transfers, units, free, tight, budget).solve(below)


class _Search:
    """Sets of units are bit masks; ``inbound``, ``room`` and ``jobs`` are tables over all of them."""

    def __init__(
        self,
        transfers: Sequence[Transfer],
        units: Sequence[Unit],
        free: Mapping[str, int],
        tight: Set[str],
        budget: Budget,
    ) -> None:
        self.units = units
        self.budget = budget
        self.full = (1 << len(units)) - 1
        arcs = [[transfers[member] for member in unit.members] for unit in units]
        touched = {node for group in arcs for arc in group for node in (arc.source, arc.target)}
        self.nodes = sorted(touched & tight)
        self.landings = [
            sorted(
                (arc.slots, 1 << bit) for bit, group in enumerate(arcs) for arc in group if arc.target == node
            )
            for node in self.nodes
        ]
        self._tabulate(arcs, free)

    def _tabulate(self, arcs: Sequence[Sequence[Transfer]], free: Mapping[str, int]) -> None:
        numbers = {job: 1 << number for number, job in enumerate(dict.fromkeys(u.job for u in self.units))}
        into = [[sum(a.slots for a in group if a.target == node) for node in self.nodes] for group in arcs]
        out = [[sum(a.slots for a in group if a.source == node) for node in self.nodes] for group in arcs]
        self.jobs = [0]
        self.inbound = [tuple(0 for _ in self.nodes)]
        self.room = [tuple(free[node] for node in self.nodes)]
        for done in range(1, self.full + 1):
            bit = done.bit_length() - 1
            rest = done ^ (1 << bit)
            self.jobs.append(self.jobs[rest] | numbers[self.units[bit].job])
            self.inbound.append(tuple(a + b for a, b in zip(self.inbound[rest], into[bit], strict=True)))
            gain = zip(self.room[rest], out[bit], into[bit], strict=True)
            self.room.append(tuple(room + more - less for room, more, less in gain))
        twin = self._twins(arcs)
        self.valid = [
            all(room >= 0 for room in self.room[done]) and self._in_turn(done, twin)
            for done in range(self.full + 1)
        ]

    def _twins(self, arcs: Sequence[Sequence[Transfer]]) -> list[int]:
        """For each unit the bit of the one before it that is interchangeable with it, or 0."""
        seen: dict[tuple[Transfer, ...], int] = {}
        before: list[int] = []
        for bit, group in enumerate(arcs):
            key = tuple(group)
            before.append(seen.get(key, 0))
            seen[key] = 1 << bit
        return before

    def _in_turn(self, done: int, twin: Sequence[int]) -> bool:
        """Interchangeable units run in the order given: one of many equal paths is enough."""
        return all(not done >> bit & 1 or done & before == before for bit, before in enumerate(twin))

    def solve(self, below: Cost) -> dict[Unit, int] | None:
        start = (0, self.jobs[self.full].bit_count(), 1)
        queue: list[tuple[Cost, int]] = [(start, 0)]
        spent: dict[int, Cost] = {0: (0, 0, 0)}
        came_from: dict[int, int] = {}
        closed: set[int] = set()
        while queue:
            bound, done = heappop(queue)
            if bound >= below:
                return None
            if done == self.full:
                return self._waves(came_from)
            if done in closed:
                continue
            closed.add(done)
            rest = self.full ^ done
            self.budget.transitions -= 1 << rest.bit_count()
            if self.budget.transitions < 0:
                return None
            self._expand(done, rest, spent, came_from, queue, below)
        return None

    def _expand(
        self,
        done: int,
        rest: int,
        spent: dict[int, Cost],
        came_from: dict[int, int],
        queue: list[tuple[Cost, int]],
        below: Cost,
    ) -> None:
        staged, pairs, waves = spent[done]
        step = rest
        while step:
            after = done | step
            if self.valid[after]:
                left = self.jobs[self.full ^ after].bit_count()
                pairs_after = pairs + self.jobs[step].bit_count()
                if (staged, pairs_after + left, waves + 1) < below:
                    cost = (staged + self._staged(done, step), pairs_after, waves + 1)
                    bound = (cost[0], pairs_after + left, waves + 1 + (after != self.full))
                    if bound < below and (after not in spent or cost < spent[after]):
                        spent[after] = cost
                        came_from[after] = done
                        heappush(queue, (bound, after))
            step = (step - 1) & rest

    def _staged(self, done: int, step: int) -> int:
        room = self.room[done]
        staged = 0
        for node, inbound in enumerate(self.inbound[step]):
            if inbound > room[node]:
                landings = [slots for slots, bit in self.landings[node] if step & bit]
                staged += len(landings) - count_unstaged(landings, room[node])
        return staged

    def _waves(self, came_from: Mapping[int, int]) -> dict[Unit, int]:
        path = [self.full]
        while path[-1]:
            path.append(came_from[path[-1]])
        path.reverse()
        return {
            unit: next(wave for wave in range(len(path) - 1) if path[wave + 1] >> bit & 1)
            for bit, unit in enumerate(self.units)
        }
