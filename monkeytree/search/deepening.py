"""Iterative deepening over the moves, then over the ties: the engine's two loops."""

from __future__ import annotations

import math
from dataclasses import dataclass

from monkeytree.counts import Counts, tidy
from monkeytree.problem import Problem

from .bound import IMPOSSIBLE, lifts_needed
from .engine import Engine, OutOfEffort


@dataclass(frozen=True, slots=True)
class Finding:
    """What a search proved.

    Attributes:
        counts: an answer with the fewest moves, where one was found.
        lower_bound: no answer has fewer moves; None where there is provably none at all.
        ties_proved: ``counts`` has the fewest jobs paused, then the lowest summed f_t, too.
        spent: effort used for the moves.
    """

    counts: Counts | None
    lower_bound: int | None
    ties_proved: bool
    spent: int


def search(
    problem: Problem,
    *,
    effort: int,
    deadline: float = math.inf,
    most_moves: int | None = None,
    first_bound: int = 0,
) -> Finding:
    """The fewest moves that meet every bound and drain, if ``effort`` is enough to tell.

    Args:
        effort: work to spend at most (about states visited); the tie-breaks get as much again.
        deadline: of ``time.monotonic``.
        most_moves: give up, with the bound, beyond this many.
        first_bound: a bound that is known already.
    """
    engine = Engine(problem, effort, deadline)
    drained = engine.drain()
    needed = lifts_needed(engine.state, IMPOSSIBLE - 1, ())
    if needed >= IMPOSSIBLE:
        return Finding(None, None, False, 0)
    budget = max(first_bound, drained + needed)
    limit = sum(member.mobile for member in problem.members)
    limit = limit if most_moves is None else min(limit, most_moves)
    while budget <= limit:
        try:
            first = next(engine.answers(budget - drained), None)
        except OutOfEffort:
            break
        if first is not None:
            best, proved = _best_of_ties(problem, effort, deadline, budget, first)
            return Finding(tidy(problem, best), budget, proved, engine.spent)
        budget += 1
    return Finding(None, budget, False, engine.spent)


def _best_of_ties(
    problem: Problem, effort: int, deadline: float, budget: int, first: Counts
) -> tuple[Counts, bool]:
    """Among all answers of ``budget`` moves: fewest jobs paused, then lowest summed f_t.

    With loose orders a job may pause for its ring alone, which the engine does not weigh.
    """
    if any(member.loose for member in problem.members):
        return first, False
    engine = Engine(problem, effort, deadline)
    drained = engine.drain()
    best: tuple[int, int] = (IMPOSSIBLE, IMPOSSIBLE)
    chosen = first

    def worth() -> tuple[int, int]:
        jobs = {problem.members[g].job for g in engine.state.moved}
        return len(jobs), sum(engine.state.load.values())

    def no_better(left: int) -> bool:
        jobs, degree = worth()
        # Jobs only grow; degrees can still fall while lifts are left.
        return jobs > best[0] or (left == 0 and (jobs, degree) >= best)

    engine.prune = no_better
    try:
        for counts in engine.answers(budget - drained):
            if worth() < best:
                best, chosen = worth(), counts
    except OutOfEffort:
        return chosen, False
    return chosen, True
