"""CBC and HiGHS on the paper's own program, on the states that we decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monkeytree.program import Program
from monkeytree.solvers import cbc, highs

from . import paper
from .decisions import LIMIT_S, Sample
from .measure import cpu_s, quantile, spending
from .table import number, share

RIVALS = (cbc, highs)


@dataclass(frozen=True, slots=True)
class Rival:
    """A solver on one program: CPU ms of its own process, and how it ended."""

    cpu_ms: float
    status: str
    moves: float | None


Pair = tuple[Sample, dict[str, Rival]]


def solved(program: Program, limit_s: float = LIMIT_S) -> dict[str, Rival]:
    """The rivals by name. Only their own child processes are counted, not our writing the program."""
    found: dict[str, Rival] = {}
    for solver in RIVALS:
        with spending() as spent:
            outcome = solver.solve(program, limit_s)
        moves = None if outcome.objective is None else outcome.objective / 2
        found[solver.NAME] = Rival(spent.children_ms, outcome.status, moves)
    return found


def beside(samples: Sequence[Sample], seconds: float) -> list[Pair]:
    """As many of the samples as ``seconds`` of CPU allow, each with the rivals on the same state."""
    end = cpu_s() + seconds
    pairs: list[Pair] = []
    for sample in samples:
        if cpu_s() > end:
            break
        if sample.snapshot is not None:
            pairs.append((sample, solved(paper.fewest_moves(sample.snapshot))))
    return pairs


TITLES = ("states", "p50", "p90", "max", "ours p50", "p90", "p50 / ours", "proved", "more moves", "no answer")


def rows(name: str, pairs: Sequence[Pair]) -> list[list[str]]:
    """For each rival the cells under :data:`TITLES`, named first."""
    ours = [sample.decide_ms for sample, _ in pairs]
    lines = []
    for solver in RIVALS:
        answers = [(sample.moves, found[solver.NAME]) for sample, found in pairs]
        costs = [rival.cpu_ms for _, rival in answers]
        cells = [
            *(number(quantile(costs, part)) for part in (0.5, 0.9, 1.0)),
            *(number(quantile(ours, part)) for part in (0.5, 0.9)),
            f"{quantile(costs, 0.5) / quantile(ours, 0.5):,.0f}" if pairs else "-",
            share(sum(rival.status == "optimal" for _, rival in answers), len(answers)),
            str(sum(rival.moves is not None and rival.moves > moves for moves, rival in answers)),
            str(sum(rival.moves is None for _, rival in answers)),
        ]
        lines.append([f"{name}, {solver.NAME}", str(len(pairs)), *cells])
    return lines
