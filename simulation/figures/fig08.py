"""Figure 8: tail slowdown over the shape of the cluster."""

from __future__ import annotations

from typing import Any

from ..setup import Setup
from .drawing import NAMES
from .figure import Figure, Find, Row, Sample, found
from .measure import mean, p99, pooled
from .published import published

CELLS = tuple(published("fig08")["p99"])
_DARK = 3.8
"""Slowdown from which a cell is too dark for black."""
SYSTEMS = ("ecmp", "crux", "sglb", "perfect", "monkeytree")


def point(system: str, cell: str, sample: Sample) -> list[Setup]:
    """All repetitions of a system in a cell; the seed of the artifact's heat map is 1000 a repetition."""
    per_rack, spines = map(int, cell.split("x"))
    return [
        Setup(
            system=system,
            gpus=2048,
            gpus_per_rack=per_rack,
            spines=spines,
            load=0.8,
            jobs=sample.jobs,
            compress=sample.compress_for(system),
            seed=1000 * repetition,
        )
        for repetition in range(1, sample.repetitions + 1)
    ]


def setups(sample: Sample) -> list[Setup]:
    """Cell by cell, the most oversubscribed first."""
    return [setup for cell in CELLS for system in SYSTEMS for setup in point(system, cell, sample)]


def rows(sample: Sample, find: Find) -> list[Row]:
    """p99 of every cell, means where they publish one."""
    table = []
    for cell, by_system in published("fig08")["p99"].items():
        means = published("fig08")["mean"].get(cell, {})
        for system, value in by_system.items():
            runs = found(point(system, cell, sample), find)
            table.append(Row((cell, NAMES[system]), "p99", pooled(runs, p99), value))
            table.append(Row((cell, NAMES[system]), "mean", pooled(runs, mean), means.get(system)))
    return table


def draw(picture: Any, sample: Sample, find: Find) -> None:
    """A heat map of ours, with theirs written below each number."""
    axes = picture.subplots()
    grid, texts = [], []
    for system in SYSTEMS:
        estimates = [pooled(found(point(system, cell, sample), find), p99) for cell in CELLS]
        grid.append([float("nan") if one is None else one.value for one in estimates])
        texts.append([("not run" if one is None else f"{one.value:.2f}") +
                      f"\n({published('fig08')['p99'][cell][system]:.2f})"
                      for one, cell in zip(estimates, CELLS, strict=True)])  # fmt: skip
    image = axes.imshow(grid, cmap="YlOrRd", vmin=1, vmax=5, aspect="auto")
    for y, line in enumerate(texts):
        for x, text in enumerate(line):
            ink = "white" if grid[y][x] > _DARK else "black"
            axes.text(x, y, text, ha="center", va="center", fontsize=8, color=ink)
    axes.grid(visible=False)
    axes.set(
        xlabel="GPUs a rack x spines", title="p99 slowdown at load 0.8, 2,048 GPUs; the authors' in brackets"
    )
    axes.set_xticks(range(len(CELLS)), CELLS)
    axes.set_yticks(range(len(SYSTEMS)), [NAMES[system] for system in SYSTEMS])
    picture.colorbar(image, ax=axes, label="p99 slowdown")


FIGURE = Figure(
    name="fig08",
    title="Figure 8: tail slowdown over the shape of the cluster",
    columns=("GPUs a rack x spines", "system"),
    samples={"quick": Sample(1, 100, 20), "stated": Sample(2, 2400, 10), "paper": Sample(5, 2400)},
    setups=setups,
    rows=rows,
    draw=draw,
    remarks=(
        "Only the cells whose published numbers we hold are run. At load 0.8 the cluster tips from room to "
        "full, and of the two repetitions one stays below (ECMP in 256x16: p99 2.6 and 5.6; the seeds of "
        "three more gave 6.0, 6.4 and 5.6). So intervals are wide, means below those of five repetitions, "
        "and no bound is set.",
    ),
)
