"""The flow-level simulator: job-iterations per CPU second beside the authors', and growth with GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from monkeytree.simulation import Setup, simulate

from . import drawing
from .measure import spending
from .table import heading, number, show

SIZES = (512, 1024, 2048, 4096, 8192)
GPUS_PER_JOB = 3
"""GPUs of the cluster for each job simulated: it is full from about a fifth of them on."""
GROWTH_SYSTEMS = ("ecmp", "perfect", "monkeytree")
AUTHORS = (
    ("ecmp, 250 jobs", "their engine, solving by components", 138_485, 131.0),
    ("monkeytree, 250 jobs", "their engine, solving by components", 138_485, 176.0),
    ("ecmp, 1,000 jobs", "their engine as published (extrapolated)", 541_000, 2_700.0),
)
"""Run, engine, job-iterations, CPU seconds: the authors' Rust simulator on the same trace (1,024 GPUs, load
1.0, seed 6001), measured once on a loaded machine of two cores, not by this program."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One run of ours."""

    system: str
    gpus: int
    iterations: int
    followed: int
    events: int
    cpu_s: float


def report(jobs: int, compress: int, largest: int, figure: Path | None) -> None:
    """Print the tables; draw growth where ``figure`` names a file."""
    heading("Simulation")
    print(f"1,024 GPUs, load 1.0, the first {jobs} jobs of seed 6001, time compressed {compress} times.\n")
    costs = [_cost(Setup(system=system, jobs=jobs, compress=compress)) for system in _systems()]
    titles = ["", "job-iterations", "followed", "events", "CPU s", "job-iterations per CPU s"]
    show(titles, [_row(cost.system, cost) for cost in costs])
    theirs = [
        [f"{run}, {engine}", f"{iterations:,}", number(cpu_s), number(iterations / cpu_s)]
        for run, engine, iterations, cpu_s in AUTHORS
    ]
    show(["the authors'", "job-iterations", "CPU s", "job-iterations per CPU s"], theirs)
    grown = [
        _cost(Setup(system=system, gpus=gpus, jobs=gpus // GPUS_PER_JOB, compress=50))
        for system in GROWTH_SYSTEMS
        for gpus in SIZES
        if gpus <= largest
    ]
    print(
        f"Racks of 64 GPUs under 16 spines, load 1.0, a job for {GPUS_PER_JOB} GPUs, compressed 50 times.\n"
    )
    show(titles, [_row(f"{cost.system}, {cost.gpus:,} GPUs", cost) for cost in grown])
    if figure is not None:
        draw(grown, figure)


def _systems() -> tuple[str, ...]:
    return ("ecmp", "crux", "perfect", "sglb", "monkeytree")


def _cost(setup: Setup) -> Cost:
    with spending() as spent:
        summary = simulate(setup).summary
    return Cost(
        setup.system,
        setup.gpus,
        summary["iterations"],
        summary["iterations_followed"],
        summary["events"],
        spent.cpu_ms / 1e3,
    )


def _row(name: str, cost: Cost) -> list[str]:
    return [
        name,
        f"{cost.iterations:,}",
        f"{cost.followed:,}",
        f"{cost.events:,}",
        number(cost.cpu_s),
        number(cost.iterations / cost.cpu_s),
    ]


def draw(costs: Sequence[Cost], file: Path) -> None:
    """Draw CPU time by size into an SVG or PNG file.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure, axes = drawing.pyplot().subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for system, style in zip(GROWTH_SYSTEMS, ("o-", "s--", "^:"), strict=True):
        own = [cost for cost in costs if cost.system == system]
        sizes = [cost.gpus for cost in own]
        axes[0].plot(sizes, [cost.cpu_s for cost in own], style, label=system)
        axes[1].plot(
            sizes, [1e3 * cost.cpu_s / (cost.gpus // GPUS_PER_JOB) for cost in own], style, label=system
        )
    for axis, what in zip(axes, ("CPU s of a run", "CPU ms a job"), strict=True):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        sizes = sorted({cost.gpus for cost in costs})
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.minorticks_off()
        axis.set_xlabel("GPUs")
        axis.set_ylabel(what)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    figure.suptitle(f"Simulating load 1.0: a job for {GPUS_PER_JOB} GPUs, time compressed 50 times")
    drawing.save(figure, file)
