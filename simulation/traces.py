"""Traces of jobs, drawn as the authors' artifact draws them; :mod:`.trace_files` reads and writes them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from .mix import GPUS_PER_BLOCK, JobType
from .program import ideal_iteration_us

ITERATIONS = (100, 1000)


class BadTrace(ValueError):
    """A trace that cannot be simulated; the message names the jobs and what is wrong."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job to come: when, of which type, on how many GPUs, for how many iterations.

    ``own`` is what the type does, where it is none of the mix.
    """

    arrival_us: int
    type: str
    gpus: int
    iterations: int
    own: JobType | None = None


def draw_trace(
    mix: Mapping[str, JobType], *, gpus: int, load: float, jobs: int, seed: int, nic_gbps: float = 400.0
) -> tuple[TraceJob, ...]:
    """Poisson arrivals at rate load x gpus / E[GPU time of a job].

    Draw order of the artifact: type, GPUs, iterations, then the time to the arrival. Its E[GPU time] leaves
    the bubble of pipelines out, so that the true load is 3 % above the nominal; that is kept.
    """
    if load <= 0:
        raise BadTrace(f"the load must be above 0, not {load}")
    source = random.Random(seed)
    kinds = list(mix.values())
    weights = [kind.weight for kind in kinds]
    rate = load * gpus / expected_gpu_us(mix, nic_gbps)
    now = 0.0
    trace = []
    for _ in range(jobs):
        kind = source.choices(kinds, weights=weights)[0]
        size = source.choice(kind.sizes)
        iterations = source.randint(*ITERATIONS)
        now += source.expovariate(rate)
        trace.append(TraceJob(int(now), kind.name, size, iterations))
    return tuple(trace)


def expected_gpu_us(mix: Mapping[str, JobType], nic_gbps: float) -> float:
    """E[GPUs x duration] of a job of the mix, without congestion and without pipeline bubbles."""
    mean_iterations = sum(ITERATIONS) / 2
    total = sum(kind.weight for kind in mix.values())
    return sum(
        kind.weight / total / len(kind.sizes) * mean_iterations * size * _busy_us(kind, size, nic_gbps)
        for kind in mix.values()
        for size in kind.sizes
    )


def _busy_us(kind: JobType, gpus: int, nic_gbps: float) -> int:
    """An iteration of which no stage ever waits for another."""
    whole = ideal_iteration_us(kind, gpus, nic_gbps)
    if kind.kind != "pipeline":
        return whole
    slots = kind.stages + kind.microbatches - 1
    ring = ideal_iteration_us(kind, gpus, nic_gbps) - slots * (kind.forward_us + kind.backward_us)
    return kind.microbatches * (kind.forward_us + kind.backward_us) + ring


def size_fault(kind: JobType, gpus: int) -> str | None:
    """Why a job of ``kind`` cannot run on ``gpus``; None where it can."""
    step = GPUS_PER_BLOCK * kind.stages
    least = step * (2 if kind.rings > 1 else 1)
    if gpus >= least and gpus % step == 0:
        return None
    return f"{kind.name} runs on multiples of {step} GPUs from {least}, not on {gpus}"
