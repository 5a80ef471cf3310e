"""Programs as free-format MPS text.

Columns are named ``C0, C1, ...`` and rows ``R0, R1, ...``. The ``FREE`` after NAME matters: CBC
guesses the fixed format for some files otherwise, and then answers with no solution at all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from monkeytree.program import Program

_SENSE = {"<=": "L", ">=": "G", "==": "E"}


def write_mps(program: Program) -> str:
    """The program as MPS text."""
    return "\n".join(_lines(program)) + "\n"


def _lines(program: Program) -> Iterator[str]:
    yield "NAME monkeytree FREE"
    yield "ROWS"
    yield " N COST"
    for index, row in enumerate(program.rows):
        yield f" {_SENSE[row.sense]} R{index}"
    yield "COLUMNS"
    yield from _columns(program)
    yield "RHS"
    for index, row in enumerate(program.rows):
        if row.limit:
            yield f" RHS R{index} {row.limit:.12g}"
    yield "BOUNDS"
    for column, (lower, upper) in enumerate(zip(program.lower, program.upper, strict=True)):
        yield f" LO BND C{column} {lower:.12g}"
        yield f" UP BND C{column} {upper:.12g}" if math.isfinite(upper) else f" PL BND C{column}"
    yield "ENDATA"


def _columns(program: Program) -> Iterator[str]:
    entries: dict[int, list[tuple[str, float]]] = defaultdict(list)
    for column, cost in program.objective.items():
        if cost:
            entries[column].append(("COST", cost))
    for index, row in enumerate(program.rows):
        for column, coefficient in zip(row.columns, row.coefficients, strict=True):
            entries[column].append((f"R{index}", coefficient))
    integral = False
    for column in range(program.width):
        if program.integer[column] != integral:
            integral = program.integer[column]
            yield f" MARKER 'MARKER' '{'INTORG' if integral else 'INTEND'}'"
        for row_name, coefficient in entries.get(column, [("COST", 0.0)]):
            yield f" C{column} {row_name} {coefficient:.12g}"
    if integral:
        yield " MARKER 'MARKER' 'INTEND'"
