"""How the cost of a decision grows with racks, jobs, moves and load: measured, tabled and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import decisions, drawing
from .churn import Shape
from .decisions import Sample
from .measure import quantile
from .table import heading, number, show

RACKS = (8, 16, 32, 64, 128, 256, 512, 1024)
LOADS = (0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
LARGEST = (3, 6, 12, 24, 48)
"""Workers of the largest job: the same cluster with many small jobs or a few large ones."""
MIDDLE = 64
PARTS = (0.5, 0.9, 0.99)
FEWEST = 3
"""Samples that a point of the picture stands on at least."""


@dataclass(frozen=True, slots=True)
class Point:
    """One place on an axis: CPU ms of the decisions there."""

    at: float
    costs: tuple[float, ...]
    jobs: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One axis of the picture."""

    title: str
    axis: str
    logarithmic: bool
    points: tuple[Point, ...]


def report(seed: int, most: int, seconds: float, figure: Path | None) -> None:
    """Print the tables; draw them where ``figure`` names a file and matplotlib is here."""
    heading("Growth of a decision's cost")
    print(
        f"CPU ms under seq, 8 servers a rack, 2 uplinks; load 0.95 and {MIDDLE} racks unless on the axis.\n"
    )
    panels = measure(seed, most, seconds)
    for panel in panels:
        lines = [
            [
                f"{point.at:g}",
                str(len(point.costs)),
                number(point.jobs),
                *(number(quantile(point.costs, part)) for part in (*PARTS, 1.0)),
            ]
            for point in panel.points
        ]
        show([panel.axis, "states", "jobs", "p50", "p90", "p99", "max"], lines)
    if figure is not None:
        try:
            draw(panels, figure)
        except ImportError:
            print("no picture: pip install 'monkeytree[bench]' (matplotlib) draws it")
        else:
            print(f"drawn in {figure}")


def measure(seed: int, most: int, seconds: float) -> list[Panel]:
    """The four panels, each run up to ``most`` states and ``seconds``."""

    def run(shape: Shape) -> list[Sample]:
        return decisions.churned(shape, "seq", seed, most, seconds)

    by_racks = {racks: run(Shape(racks, 8)) for racks in RACKS}
    by_load = {load: run(Shape(MIDDLE, 8, load=load)) for load in LOADS}
    by_largest = [run(Shape(MIDDLE, 8, largest=largest)) for largest in LARGEST]
    tight = run(Shape(MIDDLE, 8, uplinks=1))  # needs more moves
    same = [*by_racks[MIDDLE], *by_load[0.95], *tight]
    by_moves = {count: [one for one in same if one.moves == count] for count in {one.moves for one in same}}
    return [
        Panel("racks", "racks", True, points(by_racks)),
        Panel("jobs", "jobs running", True, points({_jobs(found): found for found in by_largest})),
        Panel("moves", "moves of the answer", False, points(by_moves)),
        Panel("load", "load cap", False, points(by_load)),
    ]


def points(runs: dict[int, list[Sample]] | dict[float, list[Sample]]) -> tuple[Point, ...]:
    return tuple(
        Point(at, tuple(sample.decide_ms for sample in samples), _jobs(samples))
        for at, samples in sorted(runs.items())
        if len(samples) >= FEWEST
    )


def _jobs(samples: Sequence[Sample]) -> float:
    """Jobs running, on average."""
    return round(sum(sample.jobs for sample in samples) / max(1, len(samples)))


def draw(panels: Sequence[Panel], file: Path) -> None:
    """Draw the panels into an SVG or PNG file.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure, axes = drawing.pyplot().subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    for panel, axis in zip(panels, axes.flat, strict=True):
        _draw_panel(panel, axis)
    axes.flat[0].legend(frameon=False)
    figure.suptitle("CPU time of a planning decision (churned clusters of 8-GPU servers, 2 uplinks a rack)")
    drawing.save(figure, file)


def _draw_panel(panel: Panel, axis: Any) -> None:
    places = [point.at for point in panel.points]
    for part, style in zip(PARTS, ("o-", "s--", "^:"), strict=True):
        costs = [quantile(point.costs, part) for point in panel.points]
        axis.plot(places, costs, style, markersize=4, label=f"p{100 * part:g}")
    axis.set_yscale("log")
    if panel.logarithmic:
        axis.set_xscale("log", base=2)
        axis.set_xticks(places, [f"{place:g}" for place in places])
        axis.minorticks_off()
    axis.set_xlabel(panel.axis)
    axis.set_ylabel("CPU ms")
    axis.set_title(f"by {panel.title}")
    axis.grid(alpha=0.3)
