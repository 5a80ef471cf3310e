"""Gurobi, through gurobipy 13.

The pip package carries a restricted licence (non-production use, at most 2,000 columns and 2,000
rows). Where no other licence is configured the size is checked beforehand; the two licence errors
are caught all the same, since only the solve itself knows. A real licence in the usual places
(GRB_LICENSE_FILE, gurobi.lic, WLS variables) is used without a change here.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from monkeytree.errors import SolverUnavailable
from monkeytree.program import Outcome, Program, judge

NAME = "gurobi"
FREE_COLUMNS = 2_000
FREE_ROWS = 2_000
_NO_LICENSE = 10009
_SIZE_LIMIT_EXCEEDED = 10010


def refusal(program: Program) -> str | None:
    """Why this program cannot be solved here, as far as can be told beforehand; None if it can."""
    try:
        import gurobipy  # noqa: F401  # availability is what is asked
    except ImportError as error:
        return f"gurobipy cannot be imported ({error})"
    if licensed():
        return None
    columns, rows = program.width, len(program.rows)
    if columns > FREE_COLUMNS or rows > FREE_ROWS:
        return (
            f"{columns} columns x {rows} rows is beyond the restricted licence ({FREE_COLUMNS} x {FREE_ROWS})"
        )
    return None


def licensed() -> bool:
    """Whether a licence other than the restricted one of the pip package is configured."""
    if any(os.environ.get(name) for name in ("GRB_LICENSE_FILE", "GRB_WLSACCESSID", "GRB_TOKENSERVER")):
        return True
    homes = [Path.home(), Path("/opt/gurobi")]
    return any((home / "gurobi.lic").exists() for home in homes)


def solve(program: Program, time_limit_s: float) -> Outcome:
    """Minimise on one thread.

    Raises:
        SolverUnavailable: no licence, or the program is larger than the licence allows.
    """
    import gurobipy as gp

    version = ".".join(str(part) for part in gp.gurobi.version())
    start = time.perf_counter()
    try:
        with gp.Env(params={"OutputFlag": 0}) as environment, gp.Model(env=environment) as model:
            columns = _load(model, program, time_limit_s)
            model.optimize()
            return _outcome(model, columns, program, time.perf_counter() - start, version)
    except gp.GurobiError as error:
        if error.errno in (_NO_LICENSE, _SIZE_LIMIT_EXCEEDED):
            raise SolverUnavailable(f"gurobi: {error} (errno {error.errno})") from error
        raise


def _load(model: Any, program: Program, time_limit_s: float) -> list[Any]:
    import gurobipy as gp
    from gurobipy import GRB

    model.Params.Threads = 1
    model.Params.TimeLimit = max(0.01, time_limit_s)
    model.Params.MIPGap = 0.0
    model.Params.MIPGapAbs = program.gap()
    columns = [
        model.addVar(lower, upper, program.objective.get(index, 0.0), GRB.INTEGER if integral else "C")
        for index, (lower, upper, integral) in enumerate(
            zip(program.lower, program.upper, program.integer, strict=True)
        )
    ]
    sense = {"<=": GRB.LESS_EQUAL, ">=": GRB.GREATER_EQUAL, "==": GRB.EQUAL}
    for row in program.rows:
        total = gp.LinExpr(row.coefficients, [columns[index] for index in row.columns])
        model.addLConstr(total, sense[row.sense], row.limit)
    return columns


def _outcome(model: Any, columns: list[Any], program: Program, seconds: float, version: str) -> Outcome:
    from gurobipy import GRB

    values = [column.X for column in columns] if model.SolCount else None
    infeasible = model.Status in (GRB.INFEASIBLE, GRB.INF_OR_UNBD)
    bound = None
    if not infeasible and abs(model.ObjBound) < GRB.INFINITY:
        bound = model.ObjBound
    return judge(program, values=values, bound=bound, infeasible=infeasible, seconds=seconds, version=version)
