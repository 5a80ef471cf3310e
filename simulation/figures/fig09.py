"""Figures 9 and 11: moves a plan, and time to find it, by the size of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..setup import Setup
from .drawing import COLOURS, bars, theirs
from .figure import Figure, Find, Row, Sample, found, load_seed
from .measure import Estimate, averaged, mean, p90
from .published import published
from .runs import PlanLine

SIZES = (128, 256, 512, 1024, 2048)
SHADES = ("#004D40", "#00897B", "#4DB6AC", "#B2DFDB", "#FFCC80", "#EF6C00")
LABELS = ("1", "2", "3", "4", "5", "more")
REMARK = (
    "Plans of load 1.0, MonkeyTree with perfect routing, racks of 64 GPUs and 16 spines. Few plans are "
    "needed in small clusters, so shares of these are rough; the second column is the number of plans. "
    "At 128 GPUs the authors' set-up almost never needs one."
)


def point(gpus: int, sample: Sample) -> list[Setup]:
    """All repetitions at a size."""
    return [
        Setup(gpus=gpus, jobs=sample.jobs, compress=sample.compress, seed=load_seed(1.0, repetition))
        for repetition in range(1, sample.repetitions + 1)
    ]


def setups(sample: Sample) -> list[Setup]:
    """The smallest first."""
    return [setup for gpus in SIZES for setup in point(gpus, sample)]


def _plans(gpus: int, sample: Sample, find: Find) -> list[PlanLine]:
    return [plan for run in found(point(gpus, sample), find) for plan in run.carried_out]


def shares(plans: Sequence[PlanLine]) -> list[float]:
    """Per cent of plans with 1, 2, 3, 4, 5 and more moves."""
    counts = [sum(min(plan.moves, 6) == moves for plan in plans) for moves in range(1, 7)]
    return [100 * count / max(1, len(plans)) for count in counts]


def rows(sample: Sample, find: Find) -> list[Row]:
    """Shares by size."""
    table = []
    for gpus in SIZES:
        plans = _plans(gpus, sample, find)
        ours = shares(plans)
        where = (f"{gpus:,}", f"{len(plans)}")
        for label, share, value in zip(LABELS, ours, published("fig09")["percent"][str(gpus)], strict=True):
            estimate = Estimate(share, None, sample.repetitions) if plans else None
            table.append(Row(where, f"% with {label}", estimate, value))
    return table


def draw(picture: Any, sample: Sample, find: Find) -> None:
    """Stacked bars: ours on the left of each pair, theirs on the right."""
    axes = picture.subplots()
    for at, gpus in enumerate(SIZES):
        plans = _plans(gpus, sample, find)
        for side, values in ((-0.21, shares(plans)), (0.21, published("fig09")["percent"][str(gpus)])):
            below = 0.0
            for share, shade in zip(values, SHADES, strict=True):
                axes.bar(at + side, share, 0.38, bottom=below, color=shade, alpha=1 if side < 0 else 0.55)
                below += share
        axes.text(at - 0.21, 101, f"{len(plans)} plans", ha="center", fontsize=7)
        axes.text(at + 0.21, 101, "theirs", ha="center", fontsize=7)
    for shade, label in zip(SHADES, LABELS, strict=True):
        axes.bar(0, 0, color=shade, label=label)
    axes.set_xticks(range(len(SIZES)), [f"{gpus:,}" for gpus in SIZES])
    axes.set(xlabel="GPUs", ylabel="% of plans", ylim=(0, 108), xlim=(-0.6, len(SIZES) + 0.3))
    axes.legend(title="moves", loc="center right", fontsize=8)


FIGURE = Figure(
    name="fig09",
    title="Figure 9: moves a plan",
    columns=("GPUs", "plans"),
    samples={"quick": Sample(1, 150, 20), "stated": Sample(3, 1000, 10), "paper": Sample(5, 2400)},
    setups=setups,
    rows=rows,
    draw=draw,
    remarks=(REMARK,),
)


def times(sample: Sample, find: Find) -> list[Row]:
    """Solve times by size."""
    table = []
    for gpus in SIZES:
        plans = _plans(gpus, sample, find)
        milliseconds = [plan.solve_ms for plan in plans]
        for name, measure, value in zip(
            ("mean", "p90"), (mean, p90), published("fig11")["ms"][str(gpus)], strict=True
        ):
            ours = averaged([measure(milliseconds)]) if milliseconds else None
            table.append(Row((f"{gpus:,}", f"{len(plans)}"), f"{name}, ms", ours, value))
    return table


def draw_times(picture: Any, sample: Sample, find: Find) -> None:
    """Bars of ours, diamonds of theirs, on a logarithmic axis."""
    axes = picture.subplots()
    for at, gpus in enumerate(SIZES):
        milliseconds = [plan.solve_ms for plan in _plans(gpus, sample, find)]
        published_ms = published("fig11")["ms"][str(gpus)]
        for side, measure, value, colour in (
            (-0.2, mean, published_ms[0], COLOURS["monkeytree"]),
            (0.2, p90, published_ms[1], COLOURS["perfect"]),
        ):
            if milliseconds:
                bars(axes, at + side, 0.38, measure(milliseconds), None, colour)
            theirs(axes, at + side, value)
    axes.bar(0, 0, color=COLOURS["monkeytree"], label="mean, ours")
    axes.bar(0, 0, color=COLOURS["perfect"], label="p90, ours")
    axes.plot(
        [], [], marker="D", color="black", markerfacecolor="white", ls="none", label="the authors (CBC)"
    )
    axes.set_xticks(range(len(SIZES)), [f"{gpus:,}" for gpus in SIZES])
    axes.set(xlabel="GPUs", ylabel="ms a plan", yscale="log")
    axes.legend(fontsize=8, loc="upper left")


TIMES = Figure(
    name="fig11",
    title="Figure 11: time to find a plan",
    columns=("GPUs", "plans"),
    samples=FIGURE.samples,
    setups=setups,
    rows=times,
    draw=draw_times,
    remarks=(
        "Wall time of the whole `make_plan` (statement, search, waves, ring orders, uplinks, proof), on a "
        "machine that other work shared; theirs is the time of their solver alone, on another machine. "
        "`make bench` compares solvers on the same instances.",
    ),
)
