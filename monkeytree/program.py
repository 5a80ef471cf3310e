"""Mixed-integer programs as plain data: what every solver adapter takes and gives.

No solver object leaves an adapter: a :class:`Program` goes in, an :class:`Outcome` comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

OutcomeStatus = Literal["optimal", "feasible", "infeasible", "no_answer"]

INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Row:
    """A linear constraint: sum of coefficient x column, ``<=``, ``>=`` or ``==`` ``limit``."""

    columns: tuple[int, ...]
    coefficients: tuple[float, ...]
    sense: Literal["<=", ">=", "=="]
    limit: float


@dataclass(frozen=True, slots=True)
class Program:
    """Minimise ``objective`` over columns with bounds, subject to rows.

    Attributes:
        lower, upper: bounds of each column.
        integer: whether each column is integral.
        objective: cost by column; columns left out cost nothing.
        step: any two different values of the objective over feasible points differ by at least
            this much (1 where all costs and all costed columns are integral); 0 where unknown. A
            gap between incumbent and bound below it is a proof of optimality.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    integer: tuple[bool, ...]
    rows: tuple[Row, ...]
    objective: Mapping[int, float] = field(default_factory=dict)
    step: float = 1.0

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.lower)

    def minimising(self, objective: Mapping[int, float], step: float = 1.0) -> Program:
        """The same constraints under another objective."""
        return replace(self, objective=objective, step=step)

    def with_rows(self, *rows: Row) -> Program:
        """The same program with more constraints."""
        return replace(self, rows=self.rows + rows)

    def gap(self) -> float:
        """Absolute gap at which a solver may stop with a proof."""
        return 0.99 * self.step if self.step else 1e-6


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a solve ended.

    Attributes:
        status: ``optimal`` (incumbent and bound closer than the program's step), ``feasible``
            (an incumbent without that proof), ``infeasible`` (proved) or ``no_answer``.
        values: of each column, where there is an incumbent.
        bound: proved lower bound of the objective, rounded up to a step where there is one.
        version: of the solver.
    """

    status: OutcomeStatus
    values: tuple[float, ...] | None
    objective: float | None
    bound: float | None
    seconds: float
    version: str


def value_of(objective: Mapping[int, float], values: Sequence[float]) -> float:
    """Objective at a point."""
    return sum(cost * values[column] for column, cost in objective.items())


def judge(
    program: Program,
    *,
    values: Sequence[float] | None,
    bound: float | None,
    infeasible: bool,
    seconds: float,
    version: str,
) -> Outcome:
    """The outcome of raw findings: one place decides what counts as a proof.

    Integral columns are rounded; the bound is rounded up to the next multiple of the step (with a
    tolerance for the solver's own arithmetic), and the incumbent is optimal when it meets it.
    """
    if infeasible:
        return Outcome("infeasible", None, None, None, seconds, version)
    step = program.step
    if bound is not None and step:
        bound = step * _ceil(bound / step)
    if values is None:
        return Outcome("no_answer", None, None, bound, seconds, version)
    point = tuple(
        float(round(value)) if integral else value
        for value, integral in zip(values, program.integer, strict=True)
    )
    objective = value_of(program.objective, point)
    slack = step * 1e-3 if step else 1e-6 * max(1.0, abs(objective))
    proved = bound is not None and objective <= bound + slack
    return Outcome("optimal" if proved else "feasible", point, objective, bound, seconds, version)


def _ceil(value: float) -> int:
    """The least integer at or above ``value``, forgiving a solver's 1e-4 of rounding."""
    return -int(-(value - 1e-4) // 1)
