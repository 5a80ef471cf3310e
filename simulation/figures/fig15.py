"""Figure 15: migrations under each scheduler."""

from __future__ import annotations

from typing import Any

from ..scheduling import SchedulerName
from ..setup import Setup
from .drawing import bars, explain_theirs, theirs
from .figure import Figure, Find, Row, Sample, found, load_seed
from .measure import averaged
from .published import published

SCHEDULERS: tuple[SchedulerName, ...] = ("best-fit", "first-fit", "random")
LOADS = (0.5, 0.8, 1.0)
SHADES = {0.5: "#B2DFDB", 0.8: "#4DB6AC", 1.0: "#00796B"}


def point(scheduler: SchedulerName, load: float, sample: Sample) -> list[Setup]:
    """All repetitions of a scheduler at a load."""
    return [
        Setup(
            gpus=512,
            load=load,
            jobs=sample.jobs,
            compress=sample.compress,
            seed=load_seed(load, repetition),
            scheduler=scheduler,
        )
        for repetition in range(1, sample.repetitions + 1)
    ]


def setups(sample: Sample) -> list[Setup]:
    """Best fit first."""
    return [setup for one in SCHEDULERS for load in LOADS for setup in point(one, load, sample)]


def rows(sample: Sample, find: Find) -> list[Row]:
    """Migrations by scheduler and load."""
    table = []
    for scheduler in SCHEDULERS:
        for load in LOADS:
            runs = found(point(scheduler, load, sample), find)
            value = published("fig15")["migrations"][scheduler][f"{load:.1f}"]
            where = (scheduler, f"{load:.1f}")
            ours = averaged([float(run.summary["migrations"]) for run in runs])
            table.append(Row(where, "migrations", ours, value))
    return table


def draw(picture: Any, sample: Sample, find: Find) -> None:
    """Bars of ours, diamonds of theirs."""
    axes = picture.subplots()
    for at, scheduler in enumerate(SCHEDULERS):
        for side, load in zip((-0.27, 0, 0.27), LOADS, strict=True):
            runs = found(point(scheduler, load, sample), find)
            ours = averaged([float(run.summary["migrations"]) for run in runs])
            if ours is not None:
                bars(axes, at + side, 0.25, ours.value, ours.half_width, SHADES[load])
            theirs(axes, at + side, published("fig15")["migrations"][scheduler][f"{load:.1f}"])
    for load, shade in SHADES.items():
        axes.bar(0, 0, color=shade, label=f"load {load}")
    explain_theirs(axes)
    axes.set_xticks(range(len(SCHEDULERS)), SCHEDULERS)
    axes.set(ylabel="migrations a repetition")
    axes.legend(fontsize=8, loc="upper left")


FIGURE = Figure(
    name="fig15",
    title="Figure 15: migrations under each scheduler",
    columns=("scheduler", "load"),
    samples={"quick": Sample(1, 120, 20), "stated": Sample(1, 1000, 10), "paper": Sample(5, 2400)},
    setups=setups,
    rows=rows,
    draw=draw,
    remarks=(
        "A migration is a server moved; migrations grow with the jobs of a repetition, and theirs has more.",
    ),
)
