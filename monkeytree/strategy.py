"""Which stages are run for a snapshot, and in what order: :meth:`Strategy.best` tells the story.

The search proves the small answers that self-reinforcing clusters need, in milliseconds. What it
leaves open goes to programs: whole where they are small, else split (:mod:`monkeytree.split`) into a
bound from the relaxed problem and answers from guided ones. Then the search again, from the better
bound; then the whole program, as far as its size and the time allow.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .counts import Counts, score
from .errors import SolverFailed, SolverUnavailable
from .optimise import Answer, Optimiser, unmoved
from .plan import ObjectiveName
from .problem import Problem, state_problem
from .search import Finding, search
from .snapshot import Snapshot
from .solvers.choose import SEARCH, SPLIT, Bench
from .split import guided, moved_groups, on_racks, racks_in_trouble, relaxed, swapping

SMALL = 2_000
"""Columns up to which the whole program is solved at once: what Gurobi's restricted licence takes."""
LARGE = 40_000
"""Columns from which the whole program is not even built: no solver here ends it in a minute."""
RECEIVERS = (6, 16, 64)
"""Sites that guided programs offer to each group, attempt by attempt."""
TIE_SHARE = 0.5
"""Programs may break ties for this share of the time that the moves took (and a second)."""
FIRST_EFFORT = 3_000
SECOND_EFFORT = 30_000
ALL_EFFORT = 10**9
SEARCH_SHARE = 0.2
"""Of the time left, what one search may take: effort is no fence where single states are costly."""


@dataclass(frozen=True, slots=True)
class Found:
    """An answer, the problem its counts refer to, and the stage it rests on (None: a whole program)."""

    problem: Problem
    answer: Answer
    stage: str | None = None


