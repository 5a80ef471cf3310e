"""Programs as data: what counts as a proof, and the text that CBC reads."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import highspy
import pytest

from monkeytree.program import Outcome, Program, Row, judge
from monkeytree.solvers.mps import write_mps

from .programs import binaries

PAIR = binaries(2, [((0, 1), (1.0, 1.0), ">=", 1.0)], {0: 2.0, 1: 3.0})


def judged(
    values: list[float] | None, bound: float | None, program: Program = PAIR, *, infeasible: bool = False
) -> Outcome:
    return judge(program, values=values, bound=bound, infeasible=infeasible, seconds=0.1, version="1")


@pytest.mark.parametrize(
    ("bound", "rounded", "status"),
    [
        (1.2, 2.0, "optimal"),  # costs are whole: nothing lies between 1.2 and 2
        (2.0, 2.0, "optimal"),
        (1.00009, 1.0, "feasible"),  # within a solver's own arithmetic of 1
        (1.01, 2.0, "optimal"),
        (0.3, 1.0, "feasible"),
        (-0.5, 0.0, "feasible"),
        (None, None, "feasible"),
    ],
)
def test_a_bound_is_rounded_up_to_a_step(bound: float | None, rounded: float | None, status: str) -> None:
    outcome = judged([1.0, 0.0], bound)
    assert (outcome.status, outcome.bound, outcome.objective) == (status, rounded, 2.0)


def test_without_a_step_only_meeting_the_bound_is_a_proof() -> None:
    program = PAIR.minimising({0: 0.25, 1: 0.75}, step=0.0)
    assert judged([1.0, 0.0], 0.2499, program).status == "feasible"
    assert judged([1.0, 0.0], 0.25, program).status == "optimal"
    assert judged([1.0, 0.0], 0.2499, program).bound == 0.2499


def test_integral_columns_are_rounded_and_continuous_ones_are_not() -> None:
    mixed = Program((0.0, 0.0), (1.0, 1.0), (True, False), PAIR.rows, {0: 2.0, 1: 3.0}, step=0.0)
    assert judged([0.9999999, 0.0000001], None, mixed).values == (1.0, 0.0000001)


def test_no_values_are_no_answer_and_infeasible_is_final() -> None:
    assert judged(None, 1.5) == Outcome("no_answer", None, None, 2.0, 0.1, "1")
    assert judged([1.0, 0.0], 1.0, infeasible=True) == Outcome("infeasible", None, None, None, 0.1, "1")


def test_the_gap_that_solvers_are_given_is_below_a_step() -> None:
    assert PAIR.gap() < 1
    assert PAIR.minimising({0: 2.0}, step=0.0).gap() <= 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_mps_text_reads_back_as_the_program(seed: int, tmp_path: Path) -> None:
    program = drawn(Random(seed))
    path = tmp_path / "model.mps"
    path.write_text(write_mps(program))
    assert as_read(path) == as_given(program)


def drawn(rng: Random) -> Program:
    width, height = rng.randint(1, 12), rng.randint(0, 8)
    lower = tuple(float(rng.choice([0, 0, 1, -2])) for _ in range(width))
    rows = []
    for _ in range(height):
        columns = rng.sample(range(width), rng.randint(1, width))
        values = tuple(rng.choice([-2.5, -1.0, 1.0, 3.0, 0.001, 1234567.0]) for _ in columns)
        rows.append(
            Row(tuple(columns), values, rng.choice(("<=", ">=", "==")), rng.choice([0.0, -1.0, 2.5, 7.0]))
        )
    return Program(
        lower=lower,
        upper=tuple(low + rng.choice([0.0, 1.0, 5.0, math.inf]) for low in lower),
        integer=tuple(rng.random() < 0.5 for _ in range(width)),
        rows=tuple(rows),
        objective={column: rng.choice([-1.0, 0.24, 9.02]) for column in range(0, width, 2)},
    )


def as_given(program: Program) -> object:
    rows = [
        (
            row.limit if row.sense != "<=" else -math.inf,
            row.limit if row.sense != ">=" else math.inf,
            sorted(zip(row.columns, row.coefficients, strict=True)),
        )
        for row in program.rows
    ]
    costs = [program.objective.get(column, 0.0) for column in range(program.width)]
    return list(program.lower), list(program.upper), list(program.integer), costs, rows


def as_read(path: Path) -> object:
    highs = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy has no types
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    model = highs.getLp()
    integer = [kind == highspy.HighsVarType.kInteger for kind in model.integrality_]
    integer = integer or [False] * model.num_col_
    entries: list[list[tuple[int, float]]] = [[] for _ in range(model.num_row_)]
    matrix = model.a_matrix_
    for column in range(model.num_col_):
        for at in range(matrix.start_[column], matrix.start_[column + 1]):
            entries[matrix.index_[at]].append((column, matrix.value_[at]))
    rows = list(zip(model.row_lower_, model.row_upper_, map(sorted, entries), strict=True))
    return list(model.col_lower_), list(model.col_upper_), integer, list(model.col_cost_), rows
