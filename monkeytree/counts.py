"""An answer on counts, and its score, computed from the counts alone.

A solver's columns are rounded into :class:`Counts`; everything claimed about them (capacity, degrees,
costs) is computed again from the counts in plain integers, so that a solver's arithmetic is never
taken at its word.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .columns import Columns, surplus
from .problem import Problem


@dataclass(frozen=True, slots=True)
class Counts:
    """Workers leaving and entering by (member, site), and members whose order is given up."""

    out: Mapping[tuple[int, int], int]
    into: Mapping[tuple[int, int], int]
    reordered: frozenset[int] = frozenset()

    @property
    def moves(self) -> int:
        """Workers moved."""
        return sum(self.out.values())

    @property
    def moved_members(self) -> frozenset[int]:
        """Members of which a worker moves."""
        return frozenset(g for g, _ in self.out)


@dataclass(frozen=True, slots=True)
class Score:
    """What a placement is worth; see contract section 2, "Objective".

    Attributes:
        gpu_seconds: job-slots x pause, each paused job once.
        summed_degree: sum of f_t over the leaves.
    """

    undrained: int
    excess: int
    moves: int
    gpu_seconds: float
    jobs_paused: int
    summed_degree: int

    def key(self, objective: str) -> tuple[float, ...]:
        """Lexicographic rank under a named objective; less is better."""
        cost = (round(self.gpu_seconds, 6),) if objective == "gpu_seconds" else ()
        rest = (self.moves, self.jobs_paused, self.summed_degree)
        return (self.undrained, self.excess, *cost, *rest)


def read_counts(problem: Problem, columns: Columns, values: Sequence[float]) -> Counts | None:
    """Round a solver's columns; None where the rounded counts break balance or capacity."""

    def positive(keys: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
        rounded = {key: round(values[column]) for key, column in keys.items()}
        return {key: value for key, value in rounded.items() if value > 0}

    out, into = positive(columns.out), positive(columns.into)
    for key in set(out) & set(into):
        # A worker that leaves a site as another of its group enters it need not have moved.
        both = min(out[key], into[key])
        out[key] -= both
        into[key] -= both
    out = {key: value for key, value in out.items() if value}
    into = {key: value for key, value in into.items() if value}
    reordered = frozenset(g for g, column in columns.reorder.items() if values[column] > 0.5)
    counts = Counts(out, into, reordered)
    return tidy(problem, counts) if fits(problem, counts) else None


def tidy(problem: Problem, counts: Counts) -> Counts:
    """Reorder where it is free, and nowhere that it is not needed.

    Every loose group of a job that is paused anyway takes an adjacent order. An order given up in
    an unmoved job is taken back where that leaves undrained and excess as they are.
    """
    paused = {problem.members[g].job for g in counts.moved_members}
    loose = {g for g, member in enumerate(problem.members) if member.loose}
    free = {g for g in loose if problem.members[g].job in paused}
    chosen = set(counts.reordered) | free
    best = Counts(counts.out, counts.into, frozenset(chosen))
    for j in sorted({problem.members[g].job for g in chosen - free}):
        kept = {g for g in chosen if problem.members[g].job != j}
        trial = Counts(counts.out, counts.into, frozenset(kept))
        if score(problem, trial).excess == score(problem, best).excess:
            chosen, best = kept, trial
    still_paused = paused | {problem.members[g].job for g in chosen}
    final = chosen | {g for g in loose if problem.members[g].job in still_paused}
    return Counts(counts.out, counts.into, frozenset(final))


def fits(problem: Problem, counts: Counts) -> bool:
    """Whether counts balance, move only what may, and fit each site (slots and largest workers)."""
    balance: Counter[int] = Counter()
    for (g, site), value in counts.out.items():
        balance[g] -= value
        if value > problem.members[g].movable.get(site, 0):
            return False
    for (g, site), value in counts.into.items():
        balance[g] += value
        if site not in problem.members[g].targets:
            return False
    if any(balance.values()):
        return False
    return all(_site_fits(problem, counts, site) for site in {site for _, site in counts.into})


def _site_fits(problem: Problem, counts: Counts, site: int) -> bool:
    used = 0
    for g, member in enumerate(problem.members):
        here = member.movable.get(site, 0) - counts.out.get((g, site), 0)
        used += member.slots * (here + counts.into.get((g, site), 0))
    return used <= sum(problem.sites[site].free_of_fixed)


def score(problem: Problem, counts: Counts) -> Score:
    """The score of an answer, from its counts alone."""
    loads, pod_loads = loads_of(problem, counts)
    excess = sum(max(0, load - problem.bounds[rack]) for (rack, _), load in loads.items())
    excess += sum(max(0, load - problem.pod_bounds[pod]) for pod, load in pod_loads.items())
    drained = sum(value for (_, site), value in counts.out.items() if problem.sites[site].drain)
    cost, paused = _cost(problem, counts)
    return Score(
        undrained=problem.stuck + problem.must_drain - drained,
        excess=excess,
        moves=counts.moves,
        gpu_seconds=cost,
        jobs_paused=paused,
        summed_degree=sum(loads.values()),
    )


def loads_of(problem: Problem, counts: Counts) -> tuple[Counter[tuple[int, int]], Counter[int]]:
    """f_t by (rack, rail), and the same by pod, after the moves of ``counts``."""
    loads: Counter[tuple[int, int]] = Counter(problem.fixed)
    pod_loads: Counter[int] = Counter(problem.pod_fixed)
    entering: dict[int, dict[int, int]] = defaultdict(dict)
    for (g, site), value in counts.into.items():
        entering[g][site] = value
    for g, member in enumerate(problem.members):
        if not member.silent:
            _add_loads(problem, counts, g, entering.get(g, {}), loads, pod_loads)
    return loads, pod_loads


def _add_loads(
    problem: Problem,
    counts: Counts,
    g: int,
    entering: Mapping[int, int],
    loads: Counter[tuple[int, int]],
    pod_loads: Counter[int],
) -> None:
    member = problem.members[g]
    moved = bool(entering)
    if moved:
        stays = dict(member.count)
        for site in member.count:
            stays[site] -= counts.out.get((g, site), 0)
        for site, value in entering.items():
            stays[site] = stays.get(site, 0) + value
        racks = {problem.sites[site].rack for site, value in stays.items() if value > 0}
    else:  # what left entered somewhere: nothing left either
        racks = {problem.sites[site].rack for site in member.count}
        if len(racks) == 1:
            return
    adjacent = moved or g in counts.reordered
    extra = {} if adjacent else surplus(member.rack_departures)
    if len(racks) > 1:
        for rack in racks:
            for rail, rings in enumerate(member.rings):
                loads[rack, rail] += (1 + extra.get(rack, 0)) * rings
    pods = {problem.pod_of[rack] for rack in racks} if problem.pod_of else set()
    if len(pods) > 1:
        extra = {} if adjacent else surplus(member.pod_departures)
        for pod in pods:
            pod_loads[pod] += (1 + extra.get(pod, 0)) * sum(member.rings)


def _cost(problem: Problem, counts: Counts) -> tuple[float, int]:
    """GPU-seconds of the pauses, and the jobs paused."""
    wire: dict[int, float] = {}
    for g in counts.moved_members:
        member = problem.members[g]
        wire[member.job] = max(wire.get(member.job, 0.0), member.wire_s)
    paused = set(wire) | {problem.members[g].job for g in counts.reordered}
    total = 0.0
    for j in sorted(paused):
        pause_s = problem.overhead_s + wire.get(j, 0.0)
        if problem.jobs[j].restart and j in wire:
            pause_s = problem.restart_s
        total += problem.jobs[j].slots * pause_s
    return total, len(paused)