class Strategy:
    """Finds the best answer for one snapshot under one deadline."""

    def __init__(
        self,
        snapshot: Snapshot,
        split_nodes: frozenset[str],
        bench: Bench,
        deadline: float,
        repeatable: bool = False,
    ) -> None:
        """``repeatable``: see :func:`monkeytree.planner.make_plan`."""
        self.snapshot, self.split_nodes, self.bench = snapshot, split_nodes, bench
        self.deadline, self.repeatable = deadline, repeatable
        self.start = time.monotonic()
        self.objective: ObjectiveName = snapshot.planning.objective

    def best(self) -> Found:
        """Search; solve or split what that leaves open; search again; solve whole; else compromise."""
        whole = state_problem(self.snapshot, self.split_nodes)
        self._whole_members = len(whole.members)
        size = columns_of(whole)
        finding = self._search(whole, FIRST_EFFORT)
        if finding.counts is not None:
            return self._finish(Found(whole, _searched(whole, finding), SEARCH))
        if size <= SMALL and self.bench.allows_programs:
            return Found(whole, self._optimiser(whole).best(self._tie_deadline))
        split = self._search_again(whole, self._split(whole, finding.lower_bound))
        if split is not None and (split.answer.objective_proved or self.bench.only == SPLIT):
            return self._finish(split)
        if size <= LARGE and self.bench.allows_whole and self._left() > 0:
            return self._solve_whole(whole, split)
        return self._finish(split) if split is not None else self._compromise(whole)

    def _solve_whole(self, whole: Problem, split: Found | None) -> Found:
        """The whole program, beside what a split has found already."""
        optimiser = self._optimiser(whole)
        if split is None:
            optimiser.start = carried_over(self._compromise(whole), whole)
            return Found(whole, optimiser.best(self._tie_deadline))
        try:
            return self._better(split, Found(whole, optimiser.best(self._tie_deadline)))
        except (SolverUnavailable, SolverFailed):
            return self._finish(split)

    def _search(self, whole: Problem, effort: int, above: int = 0, below: int | None = None) -> Finding:
        """One search, if the solver asked for includes it."""
        if not self.bench.allows_search:
            return Finding(None, above, False, 0)
        start = time.monotonic()
        effort = ALL_EFFORT if self.bench.only == SEARCH else effort
        share = 1.0 if self.bench.only == SEARCH or self.repeatable else SEARCH_SHARE
        deadline = start + share * self._left()
        finding = search(
            whole,
            effort=effort,
            deadline=deadline,
            most_moves=below,
            first_bound=above,
            repeatable=self.repeatable,
        )
        outcome = "optimal" if finding.counts is not None else "no_answer"
        self.bench.note(SEARCH, time.monotonic() - start, outcome)
        return finding

    def _finish(self, found: Found) -> Found:
        """The rest of the objective, as far as the solver takes the size of the programs for it."""
        try:
            return self._finished(found)
        except (SolverUnavailable, SolverFailed):
            if self._beyond_cap(found):
                raise
            return self._as_proved(replace(found, answer=replace(found.answer, ties_proved=False)))

    def _finished(self, found: Found) -> Found:
        """The rest of the objective, in the whole program where it can be built."""
        whole, answer = found.problem, found.answer
        capped = self._beyond_cap(found)
        if self.objective == "moves" and (answer.ties_proved or self.repeatable) and not capped:
            return found
        if not self.bench.allows_programs:
            return self._nothing(whole) if capped else self._as_proved(found)
        if len(whole.members) < self._members():
            answer = self._optimiser(whole, self._tie_deadline()).refined(answer)
            found = self._as_proved(replace(found, answer=replace(answer, ties_proved=False)))
            whole = state_problem(self.snapshot, self.split_nodes)
            answer = carried_over(found, whole)
        if columns_of(whole) > LARGE:
            return self._capped(found, whole) if capped else self._as_proved(found)
        optimiser = self._optimiser(whole)
        if capped and columns_of(whole) > SMALL:
            optimiser.start = carried_over(self._compromise(whole), whole)
        settled = optimiser.settled(answer, self._tie_deadline)
        return Found(whole, settled, found.stage if settled.score.moves == answer.score.moves else None)

    def _beyond_cap(self, found: Found) -> bool:
        cap = self.snapshot.planning.max_moves
        return cap is not None and found.answer.score.moves > cap

    def _as_proved(self, found: Found) -> Found:
        """Keep only what is proved of the objective asked for (the fewest moves prove no other)."""
        by_moves = self.objective == "moves"
        answer = replace(
            found.answer,
            objective_proved=found.answer.objective_proved and by_moves,
            ties_proved=found.answer.ties_proved and by_moves,
            objective_bound=None,
        )
        return replace(found, answer=answer)

    def _capped(self, found: Found, whole: Problem) -> Found:
        """A cap that cuts off an answer of a problem too large for the whole program."""
        capped = self._compromise(whole)
        worse = capped.answer.score.key("moves")[:2] > found.answer.score.key("moves")[:2]
        return replace(capped, answer=replace(capped.answer, limited_by="max_moves" if worse else None))

    def _members(self) -> int:
        return self._whole_members

    def _split(self, whole: Problem, known_bound: int | None) -> Found | None:
        """One split, on the record; None where it is not asked for or there is provably no answer."""
        if not self.bench.allows_programs or known_bound is None:
            return None
        start = time.monotonic()
        best = self._best_of_split(whole, known_bound)
        proved = best is not None and best.answer.objective_proved
        outcome = "no_answer" if best is None else "optimal" if proved else "feasible"
        self.bench.note(SPLIT, time.monotonic() - start, outcome)
        return best

    def _best_of_split(self, whole: Problem, known_bound: int) -> Found | None:
        """A bound from the relaxed problem, and guided answers until one meets it."""
        kept = racks_in_trouble(whole)
        small = relaxed(whole, kept)
        bounded, _ = self._optimiser(small).fewest_moves()
        if bounded is None:
            return None
        bound = max(known_bound, bounded.lower_bound or 0)
        moved = moved_groups(small, bounded.counts)
        best: Found | None = None
        for problem in self._guided(whole, kept, moved):
            answer, _ = self._optimiser(problem).fewest_moves()
            if answer is not None and (best is None or answer.score.moves < best.answer.score.moves):
                best = Found(problem, _bounded(answer, bound), SPLIT)
            if best is not None and best.answer.objective_proved:
                return best
        return best

    def _guided(self, whole: Problem, kept: frozenset[int], moved: frozenset[int]) -> Iterator[Problem]:
        """More and more receivers for the groups moved; at last, exchanges with any group."""
        near = frozenset(
            member.index for member in whole.members if member.index in moved or on_racks(whole, member, kept)
        )
        narrow = state_problem(self.snapshot, self.split_nodes, near)
        for receivers in RECEIVERS:
            if self._left() <= 0:
                return
            problem = guided(narrow, kept, moved, receivers)
            if columns_of(problem) > LARGE:
                return
            yield problem
        exchange = swapping(whole, kept, moved)
        if self._left() > 0 and columns_of(exchange) <= LARGE:
            yield exchange

    def _search_again(self, whole: Problem, split: Found | None) -> Found | None:
        """Close the gap between the bound and the answer of a split by searching inside it."""
        if split is None or split.answer.objective_proved or split.answer.lower_bound is None:
            return split
        below = split.answer.score.moves - 1
        finding = self._search(whole, SECOND_EFFORT, split.answer.lower_bound, below)
        if finding.counts is not None:
            return Found(whole, _searched(whole, finding), SEARCH)
        return replace(split, answer=_bounded(split.answer, finding.lower_bound))

    def _better(self, one: Found, other: Found) -> Found:
        keys = [found.answer.score.key(self.objective) for found in (one, other)]
        if keys[1] <= keys[0] or self._beyond_cap(one):
            return other
        bounds = [found.answer.lower_bound for found in (one, other)]
        bound = max((value for value in bounds if value is not None), default=None)
        return replace(one, answer=_bounded(one.answer, bound))

    def _compromise(self, whole: Problem) -> Found:
        """As little excess as the groups of racks in trouble can do without, in half the time left."""
        if self._left() <= 0 or not self.bench.allows_programs:
            return self._nothing(whole)
        kept = racks_in_trouble(whole)
        near = frozenset(member.index for member in whole.members if on_racks(whole, member, kept))
        narrow = guided(state_problem(self.snapshot, self.split_nodes, near), kept, near, RECEIVERS[0])
        if columns_of(narrow) > LARGE:
            return self._nothing(whole)
        answer = self._optimiser(narrow, time.monotonic() + self._left() / 2).compromise()
        unproved = replace(answer, least_excess=False, lower_bound=None, ties_proved=False)
        return self._as_proved(Found(narrow, replace(unproved, objective_proved=False)))

    def _nothing(self, whole: Problem) -> Found:
        """No answer but to leave everything where it is."""
        return Found(whole, unmoved(whole))

    def _optimiser(self, problem: Problem, deadline: float | None = None) -> Optimiser:
        return Optimiser(problem, self.objective, self.bench, deadline or self.deadline)

    def _left(self) -> float:
        return self.deadline - time.monotonic()

    def _tie_deadline(self) -> float:
        if self.repeatable:
            return time.monotonic()  # a program that is cut off by a clock does not repeat
        spent = time.monotonic() - self.start
        return min(self.deadline, time.monotonic() + 1.0 + TIE_SHARE * spent)


