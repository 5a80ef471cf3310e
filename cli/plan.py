"""``monkeytree plan``: plan a snapshot here, without a server."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

import monkeytree

from .documents import DOCUMENT, end_with_reader, source
from .errors import Exit
from .interrupts import end_promptly
from .outputs import OutputFile, naming

if TYPE_CHECKING:
    from monkeytree.plan import Plan
    from monkeytree.snapshot import Snapshot

EXITS = {
    "compliant": Exit.OK,
    "optimal": Exit.OK,
    "feasible": Exit.FEASIBLE,
    "best_effort": Exit.BEST_EFFORT,
    "infeasible": Exit.BEST_EFFORT,
}


@click.command()
@click.argument("snapshot", type=DOCUMENT)
@click.option(
    "--solver",
    metavar="NAME",
    help="auto, search, split, gurobi, cbc or highs (default: as the snapshot says).",
)
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Seconds to solve."
)
@click.option(
    "--previous", type=DOCUMENT, metavar="PLAN", help="Keep this plan's orders and uplinks where possible."
)
@click.option("--max-moves", type=click.IntRange(min=0), metavar="N", help="Most moves the plan may have.")
@click.option("--objective", type=click.Choice(["moves", "gpu_seconds"]), help="What to keep least.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--output", type=OutputFile(), default="-", metavar="FILE")
def plan(
    snapshot: str,
    solver: str | None,
    time_limit: float | None,
    previous: str | None,
    max_moves: int | None,
    objective: str | None,
    form: str,
    output: str,
) -> int:
    """Plan the placement in SNAPSHOT (a file, or - for standard input). Options override its `planning`.

    Exit code: 0 complies (proved least), 4 complies (not proved least), 3 best effort or infeasible,
    2 bad input, 1 internal failure.
    """
    if snapshot == previous == "-":
        raise click.UsageError("only one of SNAPSHOT and --previous can be - (standard input)")
    if output == "-" and sys.stdout is None:
        raise click.UsageError("standard output is closed; name a file with --output")
    end_promptly()
    flags = {"solver": solver, "time_limit_s": time_limit, "max_moves": max_moves, "objective": objective}
    wanted = with_planning(monkeytree.load_snapshot(source(snapshot)), flags)
    answer = monkeytree.make_plan(
        wanted,
        solver=wanted.planning.solver,
        time_limit_s=wanted.planning.time_limit_s,
        previous=None if previous is None else monkeytree.load_plan(source(previous)),
    )
    end_with_reader()
    try:
        with naming(output), click.open_file(output, "w", encoding="utf-8") as stream:
            _write(answer, form, stream)
    except OSError:
        if output != "-":  # what took its time is told all the same
            _write(answer, "table", sys.stderr)
        raise
    return EXITS[answer.status]


def with_planning(snapshot: Snapshot, flags: dict[str, Any]) -> Snapshot:
    """``snapshot`` with its planning options overridden by the flags that were given."""
    given = {name: value for name, value in flags.items() if value is not None}
    return replace(snapshot, planning=replace(snapshot.planning, **given))


def _write(answer: Plan, form: str, stream: Any) -> None:
    if form == "json":
        json.dump(monkeytree.dump_plan(answer), stream, indent=2, allow_nan=False)
        stream.write("\n")
        return
    from rich.console import Console

    from .tables import print_plan

    print_plan(Console(file=stream), answer)
