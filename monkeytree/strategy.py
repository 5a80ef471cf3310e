"""Which programs are solved for a snapshot, and in what order: one short story.

A program that is small is solved whole. A large one is split first (:mod:`monkeytree.split`): a bound
from the relaxed problem, answers from guided ones with more and more receivers. Only what that leaves
open is put to the whole program, where its size allows, in the time that is left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .counts import Counts, score
from .optimise import Answer, Optimiser
from .plan import ObjectiveName
from .problem import Problem, state_problem
from .snapshot import Snapshot
from .solvers.choose import Bench
from .split import guided, moved_groups, on_racks, racks_in_trouble, relaxed

SMALL = 2_000
"""Columns up to which the whole program is solved at once: what Gurobi's restricted licence takes."""
LARGE = 40_000
"""Columns from which the whole program is not even built: no solver here ends it in a minute."""
RECEIVERS = (6, 16, 64)
TIE_SHARE = 2.0
"""Tie-breaks may take this many times as long as the moves took (and a second), not the whole limit."""


@dataclass(frozen=True, slots=True)
class Found:
    """An answer and the problem its counts refer to."""

    problem: Problem
    answer: Answer


class Strategy:
    """Finds the best answer for one snapshot under one deadline."""

    def __init__(
        self, snapshot: Snapshot, split_nodes: frozenset[str], bench: Bench, deadline: float
    ) -> None:
        self.snapshot, self.split_nodes, self.bench = snapshot, split_nodes, bench
        self.deadline = deadline
        self.start = time.monotonic()
        self.objective: ObjectiveName = snapshot.planning.objective

    def best(self) -> Found:
        """Solve a small problem whole; split a large one, and solve whole what stays open."""
        whole = state_problem(self.snapshot, self.split_nodes)
        if columns_of(whole) <= SMALL:
            return Found(whole, self._optimiser(whole).best(self._tie_deadline))
        split = self._split(whole)
        if split is not None and self._settled(split):
            return self._break_ties(whole, split)
        if columns_of(whole) <= LARGE and self._left() > 0:
            found = Found(whole, self._optimiser(whole).best(self._tie_deadline))
            return found if split is None else self._better(split, found)
        return split or self._compromise(whole)

    def _split(self, whole: Problem) -> Found | None:
        """A bound from the relaxed problem, and guided answers until one meets it."""
        kept = racks_in_trouble(whole)
        small = relaxed(whole, kept)
        bounded, _ = self._optimiser(small).fewest_moves()
        if bounded is None:
            return None
        moved = moved_groups(small, bounded.counts)
        best: Found | None = None
        for problem in self._guided(whole, kept, moved):
            answer, _ = self._optimiser(problem).fewest_moves()
            if answer is not None and (best is None or answer.score.moves < best.answer.score.moves):
                best = Found(problem, self._bounded(answer, bounded.lower_bound))
            if best is not None and best.answer.objective_proved:
                return best
        return best

    def _guided(self, whole: Problem, kept: frozenset[int], moved: frozenset[int]) -> Iterator[Problem]:
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

    def _bounded(self, answer: Answer, bound: int | None) -> Answer:
        """A guided answer under the bound of the relaxed problem (its own bound proves nothing)."""
        proved = bound is not None and answer.score.moves <= bound
        return replace(answer, lower_bound=bound, objective_proved=proved)

    def _settled(self, split: Found) -> bool:
        cap = self.snapshot.planning.max_moves
        within = cap is None or split.answer.score.moves <= cap
        return self.objective == "moves" and within and split.answer.objective_proved

    def _break_ties(self, whole: Problem, split: Found) -> Found:
        """Tie-breaks among guided answers, then, where it can be built, in the whole program."""
        answer = self._optimiser(split.problem, self._tie_deadline()).refined(split.answer)
        near = Found(split.problem, replace(answer, ties_proved=False))
        if columns_of(whole) > LARGE:
            return near
        return Found(whole, self._optimiser(whole, self._tie_deadline()).refined(carried_over(near, whole)))

    def _better(self, one: Found, other: Found) -> Found:
        keys = [found.answer.score.key(self.objective) for found in (one, other)]
        if keys[1] <= keys[0]:
            return other
        bounds = [found.answer.lower_bound for found in (one, other)]
        bound = max((value for value in bounds if value is not None), default=None)
        return replace(one, answer=self._bounded(one.answer, bound))

    def _compromise(self, whole: Problem) -> Found:
        """A problem too large for the whole program and without a compliant answer yet."""
        kept = racks_in_trouble(whole)
        near = frozenset(member.index for member in whole.members if on_racks(whole, member, kept))
        narrow = guided(state_problem(self.snapshot, self.split_nodes, near), kept, near, RECEIVERS[0])
        if columns_of(narrow) > LARGE or self._left() <= 0:
            still = Counts({}, {})
            answer = Answer(still, score(whole, still), None, False, None, False, False)
            return Found(whole, answer)
        answer = self._optimiser(narrow).compromise()
        return Found(narrow, replace(answer, least_excess=False, lower_bound=None, ties_proved=False))

    def _optimiser(self, problem: Problem, deadline: float | None = None) -> Optimiser:
        return Optimiser(problem, self.objective, self.bench, deadline or self.deadline)

    def _left(self) -> float:
        return self.deadline - time.monotonic()

    def _tie_deadline(self) -> float:
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
