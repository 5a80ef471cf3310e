"""Gurobi, HiGHS and CBC behind one door: the same verdicts, time limits, refusals and records."""

from __future__ import annotations

from typing import Any

import pytest

import monkeytree
from monkeytree.errors import SolverUnavailable, UnknownSolver
from monkeytree.program import Program, Row, value_of
from monkeytree.solvers import cbc, gurobi, highs
from tests.oracle.reading import Document

from .programs import Term, binaries, hard_cover, market_split, wide
from .support import INSTANCES, job, padded, planned, snapshot

SOLVERS = pytest.mark.parametrize("solver", [gurobi, highs, cbc], ids=lambda solver: str(solver.NAME))
LIMIT_S = 1.0
FENCE_S = 30.0
"""Far beyond ``LIMIT_S`` on any machine, far below what the programs would take."""


@pytest.fixture(autouse=True)
def _restricted_licence(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about the restricted licence, whatever is configured here."""
    for name in ("GRB_LICENSE_FILE", "GRB_WLSACCESSID", "GRB_TOKENSERVER"):
        monkeypatch.delenv(name, raising=False)


def assert_feasible(program: Program, values: tuple[float, ...]) -> None:
    for row in program.rows:
        total = sum(
            value * values[column] for column, value in zip(row.columns, row.coefficients, strict=True)
        )
        assert {"<=": total <= row.limit + 1e-6, ">=": total >= row.limit - 1e-6}.get(
            row.sense, abs(total - row.limit) <= 1e-6
        )


@SOLVERS
def test_an_optimum_is_found_and_proved(solver: Any) -> None:
    rows: list[Term] = [((0, 1, 2), (1.0, 1.0, 1.0), ">=", 2.0), ((0, 1), (1.0, 1.0), "<=", 1.0)]
    program = binaries(4, rows, {0: 3.0, 1: 2.0, 2: 4.0, 3: 1.0})
    outcome = solver.solve(program, 60.0)
    assert (outcome.status, outcome.objective, outcome.bound) == ("optimal", 6.0, 6.0)
    assert outcome.values == (0.0, 1.0, 1.0, 0.0)
    assert outcome.seconds > 0
    assert outcome.version[0].isdigit()


@SOLVERS
@pytest.mark.parametrize(
    "row",
    [((0, 1), (1.0, 1.0), ">=", 3.0), ((0, 1), (2.0, 2.0), "==", 1.0)],
    ids=["as a linear program", "in integers only"],
)
def test_what_cannot_be_is_infeasible(solver: Any, row: Any) -> None:
    outcome = solver.solve(binaries(2, [row], {0: 1.0, 1: 2.0}), 60.0)
    assert (outcome.status, outcome.values, outcome.bound) == ("infeasible", None, None)


@SOLVERS
def test_an_infeasibility_that_takes_a_search_is_proved(solver: Any) -> None:
    assert solver.solve(market_split(rows=2, columns=12), 60.0).status == "infeasible"


@SOLVERS
def test_time_without_an_incumbent_is_no_answer(solver: Any) -> None:
    outcome = solver.solve(market_split(), LIMIT_S)
    assert (outcome.status, outcome.values) == ("no_answer", None)
    assert outcome.seconds < FENCE_S


@SOLVERS
def test_time_with_an_incumbent_returns_it_with_its_bound(solver: Any) -> None:
    program = hard_cover()
    outcome = solver.solve(program, 3 * LIMIT_S)
    assert outcome.status == "feasible"
    assert_feasible(program, outcome.values)
    assert outcome.bound is not None
    assert 0 < outcome.bound < outcome.objective
    assert outcome.objective == value_of(program.objective, outcome.values)
    assert outcome.seconds < FENCE_S


@SOLVERS
def test_continuous_columns_take_fractions(solver: Any) -> None:
    """Minimise x + y/4 with x binary, y in [0, 2.5], x + y >= 2.5 and y <= 2 + x/2."""
    rows = (Row((0, 1), (1.0, 1.0), ">=", 2.5), Row((1, 0), (1.0, -0.5), "<=", 2.0))
    program = Program((0.0, 0.0), (1.0, 2.5), (True, False), rows, {0: 1.0, 1: 0.25}, step=0.0)
    outcome = solver.solve(program, 60.0)
    assert outcome.status == "optimal"
    assert outcome.values == pytest.approx((1.0, 1.5))
    assert outcome.objective == pytest.approx(1.375)
    assert outcome.bound == pytest.approx(1.375)


@SOLVERS
def test_without_a_step_differences_below_one_count(solver: Any) -> None:
    """With a step of 1 the solvers may stop at a gap of 0.99; without, they have to go on."""
    rows: list[Term] = [((0, 1, 2, 3), (1.0, 1.0, 1.0, 1.0), "==", 2.0)]
    program = binaries(4, rows, {0: 9.02, 1: 9.26, 2: 9.03, 3: 9.025}, step=0.0)
    outcome = solver.solve(program, 60.0)
    assert outcome.status == "optimal"
    assert outcome.objective == pytest.approx(18.045)


@SOLVERS
def test_a_program_without_integers_or_rows_or_costs_is_solved(solver: Any) -> None:
    linear = Program((0.0,), (4.0,), (False,), (Row((0,), (2.0,), ">=", 3.0),), {0: 1.0}, step=0.0)
    assert solver.solve(linear, 60.0).objective == pytest.approx(1.5)
    assert solver.solve(binaries(2, [], {0: -1.0, 1: 1.0}), 60.0).objective == -1.0
    assert solver.solve(binaries(2, [((0,), (1.0,), "==", 1.0)], {}), 60.0).status == "optimal"


def test_the_restricted_licence_is_predicted() -> None:
    assert gurobi.refusal(wide(2_000)) is None
    for program in (wide(2_001), wide(1, rows=2_001)):
        reason = gurobi.refusal(program)
        assert reason is not None
        assert "2001" in reason


@pytest.mark.skipif(gurobi.licensed(), reason="a real licence takes any size")
@pytest.mark.parametrize("program", [wide(2_001), wide(1, rows=2_001)], ids=["columns", "rows"])
def test_the_restricted_licence_is_caught_all_the_same(program: Program) -> None:
    with pytest.raises(SolverUnavailable, match="10010"):
        gurobi.solve(program, 10.0)


@pytest.mark.skipif(gurobi.licensed(), reason="a real licence takes any size")
def test_gurobi_by_name_says_what_the_licence_allows() -> None:
    loaded = monkeytree.load_snapshot(INSTANCES / "cold-16384-256x8-l2-first-60.json")
    with pytest.raises(SolverUnavailable, match="restricted licence"):
        monkeytree.make_plan(loaded, solver="gurobi")


@pytest.mark.skipif(gurobi.licensed(), reason="a real licence takes any size")
def test_a_fallback_records_what_was_tried_and_why() -> None:
    """Least GPU-seconds need the whole program, which is beyond the restricted licence here."""
    document = padded(contested()) | {"planning": {"objective": "gpu_seconds"}}
    plan = planned(document, solver="auto")
    tried = {trial.name: trial.outcome for trial in plan.solver.tried}
    assert "restricted licence" in tried["gurobi"] or tried["gurobi"] == "optimal"
    assert tried["highs"] == "optimal"
    assert plan.status == "optimal"


def contested() -> Document:
    """Two racks, two jobs across both, one uplink each: two moves of a swap, or one into a free slot."""
    racks: dict[str, Document] = {
        "r1": {"uplinks": 1, "nodes": {"a": 1, "b": 1, "c": 1}},
        "r2": {"uplinks": 1, "nodes": {"d": 1, "e": 1}},
    }
    return snapshot(racks, [job("A", "a", "d"), job("B", "b", "e")])


@pytest.mark.parametrize("solver", ["auto", "search", "split", "gurobi", "highs", "cbc"])
def test_the_solver_that_answered_is_named_with_its_version(solver: str) -> None:
    plan = planned(contested(), solver=solver)
    assert (plan.status, plan.moves_needed) == ("optimal", 1)
    assert plan.solver.version
    assert plan.solver.name in {"auto": ("search",), "split": ("gurobi",)}.get(solver, (solver,))
    assert plan.solver.name in [trial.name for trial in plan.solver.tried]


def test_an_unknown_solver_is_refused_by_name() -> None:
    with pytest.raises(UnknownSolver, match=r"'cplex'.*auto.*gurobi.*highs.*cbc"):
        planned(contested(), solver="cplex")
