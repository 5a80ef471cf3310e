"""What every complying plan of few moves must satisfy, as integer rows with names.

Take any plan that meets all bounds, drains all workers and has at most ``budget`` moves, and read off
it, for a group g and a rack t by number: whether g is on t in part (``fragment g t``) or entirely
(``whole g t``) afterwards, how many workers came to it there (``enters g t``), how many left it there
other than from draining nodes (``leaves g t``), and how many such workers of all other groups left the
rack (``spare t``). Each row below then holds; docs/solver-certificate.md says why, row by row. Racks that the
certificate does not name, and whatever it does not follow, only make the rows weaker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from .certificate_view import View
from .fault import show
from .placement import Group

Terms = dict[str, int]


@dataclass(slots=True)
class Program:
    """Columns from 0 to ``most``, and rows "sum of coefficient x column <= limit"."""

    most: dict[str, int] = field(default_factory=dict)
    rows: dict[str, tuple[Terms, int]] = field(default_factory=dict)

    def column(self, name: str, most: int) -> str:
        self.most[name] = most
        return name

    def at_most(self, name: str, terms: Terms, limit: int) -> None:
        self.rows[name] = (terms, limit)

    def at_least(self, name: str, terms: Terms, limit: int) -> None:
        self.rows[name] = ({column: -value for column, value in terms.items()}, -limit)


class Assumption:
    """States that a complying plan of at most ``budget`` moves exists.

    Args:
        racks: ids of the racks told apart; a rack's number is its place here.
        landing: numbers of the groups whose landing is followed (all racks must be told apart).
    """

    def __init__(self, view: View, budget: int, racks: list[str], landing: Collection[int]) -> None:
        self.view, self.budget, self.racks = view, budget, racks
        self.program = Program()
        self.number = {rack: index for index, rack in enumerate(racks)}
        self.moves: Terms = defaultdict(int)
        self.sure_moves = 0
        self.on_leaf: dict[tuple[str, int], Terms] = defaultdict(dict)
        self.in_slots: dict[str, Terms] = {rack: {} for rack in racks}
        self.sure_slots = dict.fromkeys(racks, 0)
        self.largest_spare = dict.fromkeys(racks, 0)
        followed = set(landing)
        for index, group in enumerate(view.groups):
            self._group(index, group, index in followed)
        for rack in racks:
            self._rack(rack)
        self.program.at_most("moves", dict(self.moves), budget - self.sure_moves)

    def _group(self, index: int, group: Group, followed: bool) -> None:
        view, count = self.view, self.view.count[group.key]
        nailed = view.nailed(group)
        here = [rack for rack in count if rack in self.number]
        if not here:
            return
        leaving = view.draining(group, movable=True)
        drained = view.draining(group, movable=False)
        for rack in here:
            if not followed and nailed[rack] < count[rack]:
                self.largest_spare[rack] = max(self.largest_spare[rack], group.slots_per_worker)
        if not view.spread(group) and not followed:
            # Nothing is said of where it goes: drained workers move, the others stay or are "spare".
            for rack in here:
                self.sure_moves += leaving[rack]
                self.sure_slots[rack] += (count[rack] - drained[rack]) * group.slots_per_worker
            return
        size, slots = len(group.workers), group.slots_per_worker
        others = [rack for rack in self.racks if rack not in count] if followed else []
        wholes: dict[str, str] = {}
        for rack in here + others:
            if self._can_be_whole(group, rack):
                wholes[rack] = self.program.column(f"whole {index} {self.number[rack]}", 1)
                away = size - sum(count[place] for place in here)
                self.moves[wholes[rack]] += away - count[rack] + leaving[rack]
                self.in_slots[rack][wholes[rack]] = size * slots
        self.sure_moves += sum(count[rack] for rack in here)
        fragments: dict[str, str] = {}
        for rack in here + others:
            if size == 1 or (rack not in count and not view.newcomers(group, rack)):
                continue
            at = f"{index} {self.number[rack]}"
            fragments[rack] = fragment = self.program.column(f"fragment {at}", 1)
            self.moves[fragment] -= count[rack] - leaving[rack]
            self.in_slots[rack][fragment] = (count[rack] - drained[rack]) * slots
            if group.sends:
                for rail in range(min(view.placement.rails, group.rings)):
                    rings = view.placement.rings_on_rail(group, rail)
                    self.on_leaf[rack, rail][fragment] = rings
            self.program.at_most(f"place {at}", {fragment: 1, **dict.fromkeys(wholes.values(), 1)}, 1)
            if nailed[rack] or count[rack] > self.budget:
                stays = {fragment: 1} | ({wholes[rack]: 1} if rack in wholes else {})
                self.program.at_least(f"stay {at}", stays, 1)
        if followed:
            self._landing(index, group, fragments, list(wholes.values()))

    def _can_be_whole(self, group: Group, rack: str) -> bool:
        missing = len(group.workers) - self.view.count[group.key][rack]
        if missing > self.budget or any(place != rack for place in self.view.nailed(group)):
            return False
        return self.view.most_whole(group, rack) >= len(group.workers)

    def _landing(self, index: int, group: Group, fragments: dict[str, str], wholes: list[str]) -> None:
        """All workers are on some rack, and on two or more unless the group is whole."""
        view, size = self.view, len(group.workers)
        count, nailed = view.count[group.key], view.nailed(group)
        leaving = view.draining(group, movable=True)
        somewhere: Terms = dict.fromkeys(wholes, size)
        for rack, fragment in fragments.items():
            at = f"{index} {self.number[rack]}"
            somewhere[fragment] = count[rack]
            may_enter = min(size - count[rack], view.newcomers(group, rack), self.budget)
            may_leave = min(count[rack] - nailed[rack] - leaving[rack], self.budget)
            passages = (("enters", "enter", may_enter, 1), ("leaves", "leave", may_leave, -1))
            for word, verb, most, sign in passages:
                if most > 0:
                    column = self.program.column(f"{word} {at}", most)
                    self.program.at_most(f"{verb} {at}", {column: 1, fragment: -most}, 0)
                    self.in_slots[rack][column] = sign * group.slots_per_worker
                    somewhere[column] = sign
                    self.moves[column] += sign < 0
        self.program.at_least(f"somewhere {index}", somewhere, size)
        spread = dict.fromkeys(fragments.values(), 1) | dict.fromkeys(wholes, 2)
        self.program.at_least(f"spread {index}", spread, 2)

    def _rack(self, rack: str) -> None:
        """Its leaves carry no more than their bound, its nodes no more than their slots."""
        number, placement = self.number[rack], self.view.placement
        for rail in range(placement.rails):
            terms = self.on_leaf.get((rack, rail))
            if terms:
                limit = placement.bound(rack) - self.view.lasting(rack, rail)
                self.program.at_most(f"bound {number} {rail}", terms, limit)
        terms = self.in_slots[rack]
        spare = self.program.column(f"spare {number}", self.budget)
        self.moves[spare] += 1
        if self.largest_spare[rack]:
            terms[spare] = -self.largest_spare[rack]
        self.program.at_most(f"room {number}", terms, self.view.slots(rack) - self.sure_slots[rack])


class Box:
    """Bounds of the columns on a path of the tree, and the rows' multipliers so far."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.least: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.multipliers: dict[str, int] = {}

    def copy(self) -> Box:
        other = Box(self.program)
        other.least, other.most = dict(self.least), dict(self.most)
        other.multipliers = dict(self.multipliers)
        return other

    def add(self, row: str, times: int) -> None:
        self.multipliers[row] = self.multipliers.get(row, 0) + times

    def refusal(self) -> str | None:
        """Why the rows, added up so often each, are no contradiction here; None if they are.

        Rows hold, so does their sum with multipliers of 0 or more. Where even the point of the box
        that suits the sum best exceeds the limit, the box holds no plan.
        """
        summed: Terms = defaultdict(int)
        limit = 0
        for row, times in self.multipliers.items():
            if times < 0:
                return f"row {show(row)} has the multiplier {show(times)}"
            terms, row_limit = self.program.rows[row]
            limit += times * row_limit
            for column, value in terms.items():
                summed[column] += times * value
        lowest = 0
        for column, value in summed.items():
            if value > 0:
                lowest += value * self.least.get(column, 0)
            else:
                lowest += value * self.most.get(column, self.program.most[column])
        if lowest > limit:
            return None
        return f"the rows add up to {show(lowest)} <= {show(limit)}, which is no contradiction"
