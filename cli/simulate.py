"""``monkeytree simulate``: the churn of a whole cluster at flow level."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .documents import end_with_reader
from .errors import CommandFailed
from .interrupts import end_promptly
from .outputs import OutputFile, naming

if TYPE_CHECKING:
    from monkeytree.simulation import Result, Setup, TraceJob

POSITIVE = click.IntRange(min=1)
OUTPUT = OutputFile()


@click.command()
@click.option(
    "--system",
    default="monkeytree",
    show_default=True,
    metavar="NAME",
    help="Routing, and whether MonkeyTree moves workers: ecmp, crux, sglb, perfect, cassini, spray, "
    "monkeytree (over perfect routing), monkeytree-ecmp, ...",
)
@click.option(
    "--load",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Offered load: GPU time asked for a GPU and second.",
)
@click.option("--gpus", type=POSITIVE, default=1024, show_default=True)
@click.option("--gpus-per-rack", type=POSITIVE, default=64, show_default=True, help="Of rails: per pod.")
@click.option("--spines", type=POSITIVE, default=16, show_default=True, help="Uplinks of each rack.")
@click.option("--jobs", type=POSITIVE, default=1000, show_default=True, help="Jobs to draw.")
@click.option("--seed", type=click.IntRange(min=0), default=6001, show_default=True)
@click.option("--repetitions", type=POSITIVE, default=1, show_default=True, help="With seeds that follow.")
@click.option(
    "--trace",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Simulate these jobs: the artifact's text format, or .csv or .json "
    "(arrival_us, type, gpus, iterations; docs/simulation.md); - is stdin.",
)
@click.option(
    "--write-trace",
    type=OUTPUT,
    metavar="FILE",
    help="Write the jobs (of the first repetition) in the artifact's format; - is stdout.",
)
@click.option(
    "--mix", default="paper", show_default=True, metavar="NAME", help="Job types: paper, experts, one-ring."
)
@click.option(
    "--scheduler",
    default="best-fit",
    show_default=True,
    type=click.Choice(["best-fit", "first-fit", "random"]),
)
@click.option(
    "--queue",
    default="fifo",
    show_default=True,
    type=click.Choice(["fifo", "skip"]),
    help="Whether later jobs that fit pass one that does not.",
)
@click.option(
    "--fabric", default="leaf-spine", show_default=True, type=click.Choice(["leaf-spine", "pods", "rails"])
)
@click.option("--racks-per-pod", type=POSITIVE, default=4, show_default=True, help="Of pods.")
@click.option("--cores", type=POSITIVE, default=16, show_default=True, help="Of pods.")
@click.option("--fail-link", "failed", multiple=True, metavar="RACK:SPINE", help="An uplink that is down.")
@click.option(
    "--threshold",
    type=click.IntRange(min=0),
    metavar="N",
    help="Flows a rack may send up before MonkeyTree acts (default: its live uplinks).",
)
@click.option(
    "--trigger",
    type=click.Choice(["always", "worthwhile"]),
    default="always",
    show_default=True,
    help="Carry out every plan, or those that are predicted to save more than they lose.",
)
@click.option(
    "--pause",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    metavar="S",
    help="From the last byte of a worker's state until its job runs again.",
)
@click.option(
    "--state-gb",
    type=click.FloatRange(min=0),
    metavar="GB",
    help="10^9 bytes of state a GPU (default: what it sends in an iteration, as the authors do).",
)
@click.option(
    "--compress",
    type=POSITIVE,
    default=1,
    show_default=True,
    metavar="N",
    help="Divide arrivals, iterations, bytes of state and pauses by N: as many meetings, less to follow.",
)
@click.option("--processes", type=POSITIVE, help="Repetitions at a time (default: one a core).")
@click.option("--json", "summary_file", type=OUTPUT, metavar="FILE", help="Write the summary; - is stdout.")
@click.option(
    "--rows",
    "rows_file",
    type=OUTPUT,
    metavar="FILE",
    help="Write a row a job: Parquet for .parquet, else JSON lines; - is stdout.",
)
def simulate(
    trace: str | None,
    write_trace: str | None,
    repetitions: int,
    processes: int | None,
    summary_file: str | None,
    rows_file: str | None,
    trigger: str,
    pause: float,
    state_gb: float | None,
    failed: tuple[str, ...],
    **members: Any,
) -> int:
    """Simulate a training cluster under churn: jobs come, send, move and end, at max-min fair rates.

    Prints the slowdown of jobs (run time over the time without congestion) and the migrations. The same seed
    gives the same result on every machine and with any number of processes.
    """
    from monkeytree.simulation import BadSetup, BadTrace

    from .simulated import check_rows, run

    end_promptly()
    _check_one_on_stdout({"--write-trace": write_trace, "--json": summary_file, "--rows": rows_file})
    check_rows(rows_file)
    try:
        setup = _setup(members, trace, trigger, pause, state_gb, failed)
        if write_trace is not None:
            _write_trace(setup, write_trace)
        setups = [replace(setup, seed=setup.seed + repetition) for repetition in range(repetitions)]
        results = run(setups, processes)
    except (BadSetup, BadTrace) as error:
        raise CommandFailed(str(error)) from None
    _tell(results, summary_file, rows_file, table_to_stderr=write_trace == "-")
    return 0


def _check_one_on_stdout(targets: dict[str, str | None]) -> None:
    there = [option for option, target in targets.items() if target == "-"]
    if len(there) > 1:
        raise click.UsageError(f"{' and '.join(there)} cannot both be standard output: name files")


def _setup(
    members: dict[str, Any],
    trace: str | None,
    trigger: str,
    pause: float,
    state_gb: float | None,
    failed: Sequence[str],
) -> Setup:
    from monkeytree.simulation import BadSetup, Migration, Setup
    from monkeytree.simulation.mix import MIXES
    from monkeytree.simulation.triggers import worthwhile

    if members["mix"] not in MIXES:
        raise BadSetup(f"no job mix {members['mix']!r}; there are {', '.join(MIXES)}")
    return Setup(
        **members,
        trace=None if trace is None else _read_trace(trace, members["mix"]),
        trigger=worthwhile if trigger == "worthwhile" else None,
        migration=Migration(pause, state_gb),
        failed=frozenset(map(_link, failed)),
    )


def _read_trace(source: str, mix: str) -> tuple[TraceJob, ...]:
    from monkeytree.simulation import BadTrace, read_trace
    from monkeytree.simulation.mix import MIXES
    from monkeytree.simulation.trace_files import form_of, parse_trace

    trace: tuple[TraceJob, ...]
    try:
        if source == "-":
            content = sys.stdin.buffer.read()
            trace = parse_trace(content, form_of(content), MIXES[mix])
        else:
            trace = read_trace(Path(source), MIXES[mix])
        return trace
    except BadTrace as error:
        raise BadTrace(f"{'standard input' if source == '-' else source}: {error}") from None


def _link(text: str) -> tuple[int, int]:
    rack, _, spine = text.partition(":")
    if not (text.isascii() and len(text) < 20 and rack.isdecimal() and spine.isdecimal()):
        raise click.BadParameter(f"{text!r} is not RACK:SPINE, two numbers from 0", param_hint="--fail-link")
    return int(rack), int(spine)


def _write_trace(setup: Setup, target: str) -> None:
    from monkeytree.simulation.checks import check_setup, jobs_of
    from monkeytree.simulation.trace_files import trace_text

    check_setup(setup)
    text = trace_text(jobs_of(setup))
    with naming(target), click.open_file(target, "w", encoding="utf-8") as stream:
        stream.write(text)


def _tell(
    results: Sequence[Result], summary_file: str | None, rows_file: str | None, *, table_to_stderr: bool
) -> None:
    """Write what is asked for; a file that cannot be written takes nothing of the rest with it."""
    from .simulated import write_rows, write_summary

    with ExitStack() as last_first:  # standard output last: a reader that leaves early ends us
        if summary_file == "-":
            last_first.callback(write_summary, results, "-")
        elif rows_file == "-":
            last_first.callback(write_rows, results, "-")
            last_first.callback(_print, results, to_stderr=True)
        else:
            last_first.callback(_print, results, to_stderr=table_to_stderr)
        last_first.callback(end_with_reader)
        if summary_file not in (None, "-"):
            last_first.callback(write_summary, results, summary_file)
        if rows_file not in (None, "-"):
            last_first.callback(write_rows, results, rows_file)


def _print(results: Sequence[Result], *, to_stderr: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from .simulated import summary_of

    whole = summary_of(results)
    table = Table(title=f"{whole['system']}, {whole['gpus']:,} GPUs", title_justify="left")
    for heading in (
        "seed",
        "jobs",
        "mean slowdown",
        "p90",
        "p99",
        "migrations",
        "plans",
        "ms a plan",
        "CPU s",
    ):
        table.add_column(heading, justify="right")
    for row in [result.summary for result in results] + (
        [{**whole, "seed": "all"}] if len(results) > 1 else []
    ):
        table.add_row(
            str(row["seed"]),
            f"{row['jobs']:,}",
            *(f"{row[name]:.3f}" for name in ("mean", "p90", "p99")),
            *(f"{row[name]:,}" for name in ("migrations", "plans")),
            *(f"{row[name]:.1f}" for name in ("solve_ms_mean", "cpu_s")),
        )
    Console(stderr=to_stderr).print(table)
