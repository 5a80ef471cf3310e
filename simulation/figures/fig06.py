"""Figure 6: slowdown of jobs under each system as the load grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..setup import Setup
from .drawing import COLOURS, NAMES, explain_theirs, theirs
from .figure import Figure, Find, Row, Sample, found, load_seed
from .measure import Estimate, Measure, mean, p90, p99, pooled
from .published import published

SYSTEMS = tuple(published("fig06")["systems"])
LOADS = (0.7, 0.8, 0.9, 1.0)
FIRST = 600
"""Jobs of the trace that their simulator was given, compressed 20 times."""
CORE_SYSTEMS = ("ecmp", "crux", "sglb", "perfect", "monkeytree")
MEASURES: tuple[tuple[str, Measure, float | None], ...] = (
    ("mean", mean, 0.05),
    ("p90", p90, None),
    ("p99", p99, 0.10),
)


def point(system: str, load: float, sample: Sample) -> list[Setup]:
    """All repetitions of a system at a load."""
    return [
        Setup(
            system=system,
            load=load,
            jobs=sample.jobs,
            compress=sample.compress_for(system),
            seed=load_seed(load, repetition),
        )
        for repetition in range(1, sample.repetitions + 1)
    ]


def setups(sample: Sample) -> list[Setup]:
    """Those that are asked for first; then the other loads, then MonkeyTree over the other routers."""
    core = [(system, load) for load in (1.0, 0.8, 0.9, 0.7) for system in CORE_SYSTEMS]
    rest = [
        (system, load) for load in (1.0, 0.8, 0.9, 0.7) for system in SYSTEMS if system not in CORE_SYSTEMS
    ]
    return [setup for system, load in core + rest for setup in point(system, load, sample)]


def rows(sample: Sample, find: Find) -> list[Row]:
    """Mean, p90 and p99 of every point; then those of a trace that their simulator was given too."""
    table = []
    for system, by_load in published("fig06")["systems"].items():
        for load in LOADS:
            runs = found(point(system, load, sample), find)
            where = (NAMES[system], f"{load:.1f}")
            for (name, measure, within), value in zip(MEASURES, by_load[f"{load:.1f}"], strict=True):
                table.append(Row(where, name, pooled(runs, measure), value, within))
    return table + same_trace(sample, find)


def same_trace(sample: Sample, find: Find) -> list[Row]:
    """The first jobs of the first seed, which we also ran through the authors' own simulator."""
    table = []
    for system, by_load in published("fig06")["simulator"].items():
        for load in (0.8, 1.0):
            run = find(point(system, load, sample)[0])
            first = [] if run is None else [replace(run, slowdowns=run.slowdowns[:FIRST])]
            whole = bool(first) and len(first[0].slowdowns) == FIRST
            for (name, measure, _), value in zip(MEASURES, by_load[f"{load:.1f}"], strict=True):
                ours = pooled(first, measure) if whole else None
                ours = None if ours is None else Estimate(ours.value, None, sample.repetitions)
                table.append(Row((NAMES[system], f"{load:.1f}, same trace"), name, ours, value))
    return table


def draw(picture: Any, sample: Sample, find: Find) -> None:
    """Three panels; lines are ours with intervals, diamonds theirs."""
    panels: Sequence[Any] = picture.subplots(1, 3)
    for axes, (at, (name, measure, _)) in zip(panels, enumerate(MEASURES), strict=True):
        for system, by_load in published("fig06")["systems"].items():
            estimates = {load: pooled(found(point(system, load, sample), find), measure) for load in LOADS}
            known = {load: estimate for load, estimate in estimates.items() if estimate is not None}
            axes.errorbar(
                list(known), [e.value for e in known.values()], [e.half_width or 0 for e in known.values()],
                color=COLOURS[system], marker="o", markersize=3, capsize=2, lw=1.2, label=NAMES[system],
            )  # fmt: skip
            for load in LOADS:
                theirs(axes, load, by_load[f"{load:.1f}"][at], COLOURS[system])
        axes.set(title=f"{name} slowdown", xlabel="offered load", xticks=LOADS)
        axes.set_ylim(bottom=0.98)
    explain_theirs(panels[0])
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(handles, labels, fontsize=8, loc="outside lower center", ncols=5)


FIGURE = Figure(
    name="fig06",
    title="Figure 6: slowdown under each system as the load grows",
    columns=("system", "load"),
    samples={
        "quick": Sample(1, 150, 20),
        "stated": Sample(3, 2400, 10, whole=("monkeytree",)),
        "paper": Sample(5, 2400),
    },
    setups=setups,
    rows=rows,
    draw=draw,
    remarks=(
        f"Rows marked *same trace* are the first {FIRST} jobs of the first seed, and the authors' simulator "
        "on the same jobs, compressed 20 times.",
    ),
)