def columns_of(problem: Problem) -> int:
    """About how many columns the whole program of a problem has."""
    return sum(
        len(member.movable) + len(member.targets) * (1 if member.silent else 3) for member in problem.members
    )


def carried_over(found: Found, whole: Problem) -> Answer:
    """The same answer on ``whole``, whose members are more."""
    number = {member.index: g for g, member in enumerate(whole.members)}
    known = {g: number[member.index] for g, member in enumerate(found.problem.members)}
    counts = found.answer.counts
    moved = Counts(
        {(known[g], site): value for (g, site), value in counts.out.items()},
        {(known[g], site): value for (g, site), value in counts.into.items()},
        frozenset(known[g] for g in counts.reordered),
    )
    return replace(found.answer, counts=moved, score=score(whole, moved))


def _bounded(answer: Answer, bound: int | None) -> Answer:
    """A guided answer under a bound of the whole (the guided program's own proves nothing)."""
    proved = bound is not None and answer.score.moves <= bound
    return replace(answer, lower_bound=bound, objective_proved=proved)


def _searched(whole: Problem, finding: Finding) -> Answer:
    """The answer of a search: the fewest moves, proved."""
    assert finding.counts is not None
    return Answer(
        counts=finding.counts,
        score=score(whole, finding.counts),
        lower_bound=finding.lower_bound,
        least_excess=True,
        objective_bound=None,
        objective_proved=True,
        ties_proved=finding.ties_proved,
    )
