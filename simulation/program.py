"""An iteration as lanes of steps: compute, send, wait for another lane's send.

A data-parallel job is one lane. A pipeline has a lane a stage: all forward passes, then all backward
passes (GPipe), each followed by a send that the stage waits for, then the all-reduce of the stage.
An all-to-all of n workers is n - 1 shifts: in shift k, worker i sends to worker i + k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from .mix import GPUS_PER_BLOCK, JobType

COMPUTE, SEND, AWAIT = 0, 1, 2
Step = tuple[int, int]
"""(COMPUTE, us), (SEND, index of the send) or (AWAIT, index of the send)."""
Pair = tuple[int, int]
"""Ranks of two GPUs of the job: sender, receiver."""


@dataclass(frozen=True, slots=True)
class Send:
    """Flows that start together; the lane goes on when all have ended.

    Attributes:
        flow_bytes: of each flow.
        pattern: index into the patterns of the program: who sends to whom.
    """

    flow_bytes: int
    pattern: int


@dataclass(frozen=True, slots=True)
class Program:
    """An iteration of a job type on a number of GPUs; ``patterns`` are its distinct sets of pairs."""

    lanes: tuple[tuple[Step, ...], ...]
    sends: tuple[Send, ...]
    pattern_keys: tuple[tuple[str, int], ...]


def groups_of(kind: JobType, blocks: int) -> tuple[tuple[int, ...], ...]:
    """Replica groups as block ranks: one a pipeline stage."""
    size = blocks // kind.stages
    return tuple(tuple(range(stage * size, (stage + 1) * size)) for stage in range(kind.stages))


@cache
def program_of(kind: JobType, gpus: int) -> Program:
    """The program of ``kind`` on ``gpus``."""
    if kind.kind == "pipeline":
        return _pipeline(kind, gpus)
    steps: list[Step] = []
    sends: list[Send] = []
    keys: list[tuple[str, int]] = []
    if kind.kind == "experts":
        keys = [("shift", by) for by in range(1, gpus)]
        for exchange in kind.exchanges:
            steps.append((COMPUTE, kind.compute_us))
            for pattern in range(gpus - 1):
                steps.append((SEND, len(sends)))
                sends.append(Send(exchange // (gpus * (gpus - 1)), pattern))
    else:
        steps.append((COMPUTE, kind.compute_us))
    steps.append((SEND, len(sends)))
    sends.append(Send(kind.ring_bytes(gpus), len(keys)))
    return Program((tuple(steps),), tuple(sends), (*keys, ("ring", 0)))


def _pipeline(kind: JobType, gpus: int) -> Program:
    """Lanes of the stages; sends are numbered forward, backward, then the rings."""
    stages, batches = kind.stages, kind.microbatches
    hops = stages - 1
    keys = [*(("forward", s) for s in range(hops)), *(("backward", s) for s in range(hops))]
    sends = [Send(kind.activation_bytes, pattern) for pattern in range(2 * hops) for _ in range(batches)]
    lanes = []
    for stage in range(stages):
        steps: list[Step] = []
        for batch in range(batches):
            if stage:
                steps.append((AWAIT, (stage - 1) * batches + batch))
            steps.append((COMPUTE, kind.forward_us))
            if stage < hops:
                steps.append((SEND, stage * batches + batch))
        for batch in range(batches):
            if stage < hops:
                steps.append((AWAIT, (hops + stage) * batches + batch))
            steps.append((COMPUTE, kind.backward_us))
            if stage:
                steps.append((SEND, (hops + stage - 1) * batches + batch))
        steps.append((SEND, len(sends)))
        sends.append(Send(kind.ring_bytes(gpus), len(keys)))
        keys.append(("ring", stage))
        lanes.append(tuple(steps))
    return Program(tuple(lanes), tuple(sends), tuple(keys))


def pairs_of(
    kind: JobType, gpus: int, key: tuple[str, int], orders: Sequence[Sequence[int]]
) -> list[tuple[int, int, int, int]]:
    """Who sends to whom under ``key``: (block rank, GPU, block rank, GPU), without pairs inside a block.

    Args:
        orders: block ranks of each replica group in ring order.
    """
    what, number = key
    per_block = GPUS_PER_BLOCK
    if what == "ring":
        order = orders[number]
        hops = list(zip(order, [*order[1:], order[0]], strict=True))
        if kind.rings == 1:
            return [(a, per_block - 1, b, 0) for a, b in hops if a != b]
        return [(a, gpu, b, gpu) for a, b in hops if a != b for gpu in range(per_block)]
    if what == "shift":
        found = []
        for rank in range(gpus):
            a, b = divmod(rank, per_block), divmod((rank + number) % gpus, per_block)
            if a[0] != b[0]:
                found.append((*a, *b))
        return found
    size = gpus // per_block // kind.stages
    here, there = (number, number + 1) if what == "forward" else (number + 1, number)
    return [(here * size + at, gpu, there * size + at, gpu) for at in range(size) for gpu in range(per_block)]


@cache
def ideal_iteration_us(kind: JobType, gpus: int, nic_gbps: float) -> int:
    """An iteration without congestion, on a clock of whole microseconds: what the simulation gives alone.

    A pipeline of S stages and M microbatches takes (S + M - 1)(forward + backward), 2(S + M - 2) sends of
    activations, and the all-reduce: the bubble of GPipe is part of it.
    """

    def wire(flow_bytes: int) -> int:
        return wire_us(flow_bytes, nic_gbps)

    ring = wire(kind.ring_bytes(gpus))
    if kind.kind == "pipeline":
        slots = kind.stages + kind.microbatches - 1
        sends = 2 * (slots - 1) if kind.stages > 1 else 0
        return slots * (kind.forward_us + kind.backward_us) + sends * wire(kind.activation_bytes) + ring
    if kind.kind == "experts":
        pairs = gpus * (gpus - 1)
        return ring + sum(kind.compute_us + (gpus - 1) * wire(each // pairs) for each in kind.exchanges)
    return kind.compute_us + ring


def bits_per_us(gbps: float) -> float:
    """10^9 bits a second in bits a microsecond."""
    return gbps * 1000.0


def wire_us(flow_bytes: int, nic_gbps: float) -> int:
    """Whole microseconds on the wire at line rate, rounded down."""
    return int(8 * flow_bytes / bits_per_us(nic_gbps) + 1e-6)


def iteration_bytes(kind: JobType, gpus: int, rank: int) -> int:
    """What the GPUs of block ``rank`` each send in an iteration."""
    sent = kind.ring_bytes(gpus)
    if kind.kind == "experts":
        sent += sum((gpus - 1) * (each // (gpus * (gpus - 1))) for each in kind.exchanges)
    if kind.kind == "pipeline":
        stage = rank // (gpus // GPUS_PER_BLOCK // kind.stages)
        directions = (stage < kind.stages - 1) + (stage > 0)
        sent += directions * kind.microbatches * kind.activation_bytes
    return sent
