"""What CBC's solution file and log are taken to say: captured from CBC 2.10.3, cut short."""

from __future__ import annotations

import pytest

from monkeytree.errors import SolverFailed
from monkeytree.solvers.cbc import read_answer

from .programs import binaries

PROGRAM = binaries(3, [((0, 1, 2), (1.0, 1.0, 1.0), ">=", 1.0)], {0: 4.0, 1: 5.0, 2: 6.0})
HEAD = "Welcome to the CBC MILP Solver \nVersion: 2.10.3 \nBuild Date: Dec 15 2019 \n\n"


def test_optimal_without_a_bound_in_the_log_is_its_own_bound() -> None:
    answer = "Optimal - objective value 4.00000000\n      0 C0   1   4\n"
    log = HEAD + "Result - Optimal solution found\n\nObjective value:                4.00000000\n"
    outcome = read_answer(PROGRAM, answer, log, 0.5)
    assert (outcome.status, outcome.values, outcome.objective, outcome.bound) == (
        "optimal",
        (1.0, 0.0, 0.0),
        4.0,
        4.0,
    )
    assert (outcome.version, outcome.seconds) == ("2.10.3", 0.5)


def test_stopped_on_time_with_an_incumbent_is_feasible_with_its_bound() -> None:
    answer = "Stopped on time - objective value 9.00000000\n      0 C0   1   4\n      1 C1   1   5\n"
    log = HEAD + (
        "Result - Stopped on time limit\n\nObjective value:                9.00000000\n"
        "Lower bound:                    3.897\nGap:                            0.03\n"
    )
    outcome = read_answer(PROGRAM, answer, log, 1.0)
    assert (outcome.status, outcome.values, outcome.objective, outcome.bound) == (
        "feasible",
        (1.0, 1.0, 0.0),
        9.0,
        4.0,
    )


def test_stopped_on_time_with_an_incumbent_that_meets_the_bound_is_optimal() -> None:
    answer = "Stopped on time - objective value 4.00000000\n      0 C0   1   4\n"
    outcome = read_answer(PROGRAM, answer, HEAD + "Lower bound:                    3.897\n", 1.0)
    assert outcome.status == "optimal"


def test_stopped_on_time_without_an_incumbent_is_no_answer_and_never_infeasible() -> None:
    """The file then holds the relaxation, which is no answer at all."""
    answer = (
        "Stopped on time (no integer solution - continuous used) - objective value 9.28301179\n"
        "      0 C0            0.23113836                       0\n"
        "      1 C1                     1            -0.035002279\n"
    )
    log = HEAD + (
        "Result - Stopped on time limit\n\nNo feasible solution found\n"
        "Lower bound:                    10.000\n"
    )
    outcome = read_answer(PROGRAM, answer, log, 1.0)
    assert (outcome.status, outcome.values, outcome.bound) == ("no_answer", None, 10.0)


@pytest.mark.parametrize(
    "answer",
    [
        "Infeasible - objective value 5.00000000\n      0 C0   1  -1\n**    1 C1   2   0\n",
        "Integer infeasible - objective value 5.35777748\n      0 C0   0   0.29\n      2 C2   1  -0.25\n",
    ],
)
def test_infeasible_is_told_by_the_file(answer: str) -> None:
    log = HEAD + "Result - Problem proven infeasible\n\nNo feasible solution found\n"
    outcome = read_answer(PROGRAM, answer, log, 1.0)
    assert (outcome.status, outcome.values, outcome.bound) == ("infeasible", None, None)


def test_no_solution_file_is_a_failure_with_the_last_words() -> None:
    with pytest.raises(SolverFailed, match="Bad image at line 7"):
        read_answer(PROGRAM, "", HEAD + "Bad image at line 7 < X0 OBJ 1 >\n", 1.0)
