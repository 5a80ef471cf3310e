"""Runs of the simulator with a progress bar, and what is written of them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from .errors import CommandFailed
from .outputs import naming

if TYPE_CHECKING:
    from monkeytree.simulation import Result, Setup


def run(setups: Sequence[Setup], processes: int | None) -> list[Result]:
    """Simulate all, with a bar on standard error.

    Raises:
        BadSetup: a set-up cannot be simulated.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from monkeytree.simulation import simulate, simulate_many

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        if len(setups) == 1:
            jobs = setups[0].jobs if setups[0].trace is None else len(setups[0].trace)
            task = progress.add_task("jobs done", total=jobs)
            return [
                simulate(setups[0], lambda done, total: progress.update(task, completed=done, total=total))
            ]
        task = progress.add_task("repetitions done", total=len(setups))
        results: list[Result] = simulate_many(
            setups, processes or os.cpu_count() or 1, done=lambda _: progress.advance(task)
        )
        return results


def summary_of(results: Sequence[Result]) -> dict[str, Any]:
    """The summary of one run; of several, their jobs pooled and their own summaries in ``repetitions``."""
    from monkeytree.simulation.run import quantile

    first = dict(results[0].summary)
    if len(results) == 1:
        return first
    slowdowns = sorted(row.slowdown for result in results for row in result.jobs)
    plans = [plan for result in results for plan in result.plans]
    totals = {
        name: sum(result.summary[name] for result in results)
        for name in ("jobs", "migrations", "plans", "iterations", "iterations_followed", "events", "cpu_s")
    }
    return {
        **first,
        **totals,
        "mean": sum(slowdowns) / len(slowdowns),
        "p90": quantile(slowdowns, 0.9),
        "p99": quantile(slowdowns, 0.99),
        "solve_ms_mean": sum(plan.solve_ms for plan in plans) / len(plans) if plans else 0.0,
        "repetitions": [dict(result.summary) for result in results],
    }


def write_summary(results: Sequence[Result], target: str) -> None:
    """The summary as JSON to a file, or to standard output for ``-``.

    Raises:
        OSError: it cannot be written.
    """
    with naming(target), click.open_file(target, "w", encoding="utf-8") as stream:
        json.dump(summary_of(results), stream, indent=2)
        stream.write("\n")


def check_rows(path: str | None) -> None:
    """Whether rows can be written in the form that ``path`` names; for before they are simulated.

    Raises:
        CommandFailed: Parquet is asked for and pyarrow is not installed.
    """
    if path is None or not _is_parquet(path):
        return
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        message = "Parquet needs pyarrow: pip install 'monkeytree[figures]', or name a .jsonl file"
        raise CommandFailed(message) from None


def write_rows(results: Sequence[Result], target: str) -> None:
    """A row a job, with the seed of its run: Parquet for ``.parquet``, else JSON lines; to ``-`` as well.

    Raises:
        CommandFailed, OSError: it cannot be written.
    """
    check_rows(target)
    rows = [{"seed": result.setup.seed, **asdict(row)} for result in results for row in result.jobs]
    if not _is_parquet(target):
        with naming(target), click.open_file(target, "w", encoding="utf-8") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in rows)
        return
    import pyarrow
    from pyarrow import parquet

    with naming(target):
        try:
            table = pyarrow.Table.from_pylist(rows)
        except OverflowError:
            message = "a number is beyond the 64 bits of Parquet; name a .jsonl file"
            raise CommandFailed(message) from None
        parquet.write_table(table, target)


def _is_parquet(target: str) -> bool:
    return target.lower().endswith(".parquet")
