"""``monkeytree drill``: a real training job, a move in the middle of it, and proof that nothing was lost."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import click
from rich.console import Console

from .errors import CommandFailed, Exit
from .outputs import OutputFile, OutputFolder, naming


@click.command()
@click.option(
    "--state-gb",
    type=click.FloatRange(0.001, 200),
    default=0.025,
    show_default=True,
    help="weights and optimizer state of one rank, in GB; the job takes about seven times that",
)
@click.option("--ranks", type=click.IntRange(2, 64), default=4, show_default=True, help="of the job")
@click.option("--cold", is_flag=True, help="start the destination's process in the pause, not before it")
@click.option("--kill", metavar="WHO@STATE", help="SIGKILL an actor when the move is in a state")
@click.option("--matrix", is_flag=True, help="undisturbed, cold, and every actor killed at every state")
@click.option(
    "--json",
    "json_file",
    type=OutputFile(),
    metavar="FILE",
    help="write the report as JSON (- is standard output)",
)
@click.option(
    "--keep",
    type=OutputFolder(),
    metavar="DIR",
    help="work there, and leave the logs of what went wrong",
)
def drill(
    state_gb: float, ranks: int, cold: bool, kill: str | None, matrix: bool, json_file: str | None,
    keep: Path | None,
) -> int:  # fmt: skip
    """Move a rank of a training job to another node's agent, and compare with a run that was never moved.

    Starts three agents and a data-parallel job (a small transformer on gloo, with dropout and AdamW) on this
    machine, plans the one move its placement needs, has the agents carry it out in mid-training, then trains
    the same job again unmigrated. Exit code 0 only if every loss and the final digest are the same bits.

    WHO is destination, source-agent, destination-agent, other-agent, source-mover, destination-mover or
    controller; STATE one of NEW, PREPARING, PREPARED, ARMED, PAUSED, SENDING, VERIFIED, DECIDED, REFORMED,
    RELEASED.
    """
    from .drilling.launcher import why_no_torch
    from .drilling.watch import Kill

    lacking = why_no_torch()
    if lacking is not None:
        raise CommandFailed(lacking)
    if matrix and (cold or kill):
        raise click.UsageError("--matrix has cold moves and kills of its own: give it alone")
    try:
        wanted = Kill.read(kill) if kill else None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    signal.signal(signal.SIGTERM, _leave)  # what was started is ended, as with Ctrl-C
    with tempfile.TemporaryDirectory(prefix="mt-drill-") as made:
        folder = keep.resolve() if keep else Path(made)
        console = Console(stderr=json_file == "-")  # JSON stands alone on standard output
        if matrix:
            found = _all(folder, state_gb, ranks, console)
        else:
            found = _one(folder, state_gb, ranks, not cold, wanted, console)
        if json_file:
            _write(found, json_file)
        bad = [one for one in found.get("drills", [found]) if not one["identical"]]
        if bad and keep is None:
            click.echo("with --keep DIR the logs of such a drill stay", err=True)
    return Exit.FAULTS if bad else Exit.OK


def _one(
    folder: Path, state_gb: float, ranks: int, warm: bool, kill: Any, console: Console
) -> dict[str, Any]:
    from .drilling.report import print_report
    from .drilling.stage import Drill, Stage

    stage = Stage.open(folder, _say)
    try:
        report = stage.play(Drill(state_gb * 1e9, warm, kill, ranks))
    finally:
        stage.close()
    print_report(console, report)
    return report


def _all(folder: Path, state_gb: float, ranks: int, console: Console) -> dict[str, Any]:
    from .drilling.report import print_matrix, unfinished
    from .drilling.stage import Drill, Stage
    from .drilling.watch import matrix

    drills = [Drill(state_gb * 1e9, warm, None, ranks) for warm in (True, False)]
    drills += [Drill(state_gb * 1e9, True, kill, ranks) for kill in matrix()]
    stage = Stage.open(folder, _say, many=True)
    reports = []
    try:
        for number, one in enumerate(drills, 1):
            what = str(one.kill) if one.kill else "warm" if one.warm else "cold"
            _say(f"[{number} of {len(drills)}] {what}")
            try:
                reports.append(stage.play(one))
            except CommandFailed as error:  # the worst outcome, and no reason to leave the others out
                _say(str(error))
                stage.strike()
                reports.append(unfinished(str(one.kill) if one.kill else None, one.warm, str(error)))
    finally:
        stage.close()
    print_matrix(console, reports)
    return {"identical": all(one["identical"] for one in reports), "drills": reports}


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _say(line: str) -> None:
    click.echo(line, err=True)


def _write(report: dict[str, Any], file: str) -> None:
    text = json.dumps(report, indent=2) + "\n"
    if file == "-":
        sys.stdout.write(text)
    else:
        with naming(file):
            Path(file).write_text(text, "utf-8")
