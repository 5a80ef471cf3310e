"""Columns and rows for pauses: which jobs pause, and for how long.

Only the tie-breaks and ``gpu_seconds`` ask for them, so the program for the fewest moves is built
without.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol

from .columns import Columns
from .problem import Problem


class Rows(Protocol):
    """What a builder offers to those who add to its program."""

    def column(self, upper: float, *, integer: bool = False, lower: float = 0.0) -> int: ...

    def row(self, terms: Mapping[int, float], sense: str, limit: float) -> None: ...


def add_pauses(problem: Problem, columns: Columns, rows: Rows, *, costs: bool) -> None:
    """A job is paused when a worker of it moves or a ring of it is reordered."""
    members = problem.members
    owners = {members[g].job for g, _ in columns.out} | {members[g].job for g in columns.reorder}
    for j in sorted(owners):
        columns.paused[j] = rows.column(1, integer=True)
    for g, reorder in columns.reorder.items():
        rows.row({reorder: 1.0, columns.paused[members[g].job]: -1.0}, "<=", 0)
    for (g, site), out in columns.out.items():
        movable = float(members[g].movable[site])
        rows.row({out: 1.0, columns.paused[members[g].job]: -movable}, "<=", 0)
    if costs:
        _restarts(problem, columns, rows)
        _wire_times(problem, columns, rows)


def _restarts(problem: Problem, columns: Columns, rows: Rows) -> None:
    """A restart job pays its restart when, and only when, a worker of it moves."""
    leaving: dict[int, dict[int, float]] = defaultdict(dict)
    for (g, site), out in columns.out.items():
        member = problem.members[g]
        if not problem.jobs[member.job].restart:
            continue
        if member.job not in columns.moved:
            columns.moved[member.job] = rows.column(1, integer=True)
        leaving[member.job][out] = -1.0
        movable = float(member.movable[site])
        rows.row({out: 1.0, columns.moved[member.job]: -movable}, "<=", 0)
    for j, terms in leaving.items():
        rows.row({columns.moved[j]: 1.0, columns.paused[j]: -1.0}, "<=", 0)
        rows.row({**terms, columns.moved[j]: 1.0}, "<=", 0)


def _wire_times(problem: Problem, columns: Columns, rows: Rows) -> None:
    """A live job pays the longest wire time of its groups that move."""
    longest: dict[int, float] = defaultdict(float)
    for member in problem.members:
        longest[member.job] = max(longest[member.job], member.wire_s)
    for (g, site), out in columns.out.items():
        member = problem.members[g]
        if problem.jobs[member.job].restart or not member.wire_s:
            continue
        if member.job not in columns.wire:
            columns.wire[member.job] = rows.column(longest[member.job])
        if g not in columns.group_moved:
            columns.group_moved[g] = rows.column(1, integer=True)
            terms = {columns.wire[member.job]: 1.0, columns.group_moved[g]: -member.wire_s}
            rows.row(terms, ">=", 0)
        movable = float(member.movable[site])
        rows.row({out: 1.0, columns.group_moved[g]: -movable}, "<=", 0)
