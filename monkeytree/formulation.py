"""The fewest-moves program in its strong form (paper, section 5.2; docs/solver.md).

For a group g, a site i and a rack t, beside the workers w_0 that are there now:

    out[g,i], in[g,i]   workers that leave and enter (continuous: for fixed binaries they span a
                        transportation polytope, whose vertices are integral)
    p[g,t]              g is present in t as a fragment (binary)
    h[g,t]              g is whole in t (binary)
    P[g,q], H[g,q]      the same one tier up, for pods
    r[g]                g takes an order with adjacent workers (only where the order in force departs
                        more often than that; a group that moves always does)
    z[j], m[j]          job j is paused; a worker of it moves (only for the objectives that ask)
    e[t,rail], E[q]     excess over a bound (only where no compliant placement is required)

Against the paper's program, which bounds one integer w by big-M terms, leaving and entering are
bounded separately by p and h. That is what makes the linear relaxation strong: a fragment that is
half present has half left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from .columns import Ask, Columns, Formulation, surplus
from .pauses import add_pauses
from .problem import Member, Problem
from .program import Program, Row


def formulate(problem: Problem, ask: Ask) -> Formulation:
    """The program of ``problem``."""
    return _Builder(problem, ask).build()


class _Builder:
    """Adds columns and rows part by part; one method a part of the model (pauses: ``pauses.py``)."""

    def __init__(self, problem: Problem, ask: Ask) -> None:
        self.problem, self.ask = problem, ask
        self.columns = Columns()
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.integer: list[bool] = []
        self.rows: list[Row] = []
        self.sites_of = _group_by(range(len(problem.sites)), [site.rack for site in problem.sites])
        self.loads: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
        self.load_base: dict[tuple[int, int], float] = defaultdict(float)
        self.pod_loads: dict[int, dict[int, float]] = defaultdict(dict)
        self.pod_base: dict[int, float] = defaultdict(float)

    def build(self) -> Formulation:
        for key, value in self.problem.fixed.items():
            self.load_base[key] += value
        for pod, value in self.problem.pod_fixed.items():
            self.pod_base[pod] += value
        for g, member in enumerate(self.problem.members):
            rooms = self._moves_of(g, member)
            if not member.silent:
                racks = self._presence(g, member, rooms)
                if self.problem.pod_bounds:
                    self._pod_presence(g, member, racks)
                self._order(g, member)
        self._capacity()
        self._bounds()
        if self.ask.jobs:
            add_pauses(self.problem, self.columns, self, costs=self.ask.costs)
        if self.problem.max_moves is not None and self.ask.soft:
            self.row(dict.fromkeys(self.columns.out.values(), 1.0), "<=", self.problem.max_moves)
        program = Program(tuple(self.lower), tuple(self.upper), tuple(self.integer), tuple(self.rows))
        return Formulation(self.problem, program, self.columns)

    def column(self, upper: float, *, integer: bool = False, lower: float = 0.0) -> int:
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.lower) - 1

    def row(self, terms: Mapping[int, float], sense: str, limit: float) -> None:
        kept = {column: value for column, value in terms.items() if value}
        if kept:
            self.rows.append(Row(tuple(kept), tuple(kept.values()), sense, limit))  # type: ignore[arg-type]

    def _moves_of(self, g: int, member: Member) -> dict[int, int]:
        """Leaving, entering and their balance; returns the room for g on each site it may be on."""
        rooms: dict[int, int] = {}
        integral = self.ask.integral
        for site, movable in member.movable.items():
            draining = self.problem.sites[site].drain and not self.ask.soft
            lower = movable if draining else 0
            self.columns.out[g, site] = self.column(movable, integer=integral, lower=lower)
        for site in member.targets:
            held = member.count.get(site, 0) - member.movable.get(site, 0)
            room = min(member.size, held + self.problem.sites[site].room(member.slots))
            spare = min(member.mobile, room - member.count.get(site, 0))
            if room:
                rooms[site] = room
            if spare > 0:
                self.columns.into[g, site] = self.column(spare, integer=integral)
        for site, count in member.count.items():
            rooms.setdefault(site, count)
        balance = {self.columns.out[g, site]: 1.0 for site in member.movable}
        balance |= {
            self.columns.into[g, site]: -1.0 for site in member.targets if (g, site) in self.columns.into
        }
        self.row(balance, "==", 0)
        return rooms

    def _presence(self, g: int, member: Member, rooms: Mapping[int, int]) -> list[int]:
        """Fragment or whole, rack by rack; returns the racks g may be on."""
        columns, sites = self.columns, self.problem.sites
        by_rack = _group_by(rooms, [sites[site].rack for site in rooms])
        stuck_racks = {
            sites[site].rack for site, count in member.count.items() if count > member.movable.get(site, 0)
        }
        rack_room = {rack: sum(rooms[site] for site in members) for rack, members in by_rack.items()}
        for rack in by_rack:
            must_stay = rack in stuck_racks
            columns.fragment[g, rack] = self.column(1, integer=True)
            if rack_room[rack] >= member.size and stuck_racks <= {rack}:
                columns.whole[g, rack] = self.column(1, integer=True)
            if must_stay:
                terms = {columns.fragment[g, rack]: 1.0}
                if (g, rack) in columns.whole:
                    terms[columns.whole[g, rack]] = 1.0
                self.row(terms, ">=", 1)
        wholes = {columns.whole[g, rack]: 1.0 for rack in by_rack if (g, rack) in columns.whole}
        for rack, members in by_rack.items():
            fragment, whole = columns.fragment[g, rack], columns.whole.get((g, rack))
            self.row({fragment: 1.0} | wholes, "<=", 1)
            self._presence_on_sites(g, member, members, rooms, fragment, whole)
            missing = member.size - sum(member.count.get(site, 0) for site in members)
            entering = [columns.into[g, site] for site in members if (g, site) in columns.into]
            if whole is not None and missing > 0:
                self.row(dict.fromkeys(entering, 1.0) | {whole: -missing}, ">=", 0)
            for rail, rings in enumerate(member.rings):
                if rings:
                    self.loads[rack, rail][fragment] = rings
        least = max(2, -(-member.size // max(rack_room.values())))
        fragments = {columns.fragment[g, rack]: 1.0 for rack in by_rack}
        self.row(fragments | dict.fromkeys(wholes, float(least)), ">=", least)
        return list(by_rack)

    def _presence_on_sites(
        self,
        g: int,
        member: Member,
        sites: Iterable[int],
        rooms: Mapping[int, int],
        fragment: int,
        whole: int | None,
    ) -> None:
        """Who is neither fragment nor whole here has left; who is neither does not enter."""
        columns = self.columns
        for site in sites:
            count, movable = member.count.get(site, 0), member.movable.get(site, 0)
            if movable and movable == count:
                terms = {columns.out[g, site]: 1.0, fragment: float(count)}
                if whole is not None:
                    terms[whole] = float(count)
                self.row(terms, ">=", count)
            entering = columns.into.get((g, site))
            if entering is not None:
                as_fragment = max(0, min(member.size - 1, rooms[site]) - count)
                terms = {entering: 1.0, fragment: -min(as_fragment, member.mobile)}
                if whole is not None:
                    terms[whole] = -min(rooms[site] - count, member.mobile)
                self.row(terms, "<=", 0)

    def _pod_presence(self, g: int, member: Member, racks: Sequence[int]) -> None:
        """Fragment or whole, pod by pod."""
        columns, pod_of = self.columns, self.problem.pod_of
        by_pod = _group_by(racks, [pod_of[rack] for rack in racks])
        for pod in by_pod:
            columns.pod_fragment[g, pod] = self.column(1, integer=True)
            columns.pod_whole[g, pod] = self.column(1, integer=True)
        wholes = {columns.pod_whole[g, pod]: 1.0 for pod in by_pod}
        for pod, members in by_pod.items():
            fragment, whole = columns.pod_fragment[g, pod], columns.pod_whole[g, pod]
            self.row({fragment: 1.0} | wholes, "<=", 1)
            for rack in members:
                terms = {columns.fragment[g, rack]: 1.0, fragment: -1.0, whole: -1.0}
                if (g, rack) in columns.whole:
                    terms[columns.whole[g, rack]] = 1.0
                self.row(terms, "<=", 0)
            self.pod_loads[pod][fragment] = sum(member.rings)
        fragments = {columns.pod_fragment[g, pod]: 1.0 for pod in by_pod}
        self.row(fragments | dict.fromkeys(wholes, 2.0), ">=", 2)

    def _order(self, g: int, member: Member) -> None:
        """A loose order counts in full until it is given up; moving gives it up."""
        if not member.loose:
            return
        reorder = self.columns.reorder[g] = self.column(1, integer=True)
        for site, movable in member.movable.items():
            self.row({self.columns.out[g, site]: 1.0, reorder: -float(movable)}, "<=", 0)
        for rack, extra in surplus(member.rack_departures).items():
            for rail, rings in enumerate(member.rings):
                self.load_base[rack, rail] += extra * rings
                if rings:
                    self.loads[rack, rail][reorder] = -extra * rings
        for pod, extra in surplus(member.pod_departures).items():
            rings = sum(member.rings)
            self.pod_base[pod] += extra * rings
            self.pod_loads[pod][reorder] = -extra * rings

    def _capacity(self) -> None:
        """Slots of each accepting site; with workers of several sizes also the larger ones alone."""
        entering: dict[int, list[int]] = defaultdict(list)
        for g, site in self.columns.into:
            entering[site].append(g)
        present: dict[int, list[int]] = defaultdict(list)
        for g, member in enumerate(self.problem.members):
            for site in member.count:
                present[site].append(g)
        for site, newcomers in entering.items():
            groups = sorted(set(newcomers) | set(present[site]))
            sizes = {g: self.problem.members[g].slots for g in groups}
            smallest = min(sizes.values())
            exact = all(size % smallest == 0 for size in sizes.values())
            for least in sorted(set(sizes.values()) | (set() if exact else {1})):
                self._capacity_row(site, [g for g in groups if sizes[g] >= least], least)

    def _capacity_row(self, site: int, groups: Sequence[int], least: int) -> None:
        """Workers of at least ``least`` slots, each counted in whole multiples of that.

        Valid on every node: sum of floor(k/l) <= floor(sum of k / l) <= floor(slots / l). Exact
        where all workers have the same size.
        """
        members, columns = self.problem.members, self.columns
        terms: dict[int, float] = {}
        used = 0
        for g in groups:
            weight = members[g].slots // least
            used += weight * members[g].movable.get(site, 0)
            if (g, site) in columns.into:
                terms[columns.into[g, site]] = weight
            if (g, site) in columns.out:
                terms[columns.out[g, site]] = -weight
        self.row(terms, "<=", self.problem.sites[site].room(least) - used)

    def _bounds(self) -> None:
        """f_t within lambda_t, leaf by leaf and pod by pod."""
        for (rack, rail), terms in self.loads.items():
            spare = self.problem.bounds[rack] - self.load_base[rack, rail]
            self._bounded(("rack", rack, rail), terms, spare)
        for pod, terms in self.pod_loads.items():
            self._bounded(("pod", pod, 0), terms, self.problem.pod_bounds[pod] - self.pod_base[pod])
        # Leaves loaded by fixed groups alone: over is over, whatever moves.
        for (rack, rail), base in self.load_base.items():
            if (rack, rail) not in self.loads:
                self._hopeless(("rack", rack, rail), self.problem.bounds[rack] - base)
        for pod, base in self.pod_base.items():
            if pod not in self.pod_loads:
                self._hopeless(("pod", pod, 0), self.problem.pod_bounds[pod] - base)

    def _bounded(self, key: tuple[str, int, int], terms: Mapping[int, float], spare: float) -> None:
        most = sum(value for value in terms.values() if value > 0)
        if most <= spare:
            return
        if self.ask.soft:
            excess = self.columns.excess[key] = self.column(most - spare)
            terms = {**terms, excess: -1.0}
        self.rows.append(Row(tuple(terms), tuple(terms.values()), "<=", spare))

    def _hopeless(self, key: tuple[str, int, int], spare: float) -> None:
        if spare >= 0:
            return
        if self.ask.soft:
            self.columns.excess[key] = self.column(-spare, lower=-spare)
        else:
            self.rows.append(Row((self.column(0),), (1.0,), ">=", 1))


def _group_by(items: Iterable[int], keys: Sequence[int]) -> dict[int, list[int]]:
    grouped: dict[int, list[int]] = defaultdict(list)
    for item, key in zip(items, keys, strict=True):
        grouped[key].append(item)
    return grouped
