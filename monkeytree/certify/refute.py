"""Branch and bound for a proof: the tree is the answer, not the optimum.

A node is refuted once its linear relaxation needs more than the budget. The multipliers that prove it
come from a solver in floating point; they are rounded to integers and the contradiction is computed
again exactly. Column bounds are finite, so *any* non-negative multipliers give a valid inequality, and
rounding can only make it too weak, never wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from monkeytree.program import Program, Row
from monkeytree.solvers.highs import LinearOutcome, LinearRelaxation

from .statement import Statement

MOST_LEAVES = 200
SCALES = (1, 2, 3, 4, 6, 12, 60, 840, 5040, 10**5, 10**7)
"""Multipliers are rounded to multiples of 1 / scale: duals of such programs are mostly small fractions."""
_TRIED = 12
_EARLY = 40
"""Leaves after which a tree that is not 1 % done is given up."""
_WHOLE = 1e-6

Multipliers = dict[str, int]


class Unrefuted(Exception):
    """The program has an integral point, or the tree would grow too large."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Multipliers of the rows that contradict the column bounds here."""

    multipliers: Multipliers


@dataclass(frozen=True, slots=True)
class Branch:
    """Every integral point has ``column`` either at most ``at``, or at least one more."""

    column: str
    at: int
    most: Leaf | Branch
    more: Leaf | Branch


def as_program(statement: Statement) -> Program:
    """Its linear program: least moves under all other rows, in the order of :func:`row_names`."""
    rows = [statement.rows[name] for name in row_names(statement)]
    return Program(
        lower=(0.0,) * len(statement.upper),
        upper=tuple(float(value) for value in statement.upper),
        integer=(False,) * len(statement.upper),
        rows=tuple(
            Row(tuple(terms), tuple(float(value) for value in terms.values()), "<=", limit)
            for terms, limit in rows
        ),
        objective={column: float(cost) for column, cost in statement.rows["moves"][0].items()},
    )


def row_names(statement: Statement) -> list[str]:
    """Names of the rows of the linear program."""
    return [name for name in statement.rows if name != "moves"]


class Refuter:
    """Depth-first, each branch chosen by solving both sides of the likeliest columns."""

    def __init__(self, statement: Statement, linear: LinearRelaxation) -> None:
        self.statement, self.linear = statement, linear
        self.names = row_names(statement)
        self.budget = statement.rows["moves"][1]
        self.lower = [0] * len(statement.upper)
        self.upper = list(statement.upper)
        self.leaves = 0
        self.done = 0.0
        self.depth = 0

    def tree(self) -> Leaf | Branch | None:
        """The refutation; None where there is none (of this size)."""
        try:
            return self._refuted(self.linear.solve(), self.linear.basis())
        except Unrefuted:
            return None

    def _refuted(self, here: LinearOutcome, basis: Any) -> Leaf | Branch:
        if self._closed(here):
            leaf = self._leaf(here)
            if leaf is not None:
                return leaf
        if not here.values:
            raise Unrefuted
        column, at, sides = self._best_branch(here, basis)
        trees = []
        self.depth += 1
        for (lower, upper), (outcome, start) in zip(self._halves(column, at), sides, strict=True):
            kept = self._restrict(column, lower, upper)
            trees.append(self._refuted(outcome, start))
            self._restrict(column, *kept)
        self.depth -= 1
        return Branch(self.statement.names[column], at, trees[0], trees[1])

    def _closed(self, here: LinearOutcome) -> bool:
        return here.value > self.budget + _WHOLE

    def _leaf(self, here: LinearOutcome) -> Leaf | None:
        self.leaves += 1
        self.done += 0.5**self.depth
        if self.leaves > MOST_LEAVES or (self.leaves >= _EARLY and self.done < 0.01):
            raise Unrefuted
        moves = 0.0 if here.value == math.inf else 1.0
        largest = max([moves, *here.multipliers])
        for scale in SCALES:
            # Duals are of the order of 1; a ray has any length.
            factor = scale if moves else scale / (largest or 1.0)
            rounded = {
                name: round(value * factor)
                for name, value in zip(self.names, here.multipliers, strict=True)
                if round(value * factor)
            }
            if moves:
                rounded["moves"] = scale
            if contradiction(self.statement, rounded, self.lower, self.upper):
                return Leaf(rounded)
        return None

    def _best_branch(
        self, here: LinearOutcome, basis: Any
    ) -> tuple[int, int, list[tuple[LinearOutcome, Any]]]:
        best: tuple[float, int, int, list[tuple[LinearOutcome, Any]]] | None = None
        for column in self._candidates(here):
            at = math.floor(here.values[column])
            sides = []
            for lower, upper in self._halves(column, at):
                kept = self._restrict(column, lower, upper)
                sides.append((self.linear.solve(basis), self.linear.basis()))
                self._restrict(column, *kept)
            gains = [min(side.value, self.budget + 1) - here.value for side, _ in sides]
            if any(math.isnan(gain) for gain in gains):
                continue
            score = max(gains[0], _WHOLE) * max(gains[1], _WHOLE)
            if all(self._closed(side) for side, _ in sides):
                return column, at, sides
            if best is None or score > best[0]:
                best = (score, column, at, sides)
        if best is None:
            raise Unrefuted
        return best[1:]

    def _candidates(self, here: LinearOutcome) -> Iterator[int]:
        """Columns off an integer, the most undecided first: binaries, then the counts."""
        binary: list[tuple[float, int]] = []
        counts: list[tuple[float, int]] = []
        for column, value in enumerate(here.values):
            off = abs(value - round(value))
            if off > _WHOLE:
                (binary if self.statement.upper[column] == 1 else counts).append((-off, column))
        for _, column in (sorted(binary) or sorted(counts))[:_TRIED]:
            yield column

    def _halves(self, column: int, at: int) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.lower[column], at), (at + 1, self.upper[column])

    def _restrict(self, column: int, lower: int, upper: int) -> tuple[int, int]:
        before = self.lower[column], self.upper[column]
        self.lower[column], self.upper[column] = lower, upper
        self.linear.restrict(column, lower, upper)
        return before


def contradiction(statement: Statement, multipliers: Multipliers, lower: list[int], upper: list[int]) -> bool:
    """Whether the sum of the rows, so often each, is violated by every point within the bounds."""
    summed: dict[int, int] = {}
    limit = 0
    for name, times in multipliers.items():
        terms, row_limit = statement.rows[name]
        limit += times * row_limit
        for column, value in terms.items():
            summed[column] = summed.get(column, 0) + times * value
    least = sum(value * (lower if value > 0 else upper)[column] for column, value in summed.items())
    return least > limit
