"""Traces of jobs: drawn as the authors' artifact draws them, read and written in its format, or a user's.

The format: a first line with the number of jobs, then a line each, ``arrival_us type gpus iterations``.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .mix import GPUS_PER_BLOCK, JobType
from .program import ideal_iteration_us

ITERATIONS = (100, 1000)


class BadTrace(ValueError):
    """A trace that cannot be simulated; the message names the line and what is wrong."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job to come: when, of which type, on how many GPUs, for how many iterations."""

    arrival_us: int
    type: str
    gpus: int
    iterations: int


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


def write_trace(path: Path, trace: Sequence[TraceJob]) -> None:
    """Write the artifact's format."""
    lines = [str(len(trace))]
    lines += [f"{job.arrival_us} {job.type} {job.gpus} {job.iterations}" for job in trace]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_trace(path: Path, mix: Mapping[str, JobType]) -> tuple[TraceJob, ...]:
    """A trace in the artifact's format, or by its name's end a CSV (with a header) or a JSON list.

    CSV columns and JSON members: ``arrival_us`` (or ``arrival_s``), ``type``, ``gpus``, ``iterations``.

    Raises:
        BadTrace: an unknown type, a size that is not whole servers, or a line that does not parse.
        OSError: the file cannot be read.
    """
    text = path.read_text(encoding="utf-8")
    suffix = path.suffix.lower()
    if suffix == ".json":
        rows: Iterable[Any] = _json_rows(text)
    elif suffix == ".csv":
        rows = csv.DictReader(text.splitlines())
    else:
        rows = _plain_rows(text)
    trace = [_job(row, at, mix) for at, row in enumerate(rows, start=1)]
    return tuple(sorted(trace, key=lambda job: job.arrival_us))


def _json_rows(text: str) -> list[Any]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise BadTrace(f"not JSON: {error}") from None
    if not isinstance(rows, list):
        raise BadTrace("a JSON trace is a list of jobs")
    return rows


def _plain_rows(text: str) -> list[dict[str, str]]:
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if not lines or len(lines[0]) != 1 or not lines[0][0].isdigit():
        raise BadTrace("the first line must be the number of jobs")
    if int(lines[0][0]) != len(lines) - 1:
        raise BadTrace(f"the first line says {lines[0][0]} jobs, but {len(lines) - 1} lines follow")
    names = ("arrival_us", "type", "gpus", "iterations")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(names):
            raise BadTrace(
                f"line {number}: expected `arrival_us type gpus iterations`, got {' '.join(line)!r}"
            )
    return [dict(zip(names, line, strict=True)) for line in lines[1:]]


def _job(row: Any, at: int, mix: Mapping[str, JobType]) -> TraceJob:
    try:
        arrival_us = row["arrival_us"] if row.get("arrival_us") is not None else float(row["arrival_s"]) * 1e6
        job = TraceJob(int(arrival_us), row["type"], int(row["gpus"]), int(row["iterations"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadTrace(f"job {at}: {error!r} in {row!r}") from None
    kind = mix.get(job.type)
    if kind is None:
        raise BadTrace(f"job {at}: unknown type {job.type!r}; known: {', '.join(mix)}")
    least = GPUS_PER_BLOCK * kind.stages * (2 if kind.rings > 1 else 1)
    if job.gpus < least or job.gpus % (GPUS_PER_BLOCK * kind.stages):
        step = GPUS_PER_BLOCK * kind.stages
        raise BadTrace(
            f"job {at}: {job.type} runs on multiples of {step} GPUs from {least}, not on {job.gpus}"
        )
    if job.iterations < 1 or job.arrival_us < 0:
        raise BadTrace(f"job {at}: iterations from 1 and an arrival from 0, not {row!r}")
    return job
