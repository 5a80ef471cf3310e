"""Figures 14a and 14b: tail slowdown on rails, and under three tiers."""

from __future__ import annotations

from typing import Any

from ..setup import Setup
from .drawing import COLOURS, NAMES, bars, explain_theirs, line, theirs
from .figure import Figure, Find, Row, Sample, found, load_seed
from .measure import mean, p99, pooled
from .published import published

LOADS = (0.7, 0.8, 0.9, 1.0)
ON_RAILS = (
    "One repetition, and no bound is set. Below load 0.9 it hardly fills the cluster; at 0.9 and 1.0 it "
    "is full for most of the run, and routers alone have longer tails than the artifact's. On the same "
    "trace (400 jobs of seed 6001, load 1.0, compressed 20 times) mean and p99 are, beside those of the "
    "authors' simulator: ECMP 1.098, 2.48 (1.126, 3.19), Crux 1.103, 2.15 (1.022, 1.64), Perfect 1.023, "
    "1.58 (1.043, 1.82), SGLB 1.025, 1.53 (1.014, 1.33). So the artifact's runs are likely shorter; why "
    "Crux does worse here is not found."
)
IN_PODS = (
    "One repetition from an empty cluster; the authors pool five long ones, so their tails are longer. "
    "No bound is set."
)


def on_rails(system: str, load: float, sample: Sample) -> list[Setup]:
    """All repetitions on 8 pods of 16 servers with 2 spines."""
    return [
        Setup(
            system=system,
            fabric="rails",
            gpus_per_rack=128,
            spines=2,
            load=load,
            jobs=sample.jobs,
            compress=sample.compress_for(system),
            seed=load_seed(load, repetition),
        )
        for repetition in range(1, sample.repetitions + 1)
    ]


def in_pods(system: str, sample: Sample) -> list[Setup]:
    """All repetitions in 4 pods of 4 racks with 16 aggregation switches a pod and 16 cores."""
    return [
        Setup(
            system=system,
            fabric="pods",
            racks_per_pod=4,
            cores=16,
            jobs=sample.jobs,
            compress=sample.compress_for(system),
            seed=load_seed(1.0, repetition),
        )
        for repetition in range(1, sample.repetitions + 1)
    ]


def rail_setups(sample: Sample) -> list[Setup]:
    """The highest load first."""
    systems = published("fig14a")["p99"]
    return [setup for load in LOADS[::-1] for system in systems for setup in on_rails(system, load, sample)]


def rail_rows(sample: Sample, find: Find) -> list[Row]:
    """p99 by system and load."""
    table = []
    for system, by_load in published("fig14a")["p99"].items():
        for load in LOADS:
            runs = found(on_rails(system, load, sample), find)
            where = (NAMES[system], f"{load:.1f}")
            table.append(Row(where, "p99", pooled(runs, p99), by_load[f"{load:.1f}"]))
            table.append(Row(where, "mean", pooled(runs, mean), None))
    return table


def draw_rails(picture: Any, sample: Sample, find: Find) -> None:
    """Lines of ours, diamonds of theirs."""
    axes = picture.subplots()
    for system, by_load in published("fig14a")["p99"].items():
        estimates = {load: pooled(found(on_rails(system, load, sample), find), p99) for load in LOADS}
        line(axes, system, estimates, {load: by_load[f"{load:.1f}"] for load in LOADS})
    explain_theirs(axes)
    axes.set(xlabel="offered load", ylabel="p99 slowdown", xticks=LOADS)
    axes.legend(fontsize=8)


def pod_setups(sample: Sample) -> list[Setup]:
    """System by system."""
    return [setup for system in published("fig14b")["p99"] for setup in in_pods(system, sample)]


def pod_rows(sample: Sample, find: Find) -> list[Row]:
    """p99 by system."""
    table = []
    for system, value in published("fig14b")["p99"].items():
        runs = found(in_pods(system, sample), find)
        table.append(Row((NAMES[system],), "p99", pooled(runs, p99), value))
        table.append(Row((NAMES[system],), "mean", pooled(runs, mean), None))
    return table


def draw_pods(picture: Any, sample: Sample, find: Find) -> None:
    """Bars of ours, diamonds of theirs."""
    axes = picture.subplots()
    systems = published("fig14b")["p99"]
    for at, (system, value) in enumerate(systems.items()):
        estimate = pooled(found(in_pods(system, sample), find), p99)
        if estimate is not None:
            bars(axes, at, 0.6, estimate.value, estimate.half_width, COLOURS[system])
        theirs(axes, at, value)
    explain_theirs(axes)
    axes.set_xticks(range(len(systems)), [NAMES[system].replace(", ", ",\n") for system in systems])
    axes.set(ylabel="p99 slowdown at load 1.0", ylim=(1, None))
    axes.legend()


RAILS = Figure(
    name="fig14a",
    title="Figure 14a: tail slowdown on a rail-optimised fabric",
    columns=("system", "load"),
    samples={"quick": Sample(1, 120, 20), "stated": Sample(1, 2400, 10), "paper": Sample(5, 2400)},
    setups=rail_setups,
    rows=rail_rows,
    draw=draw_rails,
    remarks=(ON_RAILS,),
)
PODS = Figure(
    name="fig14b",
    title="Figure 14b: tail slowdown under three tiers",
    columns=("system",),
    samples={"quick": Sample(1, 120, 20), "stated": Sample(1, 600, 10), "paper": Sample(5, 2400)},
    setups=pod_setups,
    rows=pod_rows,
    draw=draw_pods,
    remarks=(IN_PODS,),
)
