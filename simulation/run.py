"""From a set-up to a result: the public door of the simulation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from .checks import build_fabric, check_setup, jobs_of
from .cluster import Cluster, Progress
from .execution import Execution
from .mix import MIXES
from .planning import Planner
from .scheduling import scheduler_of
from .setup import Result, Setup
from .systems import SYSTEMS
from .traces import TraceJob


def simulate(setup: Setup, progress: Progress | None = None) -> Result:
    """Run ``setup`` to the last completion.

    Args:
        progress: called with (jobs done, jobs in all) after each change.

    Raises:
        BadSetup: the set-up cannot be simulated.
    """
    begun = time.process_time()
    check_setup(setup)
    system = SYSTEMS[setup.system]
    mix = dict(MIXES[setup.mix])
    fabric = build_fabric(setup)
    trace = jobs_of(setup)
    given = setup
    if setup.compress != 1:
        setup, trace = _compressed(setup, trace)
    execution = Execution(fabric, setup.nic_gbps, system.router())
    planner = Planner(setup, fabric, with_pods=system.with_pods) if system.defragments else None
    cluster = Cluster(
        setup, trace, mix, fabric, execution, scheduler_of(setup.scheduler, setup.seed), planner
    )
    cluster.run(progress)
    rows = tuple(sorted(cluster.rows, key=lambda row: row.id))
    plans = tuple(cluster.plans)
    slowdowns = sorted(row.slowdown for row in rows)
    summary: dict[str, Any] = {
        "system": setup.system,
        "load": setup.load,
        "gpus": setup.gpus,
        "jobs": len(rows),
        "seed": setup.seed,
        "mean": sum(slowdowns) / len(slowdowns),
        "p90": quantile(slowdowns, 0.9),
        "p99": quantile(slowdowns, 0.99),
        "migrations": cluster.migrations,
        "plans": len(plans),
        "iterations": sum(job.iterations for job in trace),
        "iterations_followed": execution.followed,
        "events": execution.events,
        "solve_ms_mean": sum(plan.solve_ms for plan in plans) / len(plans) if plans else 0.0,
        "cpu_s": time.process_time() - begun,
    }
    return Result(given, rows, plans, cluster.migrations, summary)


def _compressed(setup: Setup, trace: Sequence[TraceJob]) -> tuple[Setup, tuple[TraceJob, ...]]:
    """Trace and pause as ``Setup.compress`` asks; the planner divides the bytes of state."""
    by = setup.compress
    migration = replace(setup.migration, pause_s=setup.migration.pause_s / by)
    shorter = tuple(
        replace(job, arrival_us=job.arrival_us // by, iterations=max(1, round(job.iterations / by)))
        for job in trace
    )
    return replace(setup, migration=migration), shorter


def simulate_many(
    setups: Sequence[Setup], processes: int = 1, done: Callable[[Result], None] | None = None
) -> list[Result]:
    """Results in the order of ``setups``; the same whatever the number of processes.

    Args:
        done: called with each result as it comes.
    """
    results = []
    for result in _all(setups, processes):
        results.append(result)
        if done is not None:
            done(result)
    return results


def _all(setups: Sequence[Setup], processes: int) -> Iterator[Result]:
    if processes <= 1 or len(setups) <= 1:
        yield from map(simulate, setups)
        return
    with ProcessPoolExecutor(min(processes, len(setups)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(simulate, setups)


def quantile(ordered: Sequence[float], part: float) -> float:
    """Of ascending values, between neighbours linearly."""
    at = part * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
