"""HiGHS through highspy, in a forked child: see :mod:`.child` for why."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from monkeytree.errors import SolverFailed
from monkeytree.program import Outcome, Program, judge

from .child import Send, findings

NAME = "highs"
_GRACE_S = 0.3


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
