"""``python -m bench``: all figures of docs/bench.md; ``--quick`` for a first look."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

from . import growth, migration, packets, service, simulation, sizes, solving, steering
from .measure import machine

ROOT = Path(__file__).parent.parent
SECTIONS = (
    "churn",
    "authors",
    "cold",
    "service",
    "sizes",
    "growth",
    "packets",
    "migration",
    "steering",
    "simulation",
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to measure: states of a churn and the CPU seconds for them, and so on."""

    states: int
    seconds: float
    compared: int
    repeats: int
    posts: int
    cold_gpus: int
    growth_states: int
    growth_seconds: float
    packet_mb: float
    packet_runs: int
    state_gb: float
    moves: int


FULL = Effort(300, 8.0, 20, 5, 200, 65_536, 150, 4.0, 100, 3, 1.0, 3)
QUICK = Effort(40, 0.7, 3, 3, 40, 4_096, 15, 0.3, 10, 1, 0.1, 1)


def main(arguments: list[str] | None = None) -> None:
    """Run the sections asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="What planning costs, in CPU time.")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller states: under two minutes")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SECTIONS,
        default=SECTIONS,
        metavar="SECTION",
        help=f"of {', '.join(SECTIONS)}",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--instances",
        type=Path,
        default=ROOT / "tests/data/instances",
        metavar="DIR",
        help="where the authors' states are (authors-*.json)",
    )
    parser.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help="draw growth there (default: docs/figures/search-growth.svg, not in --quick)",
    )
    asked = parser.parse_args(arguments)
    effort = QUICK if asked.quick else FULL
    figure = asked.figure or (None if asked.quick else ROOT / "docs/figures/search-growth.svg")
    begun = time.monotonic()
    print(f"# Benchmark, seed {asked.seed}\n\n{machine()}")
    run(set(asked.only), effort, asked.seed, asked.instances, figure)
    print(f"\n{time.monotonic() - begun:.0f} s in all; at the end {machine()}")


def run(sections: set[str], effort: Effort, seed: int, instances: Path, figure: Path | None) -> None:
    """The sections, in the order of docs/bench.md."""
    quick = effort is not FULL
    if "churn" in sections:
        kept = solving.churned(seed, effort.states, effort.seconds, effort.compared)
        solving.by_solver(kept, effort.compared // 2, effort.seconds / 2)
    if "authors" in sections:
        solving.on_instances(instances, effort.repeats, effort.seconds)
    if "cold" in sections:
        solving.from_cold(seed, effort.cold_gpus)
    if "service" in sections:
        service.report(seed, effort.posts)
    if "sizes" in sections:
        sizes.report(seed, effort.repeats, quick=quick)
    if "growth" in sections:
        growth.report(seed, effort.growth_states, effort.growth_seconds, figure)
    if "packets" in sections:
        packets.report(effort.packet_mb, effort.packet_runs)
    if "migration" in sections:
        figures = None if quick else ROOT / "docs/figures"
        migration.report(effort.state_gb, effort.moves, figures)
    if "steering" in sections:
        steering.report(seed, effort.repeats, quick=quick)
    if "simulation" in sections:
        jobs, compress, largest = (120, 20, 2_048) if quick else (250, 1, 8_192)
        growth_figure = None if quick else ROOT / "docs/figures/simulation-growth.svg"
        simulation.report(jobs, compress, largest, growth_figure)


if __name__ == "__main__":
    main()
