"""Runs that have been made, kept by their set-up so that pictures are drawn again without running again.

A file per figure, gzip JSON lines, a run each: ``setup`` (members that differ from their default),
``summary``, ``slowdowns`` (six digits, in the order of the jobs) and ``plans`` (moves, status, whether
carried out, milliseconds of solving, seconds until all had moved).
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from ..setup import Result, Setup


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One plan of a run."""

    moves: int
    status: str
    carried_out: bool
    solve_ms: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """What figures read of a run."""

    setup: Mapping[str, Any]
    summary: Mapping[str, Any]
    slowdowns: tuple[float, ...]
    plans: tuple[PlanLine, ...]

    @property
    def carried_out(self) -> list[PlanLine]:
        """Plans that moved anything."""
        return [plan for plan in self.plans if plan.carried_out and plan.moves]


def run_of(result: Result) -> Run:
    """The run to keep of a result."""
    plans = tuple(
        PlanLine(plan.moves, plan.status, plan.carried_out, round(plan.solve_ms, 2), plan.duration_us / 1e6)
        for plan in result.plans
    )
    slowdowns = tuple(round(row.slowdown, 6) for row in result.jobs)
    return Run(describe(result.setup), dict(result.summary), slowdowns, plans)


def describe(setup: Setup) -> dict[str, Any]:
    """The members of ``setup`` that differ from their default, as JSON has them.

    Raises:
        ValueError: it has a trace of its own; figures draw theirs.
    """
    if setup.trace is not None:
        raise ValueError("a figure's trace is drawn from its seed, not given")
    return _changed(setup)


def _changed(part: Any) -> dict[str, Any]:
    found = {}
    for member in fields(part):
        value = getattr(part, member.name)
        if value == member.default:
            continue
        if is_dataclass(value):
            value = _changed(value)
        elif callable(value):
            value = value.__name__
        elif isinstance(value, frozenset):
            value = sorted(value)
        found[member.name] = value
    return found


def key_of(described: Mapping[str, Any]) -> str:
    """What a run is found by."""
    return json.dumps(described, sort_keys=True)


class Runs:
    """The runs in a folder, and those made since."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._by_figure: dict[str, dict[str, Run]] = {}
        for path in sorted(folder.glob("*.jsonl.gz")):
            self._by_figure[path.name.removesuffix(".jsonl.gz")] = dict(_read(path))

    def find(self, setup: Setup) -> Run | None:
        """The run of ``setup``, whichever figure it was made for."""
        key = key_of(describe(setup))
        return next((known[key] for known in self._by_figure.values() if key in known), None)

    def keys(self) -> set[str]:
        """Of all runs that are kept (:func:`key_of`)."""
        return {key for known in self._by_figure.values() for key in known}

    def keep(self, figure: str, run: Run) -> None:
        """Add a run and write the figure's file, whole or not at all; others may be adding to it too.

        Raises:
            OSError: it cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{figure}.jsonl.gz"
        with _locked(self.folder):
            known = self._by_figure.setdefault(figure, {})
            known |= dict(_read(path)) if path.exists() else {}
            known[key_of(run.setup)] = run
            text = "".join(json.dumps(_line(known[key])) + "\n" for key in sorted(known))
            beside = path.with_suffix(".new")
            beside.write_bytes(gzip.compress(text.encode(), mtime=0))
            os.replace(beside, path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone in ``folder`` among those who ask."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> Iterable[tuple[str, Run]]:
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        row = json.loads(line)
        plans = tuple(PlanLine(*plan) for plan in row["plans"])
        yield key_of(row["setup"]), Run(row["setup"], row["summary"], tuple(row["slowdowns"]), plans)


def _line(run: Run) -> dict[str, Any]:
    plans = [[p.moves, p.status, p.carried_out, p.solve_ms, round(p.seconds, 3)] for p in run.plans]
    return {"setup": run.setup, "summary": run.summary, "slowdowns": run.slowdowns, "plans": plans}
