"""Clocks and quantiles. CPU time, not wall time: it is what a busy machine leaves comparable."""

from __future__ import annotations

import gc
import os
import platform
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Spent:
    """What a block of code cost, in milliseconds; filled in when it ends.

    Attributes:
        own_ms: CPU time of this process.
        children_ms: CPU time of child processes that ended meanwhile (solvers run in children).
        wall_ms: time on the clock.
    """

    own_ms: float = 0.0
    children_ms: float = 0.0
    wall_ms: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """CPU time of this process and its children."""
        return self.own_ms + self.children_ms


@contextmanager
def spending() -> Iterator[Spent]:
    """Measure a block: ``with spending() as spent: ...``."""
    spent = Spent()
    # States kept from before are the benchmark's, not a cost of the collector in this block.
    gc.freeze()
    wall, children, own = time.perf_counter(), _children_s(), time.process_time()
    try:
        yield spent
    finally:
        spent.own_ms = 1e3 * (time.process_time() - own)
        spent.children_ms = 1e3 * (_children_s() - children)
        spent.wall_ms = 1e3 * (time.perf_counter() - wall)


def cpu_s() -> float:
    """CPU seconds of this process and its ended children so far: budgets count in these, not on the clock."""
    return time.process_time() + _children_s()


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def quantile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed (nearest rank); NaN of nothing."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def machine() -> str:
    """The machine in general words, with its load: figures of a busy one are no records."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"Python {platform.python_version()}, {platform.machine()}, {cores} cores, load average {load}"
