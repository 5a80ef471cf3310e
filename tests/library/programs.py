"""Programs for the solvers' tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal

from monkeytree.program import Program, Row

Term = tuple[Sequence[int], Sequence[float], Literal["<=", ">=", "=="], float]


def binaries(count: int, rows: Sequence[Term], objective: Mapping[int, float], step: float = 1.0) -> Program:
    """A program of binary columns."""
    return Program(
        lower=(0.0,) * count,
        upper=(1.0,) * count,
        integer=(True,) * count,
        rows=tuple(Row(tuple(at), tuple(values), sense, limit) for at, values, sense, limit in rows),
        objective=objective,
        step=step,
    )


def market_split(rows: int = 6, columns: int = 60) -> Program:
    """Integer equalities no branch and bound ends (Cornuejols and Dawande, 1998)."""
    rng = Random(1)
    drawn = [[float(rng.randrange(100)) for _ in range(columns)] for _ in range(rows)]
    terms: list[Term] = [(range(columns), values, "==", float(sum(values) // 2)) for values in drawn]
    return binaries(columns, terms, dict.fromkeys(range(columns), 1.0))


def hard_cover(columns: int = 300, rows: int = 100) -> Program:
    """A set of dense knapsacks: an incumbent at once, the proof far away."""
    rng = Random(3)
    terms: list[Term] = [
        (range(columns), [float(rng.randrange(1, 100)) for _ in range(columns)], ">=", 4_000.0 + row)
        for row in range(rows)
    ]
    return binaries(columns, terms, {column: float(rng.randrange(1, 100)) for column in range(columns)})


def wide(columns: int, rows: int = 1) -> Program:
    """At least one of many columns, said ``rows`` times."""
    terms: list[Term] = [(range(columns), [1.0] * columns, ">=", 1.0)] * rows
    return binaries(columns, terms, dict.fromkeys(range(columns), 1.0))
