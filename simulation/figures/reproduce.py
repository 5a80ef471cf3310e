"""Make the runs of figures that have not been made yet; write picture and table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..run import simulate_many
from ..setup import Result, Setup
from .drawing import new_picture, save
from .figure import Figure, Row, Sample
from .runs import Runs, run_of
from .table import markdown


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A figure that has been written."""

    figure: Figure
    rows: Sequence[Row]
    picture: Path
    table: Path


def missing(figure: Figure, sample: Sample, runs: Runs) -> list[Setup]:
    """Set-ups of ``figure`` without a run, in the order in which the figure asks for them."""
    return [setup for setup in figure.setups(sample) if runs.find(setup) is None]


def run_missing(
    figure: Figure,
    sample: Sample,
    runs: Runs,
    *,
    processes: int = 1,
    at_most: int | None = None,
    done: Callable[[], None] = lambda: None,
) -> None:
    """Make them, keeping each as soon as it is there.

    Args:
        at_most: make no more than that.
        done: called after each run.
    """

    def keep(result: Result) -> None:
        runs.keep(figure.name, run_of(result))
        done()

    simulate_many(missing(figure, sample, runs)[:at_most], processes, done=keep)


def write(figure: Figure, sample: Sample, runs: Runs, into: Path, *, kind: str = "svg") -> Reproduced:
    """Picture and table from the runs that have been made.

    Raises:
        NoMatplotlib: it is not installed.
        OSError: they cannot be written.
    """
    into.mkdir(parents=True, exist_ok=True)
    rows = figure.rows(sample, runs.find)
    table = into / f"{figure.name}.md"
    table.write_text(markdown(figure, sample, rows), encoding="utf-8")
    picture = new_picture()
    figure.draw(picture, sample, runs.find)
    path = into / f"{figure.name}.{kind}"
    save(picture, path)
    return Reproduced(figure, rows, path, table)
