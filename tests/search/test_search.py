"""The search against the brute force, and what it proves when it is stopped early."""

from __future__ import annotations

from random import Random

import pytest

import monkeytree
from monkeytree.counts import Score, score
from monkeytree.problem import Problem, state_problem
from monkeytree.search import search
from tests.oracle.brute import Best, brute_force
from tests.oracle.generate import FEATURES, in_trouble, tiny_snapshot

UNPACKED = frozenset(FEATURES) - {"wide"}
"""Without workers of several slots, counts that fit a site fit its nodes, so the search is exact alone."""
EFFORT = 20_000


def stated(seed: int) -> tuple[Problem, Best] | None:
    """A tiny problem and its optimum; None where there is nothing to do."""
    document = tiny_snapshot(Random(seed), features=UNPACKED)
    document.get("planning", {}).pop("max_moves", None)
    document.get("planning", {}).pop("objective", None)
    if not in_trouble(document):
        return None
    return state_problem(monkeytree.load_snapshot(document)), brute_force(document)


@pytest.mark.parametrize("seed", range(0, 400, 4))
def test_finds_the_fewest_moves_and_breaks_ties(seed: int) -> None:
    for each in range(seed, seed + 4):
        case = stated(each)
        if case is None:
            continue
        problem, best = case
        finding = search(problem, effort=EFFORT)
        compliant = best.excess == 0 and best.undrained == problem.stuck
        if not compliant:
            assert finding.counts is None, each
            continue
        assert finding.counts is not None, each
        found = score(problem, finding.counts)
        assert finding.lower_bound == found.moves == best.moves, each
        if finding.ties_proved:
            assert found.key("moves") == _key(best), each


@pytest.mark.parametrize("effort", [1, 5, 25, 100])
def test_a_search_that_is_stopped_still_bounds_from_below(effort: int) -> None:
    for seed in range(100):
        case = stated(seed)
        if case is None or case[1].excess or case[1].undrained > case[0].stuck:
            continue
        finding = search(case[0], effort=effort)
        assert finding.lower_bound is not None
        assert finding.lower_bound <= case[1].moves, seed


def test_a_cap_below_the_optimum_proves_that_the_cap_is_too_low() -> None:
    proved = 0
    for seed in range(60):
        case = stated(seed)
        if case is None or case[1].excess or case[1].undrained > case[0].stuck or not case[1].moves:
            continue
        finding = search(case[0], effort=EFFORT, most_moves=case[1].moves - 1)
        assert finding.counts is None
        assert finding.lower_bound == case[1].moves, seed
        proved += 1
    assert proved > 10


def test_searching_leaves_no_trace_in_the_state() -> None:
    case = stated(3)
    assert case is not None
    first = search(case[0], effort=EFFORT)
    assert search(case[0], effort=EFFORT) == first


def _key(best: Best) -> tuple[float, ...]:
    return Score(best.undrained, best.excess, best.moves, 0.0, best.jobs_paused, best.summed_f).key("moves")
