"""HiGHS through highspy, in a forked child: see :mod:`.child` for why."""

from __future__ import annotations

import functools
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from monkeytree.errors import SolverFailed
from monkeytree.program import Outcome, Program, judge

from .child import Send, findings

NAME = "highs"
T = TypeVar("T")
_GRACE_S = 0.3
SMALL_LINEAR = 3_000
"""Columns up to which a linear relaxation is solved in process."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """What the child knows at some moment; the last one counts."""

    values: list[float] | None
    bound: float | None
    infeasible: bool = False


def refusal(program: Program) -> str | None:
    """Why this program cannot be solved here; None if it can."""
    try:
        import highspy  # noqa: F401  # availability is what is asked
    except ImportError as error:
        return f"highspy cannot be imported ({error})"
    return None


def solve(program: Program, time_limit_s: float) -> Outcome:
    """Minimise on one thread.

    Raises:
        SolverFailed: HiGHS refused the model or ended in an error.
    """
    from importlib.metadata import version

    import highspy  # noqa: F401  # loaded before the fork, so that every child has it at once

    start = time.perf_counter()
    last: _Finding | None = None
    for found in findings(lambda send: _solve(program, time_limit_s, send), time_limit_s + _GRACE_S):
        if isinstance(found, Exception):
            raise SolverFailed(f"highs: {found}")
        last = found if found.values is not None or last is None else _merged(last, found)
    last = last or _Finding(None, None)
    return judge(
        program,
        values=last.values,
        bound=last.bound,
        infeasible=last.infeasible,
        seconds=time.perf_counter() - start,
        version=version("highspy"),
    )


def _merged(before: _Finding, now: _Finding) -> _Finding:
    return _Finding(before.values, now.bound, now.infeasible)


def _solve(program: Program, time_limit_s: float, send: Send) -> None:
    import highspy

    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy has no types
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("time_limit", max(0.01, time_limit_s))
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.setOptionValue("mip_abs_gap", program.gap())
    if highs.passModel(_model(program)) == highspy.HighsStatus.kError:
        raise SolverFailed("it refused the model")
    highs.cbMipImprovingSolution.subscribe(lambda event: send(_incumbent(event)))
    highs.run()
    if highs.getModelStatus() == highspy.HighsModelStatus.kSolveError:
        # Seen with 1.16: presolve empties a small program to a point that violates a row.
        highs.setOptionValue("presolve", "off")
        highs.run()
    status = highs.getModelStatus()
    if status in (highspy.HighsModelStatus.kSolveError, highspy.HighsModelStatus.kModelError):
        raise SolverFailed(f"it ended with {highs.modelStatusToString(status)!r}")
    send(_last_finding(highs, program))


def _incumbent(event: Any) -> _Finding:
    bound = event.data_out.mip_dual_bound
    return _Finding(list(event.data_out.mip_solution), bound if math.isfinite(bound) else None)


def _model(program: Program) -> Any:
    import highspy
    import numpy as np

    model = highspy.HighsLp()
    model.num_col_ = program.width
    model.num_row_ = len(program.rows)
    cost = np.zeros(program.width)
    for column, value in program.objective.items():
        cost[column] = value
    model.col_cost_ = cost
    model.col_lower_ = np.array(program.lower)
    model.col_upper_ = np.array(program.upper)
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    model.integrality_ = [kinds[integral] for integral in program.integer]
    infinity = highspy.kHighsInf
    model.row_lower_ = np.array([row.limit if row.sense != "<=" else -infinity for row in program.rows])
    model.row_upper_ = np.array([row.limit if row.sense != ">=" else infinity for row in program.rows])
    matrix = model.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_ = np.cumsum([0] + [len(row.columns) for row in program.rows], dtype=np.int32)
    matrix.index_ = np.array([column for row in program.rows for column in row.columns], dtype=np.int32)
    matrix.value_ = np.array([value for row in program.rows for value in row.coefficients], dtype=float)
    return model


def _last_finding(highs: Any, program: Program) -> _Finding:
    import highspy

    info = highs.getInfo()
    infeasible = highs.getModelStatus() in (
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kUnboundedOrInfeasible,
    )
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = list(highs.getSolution().col_value) if found and not infeasible else None
    bound = info.mip_dual_bound if any(program.integer) else info.objective_function_value
    return _Finding(values, bound if math.isfinite(bound) else None, infeasible)


@dataclass(frozen=True, slots=True)
class LinearOutcome:
    """The linear relaxation of a program under some column bounds.

    Attributes:
        value: its optimum; ``math.inf`` where it is infeasible, NaN where HiGHS could not tell.
        values: of each column; empty unless optimal.
        multipliers: of each row, non-negative for ``<=`` rows: the optimal duals, or where infeasible
            a combination of the rows that no point within the column bounds meets (Farkas); empty
            where there is none.
    """

    value: float
    values: tuple[float, ...]
    multipliers: tuple[float, ...]


class LinearRelaxation:
    """A program of ``<=`` rows without integrality, solved again and again under changing column bounds.

    ``deadline`` is of ``time.monotonic``; a solve past it raises :class:`TimeoutError`.
    """

    def __init__(self, program: Program, deadline: float = math.inf) -> None:
        import highspy

        self._deadline = deadline

        self._lower, self._upper = program.lower, program.upper
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy has no types
        for option, value in (
            ("output_flag", False), ("threads", 1), ("presolve", "off"), ("solver", "simplex"),
        ):  # fmt: skip
            self._highs.setOptionValue(option, value)
        model = _model(program)
        model.integrality_ = []
        if self._highs.passModel(model) == highspy.HighsStatus.kError:
            raise SolverFailed("highs: it refused the model")

    def restrict(self, column: int, lower: float, upper: float) -> None:
        """Change the bounds of a column."""
        self._highs.changeColBounds(column, lower, upper)

    def basis(self) -> Any:
        """Where the last solve ended; opaque."""
        return self._highs.getBasis()

    def solve(self, start: Any = None) -> LinearOutcome:
        """Minimise, from a basis of an earlier solve if given."""
        import highspy

        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if start is not None:
            self._highs.setBasis(start)
        if math.isfinite(left):
            self._highs.setOptionValue("time_limit", self._highs.getRunTime() + left)
        self._highs.run()
        status = self._highs.getModelStatus()
        if status == highspy.HighsModelStatus.kOptimal:
            solution = self._highs.getSolution()
            value = self._highs.getInfo().objective_function_value
            multipliers = tuple(max(0.0, -dual) for dual in solution.row_dual)
            return LinearOutcome(value, tuple(solution.col_value), multipliers)
        if status != highspy.HighsModelStatus.kInfeasible:
            return LinearOutcome(math.nan, (), ())
        _, known, ray = self._highs.getDualRay()
        # The sign of a ray is a convention; on "<=" rows only one of the two proves anything.
        return LinearOutcome(math.inf, (), tuple(max(0.0, -value) for value in ray) if known else ())


@functools.cache
def _say_banner() -> None:
    """Have HiGHS 1.16 print the banner of its first solve, once a process, where nobody reads it."""
    empty = Program((0.0,), (0.0,), (False,), ())
    sys.stdout.flush()
    saved, sink = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 1)
        LinearRelaxation(empty).solve()
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(sink)


def explored(program: Program, explore: Callable[[LinearRelaxation], T], time_limit_s: float) -> T | None:
    """What ``explore`` makes of the linear relaxation; None when time was up.

    A small program is solved in process, which saves the milliseconds of a fork; one whose single
    solves may be long, in a child that can be killed.

    Raises:
        SolverFailed: HiGHS refused the model or ended in an error.
    """
    import highspy  # noqa: F401  # loaded before a fork, so that every child has it at once

    if program.width <= SMALL_LINEAR:
        _say_banner()
        try:
            return explore(LinearRelaxation(program, time.monotonic() + time_limit_s))
        except TimeoutError:
            return None
    last: T | None = None
    for found in findings(lambda send: send(explore(LinearRelaxation(program))), time_limit_s):
        if isinstance(found, Exception):
            raise SolverFailed(f"highs: {found}")
        last = found
    return last
