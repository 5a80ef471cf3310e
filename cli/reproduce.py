"""``monkeytree reproduce``: the paper's figures, run again, beside the authors' numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .errors import CommandFailed
from .interrupts import end_promptly
from .outputs import OutputFolder

if TYPE_CHECKING:
    from monkeytree.simulation.figures.figure import Figure, Sample
    from monkeytree.simulation.figures.reproduce import Reproduced
    from monkeytree.simulation.figures.runs import Runs

STATED, ELSEWHERE = Path("docs/figures"), Path("build/figures")


@click.command()
@click.argument("figures", nargs=-1, required=True, metavar="FIGURE...")
@click.option(
    "--scale",
    type=click.Choice(["quick", "stated", "paper"]),
    default="stated",
    show_default=True,
    help="How much is simulated: minutes, what docs/figures/ states, or as much as the authors.",
)
@click.option("--repetitions", type=click.IntRange(min=1), help="Instead of the scale's.")
@click.option("--jobs", type=click.IntRange(min=1), help="Jobs a repetition, instead of the scale's.")
@click.option(
    "--into",
    type=OutputFolder(),
    metavar="DIR",
    help="Pictures and tables; runs are kept in DIR/results. Default: docs/figures for what it states, for "
    "other samples build/figures/SCALE, or build/figures/own with --repetitions or --jobs.",
)
@click.option("--processes", type=click.IntRange(min=1), default=1, show_default=True, help="Runs at a time.")
@click.option("--at-most", type=click.IntRange(min=0), metavar="N", help="Make at most N runs, then draw.")
@click.option("--redraw", is_flag=True, help="Make no runs: draw from those that are kept.")
@click.option("--format", "kind", type=click.Choice(["svg", "png", "pdf"]), default="svg", show_default=True)
def reproduce(
    figures: tuple[str, ...],
    scale: str,
    repetitions: int | None,
    jobs: int | None,
    into: Path | None,
    processes: int,
    at_most: int | None,
    redraw: bool,
    kind: str,
) -> int:
    """Regenerate FIGUREs of the paper (6, 8, 9, 11, 13, 14a, 14b, 15, 16, or all).

    Runs are kept by their set-up with their seeds and are not made twice. Numbers that are further from the
    authors' than is asked are printed; they are no failure of the command.
    """
    from monkeytree.simulation.figures.drawing import NoMatplotlib, require_matplotlib
    from monkeytree.simulation.figures.reproduce import write
    from monkeytree.simulation.figures.runs import Runs

    end_promptly()
    chosen = [(figure, _sample(figure, scale, repetitions, jobs)) for figure in _chosen(figures)]
    into = into or _folder(chosen, scale)
    runs = Runs(into / "results")
    try:
        require_matplotlib()  # this and the folder before the runs, not after them
        into.mkdir(parents=True, exist_ok=True)
        if not redraw:
            _run(chosen, runs, processes, at_most)
        for figure, sample in chosen:
            _tell(write(figure, sample, runs, into, kind=kind))
    except NoMatplotlib as error:
        raise CommandFailed(str(error)) from None
    return 0


def _chosen(names: Sequence[str]) -> list[Figure]:
    from monkeytree.simulation.figures.catalogue import FIGURES, figure_named

    if "all" in names:
        return list(FIGURES.values())
    found = []
    for name in names:
        try:
            found.append(figure_named(name))
        except KeyError:
            known = ", ".join(known.removeprefix("fig").lstrip("0") for known in FIGURES)
            raise click.BadParameter(f"{name!r} is none of {known}, all", param_hint="FIGURE") from None
    return found


def _sample(figure: Figure, scale: str, repetitions: int | None, jobs: int | None) -> Sample:
    sample = figure.samples[scale]
    return replace(sample, repetitions=repetitions or sample.repetitions, jobs=jobs or sample.jobs)


def _folder(chosen: Sequence[tuple[Figure, Sample]], scale: str) -> Path:
    """Pages that state one sample are not overwritten by another."""
    if all(sample == figure.samples["stated"] for figure, sample in chosen):
        return STATED
    plain = all(sample == figure.samples[scale] for figure, sample in chosen)
    return ELSEWHERE / (scale if plain else "own")


def _run(chosen: Sequence[tuple[Figure, Sample]], runs: Runs, processes: int, at_most: int | None) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from monkeytree.simulation.figures.reproduce import missing, run_missing

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    left = at_most
    with Progress(*columns, console=Console(stderr=True)) as progress:
        for figure, sample in chosen:
            count = len(missing(figure, sample, runs))
            count = count if left is None else min(count, left)
            if not count:
                continue
            task = progress.add_task(figure.name, total=count)
            run_missing(
                figure, sample, runs, processes=processes, at_most=count,
                done=lambda task=task: progress.advance(task),
            )  # fmt: skip
            left = None if left is None else left - count


def _tell(done: Reproduced) -> None:
    from monkeytree.simulation.figures.table import misses, verdict

    click.echo(f"{done.figure.title}: {done.picture}, {done.table}")
    click.echo(f"  {verdict(done.rows)}")
    for line in misses(done.rows):
        click.echo(f"  miss: {line}")
