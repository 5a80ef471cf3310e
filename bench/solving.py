"""What a planning decision costs, by cluster size, beside the paper's program on the same states."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import monkeytree
from monkeytree.errors import MonkeyTreeError
from monkeytree.placement import over_bound
from monkeytree.planner import decide
from monkeytree.solvers.choose import Bench

from . import decisions, rivals
from .churn import Shape, cold
from .decisions import Sample, decided
from .measure import cpu_s, quantile, spending
from .table import heading, number, share, show

SOLVERS = ("auto", "search", "split", "gurobi", "highs", "cbc")
COLD_LIMIT_S = 120.0
NAMED_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster and its scheduler; ``compared`` if the paper's program is solved beside it."""

    name: str
    shape: Shape
    scheduler: str = "seq"
    compared: bool = False


CASES = (
    Case("1,024 (16x8) seq", Shape(16, 8), compared=True),
    Case("1,024 (32x4) seq", Shape(32, 4), compared=True),
    Case("2,048 (32x8) seq", Shape(32, 8), compared=True),
    Case("4,096 (64x8) seq", Shape(64, 8)),
    Case("16,384 (256x8) seq", Shape(256, 8)),
    Case("65,536 (1024x8) seq", Shape(1024, 8)),
    Case("1,024 (16x8) first", Shape(16, 8), "first"),
    Case("1,024 (16x8) block", Shape(16, 8), "block"),
    Case("1,024 (16x8) best", Shape(16, 8), "best"),
    Case("65,536 (1024x8) first", Shape(1024, 8), "first"),
    Case("1,024 (16x8) seq, 1 uplink", Shape(16, 8, uplinks=1)),
    Case("1,024 (16x8) seq, 8 uplinks, rings 1 or 4", Shape(16, 8, uplinks=8, rings=(1, 4))),
)
COLD = (
    Case("1,024 (16x8) seq", Shape(16, 8, load=0.93)),
    Case("4,096 (64x8) seq", Shape(64, 8, load=0.93)),
    Case("16,384 (256x8) first", Shape(256, 8, load=0.93), "first"),
    Case("16,384 (256x8) seq", Shape(256, 8, load=0.93)),
    Case("65,536 (1024x8) first", Shape(1024, 8, load=0.93), "first"),
    Case("65,536 (1024x8) seq", Shape(1024, 8, load=0.93)),
)


def churned(seed: int, most: int, seconds: float, compared: int) -> dict[str, list[Sample]]:
    """Print the churn's table and the comparison; returns the samples of the compared cases."""
    heading("A planning decision under churn, the plan applied after each event")
    print("CPU ms, solver children included. `state`: stating the problem of a snapshot; `decide`: that, the")
    print(
        "solve, and named moves; `plan`: all of make_plan, certificates too. Racks x 8-GPU servers, 2 uplinks"
    )
    print("unless said.\n")
    lines, beside = [], []
    kept: dict[str, list[Sample]] = {}
    for case in CASES:
        samples = decisions.churned(case.shape, case.scheduler, seed, most, seconds, keep=case.compared)
        lines.append([case.name, *decisions.row(samples)])
        if case.compared:
            kept[case.name] = samples
            beside += rivals.rows(case.name, rivals.beside(_some(samples, compared), 2 * seconds))
    show(["GPUs, scheduler", *decisions.TITLES], lines)
    heading("CBC and HiGHS on the paper's own program, same states")
    print("CPU ms of each solver's own process (writing the program is not counted) beside our decision.\n")
    show(["GPUs, scheduler, solver", *rivals.TITLES], beside)
    return kept


def _some(samples: Sequence[Sample], count: int) -> Sequence[Sample]:
    """Evenly chosen ones."""
    return samples[:: max(1, len(samples) // count)][:count]


def by_solver(kept: dict[str, list[Sample]], most: int, seconds: float) -> None:
    """Print what each solver needs when it is asked for by name (whole program, ties included)."""
    heading("Solvers by name, same states")
    print("CPU ms of a decision with `solver` named. `refused`: more than it can take (Gurobi's licence).\n")
    lines = [
        [f"{name}, {solver}", *_named(_some(samples, most), solver, seconds)]
        for name, samples in kept.items()
        for solver in SOLVERS
    ]
    show(["GPUs, solver", "states", "refused", "p50", "p90", "max", "proved", "ties", "other moves"], lines)


def _named(samples: Sequence[Sample], solver: str, seconds: float) -> list[str]:
    end = cpu_s() + seconds
    costs: list[float] = []
    refused = proved = ties = other = 0
    for sample in samples:
        if cpu_s() > end or sample.snapshot is None:
            break
        try:
            decision, _, cost = decided(replace(sample.snapshot), solver, NAMED_LIMIT_S)
        except MonkeyTreeError:
            refused += 1
            continue
        costs.append(cost)
        proved += decision.answer.objective_proved
        ties += decision.answer.ties_proved
        other += decision.answer.score.moves != sample.moves
    quantiles = [number(quantile(costs, part)) for part in (0.5, 0.9, 1.0)]
    shares = [share(proved, len(costs)), share(ties, len(costs))]
    return [str(len(costs) + refused), str(refused), *quantiles, *shares, str(other)]


def from_cold(seed: int, largest: int) -> None:
    """Print one decision for each cold cluster of up to ``largest`` GPUs."""
    heading("Cold clusters: never planned before")
    lines = [_cold(case, seed) for case in COLD if case.shape.gpus <= largest]
    titles = ["racks over", "moves", "bound", "CPU s", "wall s", "proved", "ties", "stages (wall)"]
    show(["GPUs, scheduler", *titles], lines)


def _cold(case: Case, seed: int) -> list[str]:
    snapshot = cold(case.shape, case.scheduler, seed)
    over = len(over_bound(snapshot))
    bench = Bench("auto")
    with spending() as spent:
        answer = decide(replace(snapshot), bench, time.monotonic() + COLD_LIMIT_S).answer
    stages = ", ".join(f"{trial.name} {trial.seconds:.2f} s" for trial in bench.trials if trial.seconds)
    return [
        case.name,
        f"{over}/{case.shape.racks}",
        str(answer.score.moves),
        str(answer.lower_bound),
        number(spent.cpu_ms / 1e3),
        number(spent.wall_ms / 1e3),
        "yes" if answer.objective_proved else "no",
        "yes" if answer.ties_proved else "no",
        stages,
    ]


def on_instances(folder: Path, repeats: int, seconds: float) -> None:
    """Print the authors' own states: their program by CBC and HiGHS beside our decision."""
    heading("The authors' own states")
    files = sorted(file for file in folder.glob("authors-*.json") if not file.name.endswith(".expect.json"))
    if not files:
        print(f"no authors-*.json in {folder}: name the folder with --instances")
        return
    print("CPU ms; ours is the median of several decisions on each state, theirs one solve.\n")
    sizes: dict[str, list[Path]] = {}
    for file in files:
        sizes.setdefault(file.stem.removeprefix("authors-").rpartition("-")[0], []).append(file)
    lines, beside = [], []
    for size in sorted(sizes, key=lambda name: (name.startswith("rail"), int(name.split("-")[-1]))):
        samples = [decisions.repeated(monkeytree.load_snapshot(file), repeats) for file in sizes[size]]
        lines.append([size, *decisions.row(samples)])
        beside += rivals.rows(size, rivals.beside(samples, seconds))
    show(["GPUs", *decisions.TITLES], lines)
    show(["GPUs, solver", *rivals.TITLES], beside)
