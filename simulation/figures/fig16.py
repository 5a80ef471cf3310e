"""Figure 16: jobs dominated by the all-to-all of experts, over the oversubscription."""

from __future__ import annotations

from typing import Any

from ..setup import Setup
from .drawing import NAMES, explain_theirs, line
from .figure import Figure, Find, Row, Sample, found, load_seed
from .measure import mean, p99, pooled
from .published import published

SPINES = (2, 4, 8, 16)
SYSTEMS = tuple(published("fig16")["systems"])


def point(system: str, spines: int, sample: Sample) -> list[Setup]:
    """All repetitions of a system with so many spines."""
    threshold = 2 if system.startswith("monkeytree") else None
    return [
        Setup(
            system=system,
            spines=spines,
            jobs=sample.jobs,
            compress=sample.compress_for(system),
            seed=load_seed(1.0, repetition),
            mix="experts",
            threshold=threshold,
        )
        for repetition in range(1, sample.repetitions + 1)
    ]


def setups(sample: Sample) -> list[Setup]:
    """Most spines first."""
    return [setup for spines in SPINES[::-1] for system in SYSTEMS for setup in point(system, spines, sample)]


def rows(sample: Sample, find: Find) -> list[Row]:
    """Mean and p99 by system and spines."""
    table = []
    for system, by_spines in published("fig16")["systems"].items():
        for spines in SPINES:
            runs = found(point(system, spines, sample), find)
            where = (NAMES[system], f"{spines} (1:{64 // spines})")
            for (name, measure), value in zip(
                (("mean", mean), ("p99", p99)), by_spines[str(spines)], strict=True
            ):
                table.append(Row(where, name, pooled(runs, measure), value))
    return table


def draw(picture: Any, sample: Sample, find: Find) -> None:
    """Lines of ours, diamonds of theirs."""
    axes = picture.subplots()
    for system, by_spines in published("fig16")["systems"].items():
        estimates = {spines: pooled(found(point(system, spines, sample), find), mean) for spines in SPINES}
        line(axes, system, estimates, {spines: by_spines[str(spines)][0] for spines in SPINES})
    explain_theirs(axes)
    axes.set(xlabel="spines of 64-GPU racks", ylabel="mean slowdown", xscale="log", yscale="log")
    axes.set_xticks(SPINES, [f"{spines}\n1:{64 // spines}" for spines in SPINES])
    axes.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    axes.minorticks_off()
    axes.legend(fontsize=8)


FIGURE = Figure(
    name="fig16",
    title="Figure 16: jobs dominated by the all-to-all of experts",
    columns=("system", "spines"),
    samples={"quick": Sample(1, 32, 20), "stated": Sample(1, 96, 10), "paper": Sample(5, 512)},
    setups=setups,
    rows=rows,
    draw=draw,
    remarks=(
        "Best effort: the authors start from a fragmented snapshot that is not published and do not say how "
        "their all-to-all of 1.123 TB is spread over pairs; ours starts from an empty cluster and spreads it "
        "evenly.",
    ),
)
