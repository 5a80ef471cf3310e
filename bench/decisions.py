"""Decisions and their cost: one sample for each state of a churn, and the row that sums them up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import monkeytree
from monkeytree.placement import over_bound
from monkeytree.planner import Decision, decide
from monkeytree.problem import state_problem
from monkeytree.snapshot import Snapshot
from monkeytree.solvers.choose import Bench

from .churn import Shape, states
from .measure import cpu_s, quantile, spending
from .table import number, share

LIMIT_S = 60.0
"""For one decision or one program, on the clock."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One decision: its state, its cost, and what it claims.

    Attributes:
        snapshot: kept only where it is needed later: a large process forks its solvers slowly.
        jobs: running.
        over: racks over their bound.
        state_ms: CPU of stating the problem of the snapshot.
        decide_ms: CPU of that, the solve, and named moves.
        plan_ms: CPU of all of ``make_plan``: flows, waves, reasons and the certificate too.
        stage: which one answered.
        certified: whether the plan carries a certificate of its bound.
    """

    snapshot: Snapshot | None
    jobs: int
    over: int
    state_ms: float
    decide_ms: float
    plan_ms: float
    moves: int
    proved: bool
    ties: bool
    stage: str
    certified: bool


def decided(
    snapshot: Snapshot, solver: str = "auto", limit_s: float = LIMIT_S
) -> tuple[Decision, Bench, float]:
    """A decision, the record of its stages, and its CPU ms."""
    bench = Bench(solver)
    with spending() as spent:
        decision = decide(snapshot, bench, time.monotonic() + limit_s)
    return decision, bench, spent.cpu_ms


def measured(snapshot: Snapshot) -> tuple[Sample, Decision]:
    """A sample of one state; each step gets a snapshot that nothing was computed from yet."""
    fresh, again, last = replace(snapshot), replace(snapshot), replace(snapshot)
    with spending() as stated:
        state_problem(fresh)
    decision, bench, decide_ms = decided(again)
    with spending() as planned:
        plan = monkeytree.make_plan(last)
    answer = decision.answer
    sample = Sample(
        snapshot,
        len(snapshot.jobs),
        len(over_bound(snapshot)),
        stated.cpu_ms,
        decide_ms,
        planned.cpu_ms,
        answer.score.moves,
        answer.objective_proved,
        answer.ties_proved,
        decision.stage or bench.answered_by[0],
        plan.certificate is not None,
    )
    return sample, decision


def churned(
    shape: Shape, scheduler: str, seed: int, most: int, seconds: float, *, keep: bool = False
) -> list[Sample]:
    """Up to ``most`` states of a churn, each planned and the plan applied, for ``seconds`` of CPU."""
    found: list[Sample] = []
    end = cpu_s() + seconds
    for cluster, snapshot in states(shape, scheduler, seed, most_events=400 * most):
        sample, decision = measured(snapshot)
        found.append(sample if keep else replace(sample, snapshot=None))
        cluster.apply(decision.moves)
        if len(found) >= most or cpu_s() > end:
            break
    return found


def repeated(snapshot: Snapshot, repeats: int) -> Sample:
    """The medians of several decisions on one state."""
    samples = [measured(snapshot)[0] for _ in range(repeats)]
    return replace(
        samples[-1],
        state_ms=quantile([sample.state_ms for sample in samples], 0.5),
        decide_ms=quantile([sample.decide_ms for sample in samples], 0.5),
        plan_ms=quantile([sample.plan_ms for sample in samples], 0.5),
    )


TITLES = (
    "states",
    "over",
    "state p50",
    "decide p50",
    "p90",
    "p99",
    "max",
    "plan p50",
    "p90",
    "moves",
    "proved",
    "ties",
    "certified",
    "answered by",
)


def row(samples: Sequence[Sample]) -> list[str]:
    """The cells under :data:`TITLES`."""
    count = len(samples)
    if not count:
        return ["0"] + ["-"] * (len(TITLES) - 1)
    costs = [sample.decide_ms for sample in samples]
    plans = [sample.plan_ms for sample in samples]
    stages = Counter(sample.stage for sample in samples)
    moves = [sample.moves for sample in samples]
    return [
        str(count),
        number(sum(sample.over for sample in samples) / count),
        number(quantile([sample.state_ms for sample in samples], 0.5)),
        *(number(quantile(costs, part)) for part in (0.5, 0.9, 0.99, 1.0)),
        *(number(quantile(plans, part)) for part in (0.5, 0.9)),
        f"{min(moves)}-{max(moves)}",
        share(sum(sample.proved for sample in samples), count),
        share(sum(sample.ties for sample in samples), count),
        share(sum(sample.certified for sample in samples), count),
        ", ".join(f"{stage} {times}" for stage, times in stages.most_common()),
    ]
