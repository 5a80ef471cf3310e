"""The integer program that a ``relaxation`` certificate refutes, row by named row.

It is much smaller than the planner's (:mod:`monkeytree.formulation`): only the racks in trouble are
told apart, and workers that leave with their whole group need no columns. Every complying plan of at
most K - 1 moves gives it an integral point, so if it has none there is no such plan
(docs/solver-certificate.md proves each row).
With a group g of n workers, a of them on rack t and d of these on draining nodes:

    fragment g t    1 if some but not all of g are on t afterwards
    whole g t       1 if all of g are
    enters g t      workers of g that come to t where g is a fragment
    leaves g t      workers of g that leave t where g is a fragment, but for those on draining nodes
    spare t         the same of groups whose landing is not followed, or that have no fragment column

    moves           sum of a - (a - d)(fragment + whole) + (n - those on racks told apart) whole
                    + leaves + spare <= K - 1
    bound t q       lasting load + sum of rings x fragment <= bound of t
    place g t       fragment g t + sum of whole g <= 1
    stay g t        fragment + whole >= 1 where a worker cannot leave, or more would than K - 1
    room t          what stays and comes fits the slots of t
    enter g t       enters <= most x fragment
    leave g t       leaves <= most x fragment
    somewhere g     sum of (a x fragment + enters - leaves) + n x sum of whole >= n
    spread g        sum of fragment + 2 x sum of whole >= 2

The last four only where all racks are told apart, for the groups whose landing is followed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from monkeytree.snapshot import Snapshot

from .standing import Rooms, Standing, lasting_load


@dataclass(slots=True)
class Statement:
    """Rows "sum of coefficient x column <= limit" in integers, by name.

    Attributes:
        names: of the columns; a column's number is its place here.
        upper: of each column; the lower is 0.
        rows: (coefficient by column, limit) by name.
    """

    names: list[str] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    rows: dict[str, tuple[dict[int, int], int]] = field(default_factory=dict)

    def column(self, name: str, upper: int) -> int:
        self.names.append(name)
        self.upper.append(upper)
        return len(self.names) - 1


def state(
    snapshot: Snapshot,
    groups: list[Standing],
    budget: int,
    racks: Sequence[str],
    landing: frozenset[int] = frozenset(),
) -> Statement:
    """The program of ``racks`` (ids), for at most ``budget`` moves.

    Args:
        landing: numbers of the groups whose landing is followed; needs all racks.
    """
    return _Builder(snapshot, groups, budget, racks, landing).build()


class _Builder:
    """One method for each kind of group; the rows over racks are collected on the way."""

    def __init__(
        self,
        snapshot: Snapshot,
        groups: list[Standing],
        budget: int,
        racks: Sequence[str],
        landing: frozenset[int],
    ) -> None:
        self.snapshot, self.groups, self.budget, self.landing = snapshot, groups, budget, landing
        self.number = {rack: number for number, rack in enumerate(racks)}
        self.rooms = Rooms(snapshot, groups)
        self.out = Statement()
        self.moves: dict[int, int] = defaultdict(int)
        self.least_moves = 0
        self.loads: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        self.held: dict[str, int] = defaultdict(int)
        self.present: dict[str, dict[int, int]] = defaultdict(dict)
        self.largest: dict[str, int] = defaultdict(int)

    def build(self) -> Statement:
        for group in self.groups:
            here = [rack for rack in group.count if rack in self.number]
            followed = group.number in self.landing and not group.frozen
            for rack in here:
                if not followed and group.stuck.get(rack, 0) < group.count[rack]:
                    self.largest[rack] = max(self.largest[rack], group.slots)
            if here and (group.spread or followed):
                self._told_apart(group, here, followed)
            else:
                for rack in here:
                    self.least_moves += group.leaving.get(rack, 0)
                    self.held[rack] += group.slots * (group.count[rack] - group.gone.get(rack, 0))
        self._bounds()
        self._room()
        terms = {column: cost for column, cost in self.moves.items() if cost}
        self.out.rows["moves"] = (terms, self.budget - self.least_moves)
        return self.out

    def _told_apart(self, group: Standing, here: list[str], followed: bool) -> None:
        self.least_moves += sum(group.count[rack] for rack in here)
        racks = here + [rack for rack in self.number if rack not in group.count] if followed else here
        fragments = {
            rack: self._fragment(group, rack)
            for rack in racks
            if group.size > 1 and (rack in group.count or self.rooms.newcomers(group, rack) > 0)
        }
        wholes = {rack: self._whole(group, rack) for rack in racks if self._may_be_whole(group, rack)}
        for rack, fragment in fragments.items():
            name = f"{group.number} {self.number[rack]}"
            if wholes:
                terms = {fragment: 1} | dict.fromkeys(wholes.values(), 1)
                self.out.rows[f"place {name}"] = (terms, 1)
            if group.stuck.get(rack, 0) or group.count.get(rack, 0) > self.budget:
                here_or = [fragment, *([wholes[rack]] if rack in wholes else [])]
                self.out.rows[f"stay {name}"] = (dict.fromkeys(here_or, -1), -1)
        if followed:
            self._landing(group, fragments, list(wholes.values()))

    def _may_be_whole(self, group: Standing, rack: str) -> bool:
        missing = group.size - group.count.get(rack, 0)
        if missing > self.budget or any(other != rack for other in group.stuck):
            return False
        return self.rooms.whole(group, rack) >= group.size

    def _fragment(self, group: Standing, rack: str) -> int:
        column = self.out.column(f"fragment {group.number} {self.number[rack]}", 1)
        count = group.count.get(rack, 0)
        self.moves[column] -= count - group.leaving.get(rack, 0)
        self.present[rack][column] = group.slots * (count - group.gone.get(rack, 0))
        for rail, rings in enumerate(group.rings):
            if rings:
                self.loads[rack, rail][column] = rings
        return column

    def _whole(self, group: Standing, rack: str) -> int:
        column = self.out.column(f"whole {group.number} {self.number[rack]}", 1)
        away = sum(count for other, count in group.count.items() if other not in self.number)
        self.moves[column] += away - (group.count.get(rack, 0) - group.leaving.get(rack, 0))
        self.present[rack][column] = group.slots * group.size
        return column

    def _landing(self, group: Standing, fragments: dict[str, int], wholes: list[int]) -> None:
        """Who leaves a rack comes to another."""
        somewhere = {fragments[rack]: -count for rack, count in group.count.items() if rack in fragments}
        for rack, fragment in fragments.items():
            missing = group.size - group.count.get(rack, 0)
            most = min(missing, self.rooms.newcomers(group, rack), self.budget)
            name = f"{group.number} {self.number[rack]}"
            if most > 0:
                enters = self.out.column(f"enters {name}", most)
                self.out.rows[f"enter {name}"] = ({enters: 1, fragment: -most}, 0)
                self.present[rack][enters] = group.slots
                somewhere[enters] = -1
            most = min(group.free_to_leave.get(rack, 0), self.budget)
            if most > 0:
                leaves = self.out.column(f"leaves {name}", most)
                self.out.rows[f"leave {name}"] = ({leaves: 1, fragment: -most}, 0)
                self.moves[leaves] += 1
                self.present[rack][leaves] = -group.slots
                somewhere[leaves] = 1
        whole_terms = dict.fromkeys(wholes, -group.size)
        self.out.rows[f"somewhere {group.number}"] = (somewhere | whole_terms, -group.size)
        spread = dict.fromkeys(fragments.values(), -1) | dict.fromkeys(wholes, -2)
        self.out.rows[f"spread {group.number}"] = (spread, -2)

    def _bounds(self) -> None:
        lasting = lasting_load(self.snapshot, self.groups)
        bounds = {rack.id: self.snapshot.bound(rack) for rack in self.snapshot.racks}
        for (rack, rail), terms in self.loads.items():
            self.out.rows[f"bound {self.number[rack]} {rail}"] = (terms, bounds[rack] - lasting[rack, rail])

    def _room(self) -> None:
        for rack, terms in self.present.items():
            spare = self.rooms.slots(rack, self.groups) - self.held[rack]
            most = sum(value * self.out.upper[column] for column, value in terms.items() if value > 0)
            if most <= spare:
                continue
            kept = {column: value for column, value in terms.items() if value}
            if self.largest[rack]:
                column = self.out.column(f"spare {self.number[rack]}", self.budget)
                self.moves[column] += 1
                kept[column] = -self.largest[rack]
            self.out.rows[f"room {self.number[rack]}"] = (kept, spare)
