"""Iterative deepening over the moves, then over the ties: the engine's two loops."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from monkeytree.counts import Counts, tidy
from monkeytree.problem import Problem

from .bound import IMPOSSIBLE, lifts_needed
from .engine import Engine, OutOfEffort

TIES_EFFORT = 4
"""Tie-breaks by search are worth this much more effort than the moves: programs need far longer."""
TIES_LEAST_S = 0.05
"""Seconds for tie-breaks beyond twice what the moves took: they must not cost the speed."""
TIES_LEAST = 1_000
"""The same in effort, for answers that must repeat on any machine."""


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
    repeatable: bool = False,
) -> Finding:
    """The fewest moves that meet every bound and drain, if ``effort`` is enough to tell.

    Args:
        effort: work to spend at most (about states visited); the tie-breaks get TIES_EFFORT times as much.
        deadline: of ``time.monotonic``.
        most_moves: give up, with the bound, beyond this many.
        first_bound: a bound that is known already.
        repeatable: limit the tie-breaks by effort alone, so that no clock short of the deadline counts.
    """
    start = time.monotonic()
    engine = Engine(problem, effort, deadline)
    drained = engine.drain()
    mark = engine.state.mark()
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
            spent = engine.spent
            spent_s = time.monotonic() - start
            engine.restart(mark, TIES_LEAST + 2 * spent if repeatable else TIES_EFFORT * effort)
            if not repeatable:
                engine.deadline = min(deadline, time.monotonic() + TIES_LEAST_S + 2 * spent_s)
            best, proved = _best_of_ties(engine, budget - drained, first)
            return Finding(tidy(problem, best), budget, proved, spent)
        budget += 1
    return Finding(None, budget, False, engine.spent)


def _best_of_ties(engine: Engine, left: int, first: Counts) -> tuple[Counts, bool]:
    """Among all answers of ``budget`` moves: fewest jobs paused, then lowest summed f_t.

    With loose orders a job may pause for its ring alone, which the engine does not weigh.
    """
    if any(member.loose for member in engine.problem.members):
        return first, False
    problem = engine.problem
    best: tuple[int, int] = (IMPOSSIBLE, IMPOSSIBLE)
    chosen = first

    def worth() -> tuple[int, int]:
        jobs = {problem.members[g].job for g in engine.state.moved}
        return len(jobs), sum(engine.state.load.values())

    def no_better(left: int) -> bool:
        if len(engine.state.moved) < best[0] and left:
            return False  # each job has a member at least
        jobs, degree = worth()
        # Jobs only grow; degrees can still fall while lifts are left.
        return jobs > best[0] or (left == 0 and (jobs, degree) >= best)

    engine.prune = no_better
    try:
        for counts in engine.answers(left):
            if worth() < best:
                best, chosen = worth(), counts
    except OutOfEffort:
        return chosen, False
    return chosen, True
