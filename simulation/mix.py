"""The job types of the authors' evaluation, and what one iteration of each does.

Compute times, bytes, sizes and weights: their public artifact (job definitions and trace generator of
arXiv 2602.08296). All-reduce of D bytes on a ring of n sends 2(n-1)/n x D bytes a worker; a strided ring
of tensor parallelism has n / 8 members, one ring per rank of the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

GPUS_PER_BLOCK = 8
"""A server: jobs are placed in whole ones."""

Kind = Literal["data", "tensor", "pipeline", "experts"]


@dataclass(frozen=True, slots=True)
class JobType:
    """What jobs of one name do in an iteration.

    Attributes:
        kind: ``data`` (one ring over all GPUs), ``tensor`` (a ring per rank of the server),
            ``pipeline`` (stages of ``tensor``, GPipe order) or ``experts`` (all-to-alls, then a ring).
        weight: how often it is drawn.
        sizes: GPUs, drawn evenly.
        compute_us: before the all-reduce; before each all-to-all of ``experts``.
        sync_bytes: D of the all-reduce.
        stages, microbatches, forward_us, backward_us, activation_bytes: of ``pipeline``.
        exchanges: bytes of each all-to-all, over all pairs of GPUs together.
    """

    name: str
    kind: Kind
    weight: int
    sizes: tuple[int, ...]
    compute_us: int
    sync_bytes: int
    stages: int = 1
    microbatches: int = 0
    forward_us: int = 0
    backward_us: int = 0
    activation_bytes: int = 0
    exchanges: tuple[int, ...] = ()

    @property
    def rings(self) -> int:
        """d_s: rings over the same workers."""
        return GPUS_PER_BLOCK if self.kind in ("tensor", "pipeline") else 1

    def ring_bytes(self, gpus: int) -> int:
        """What one GPU sends in the all-reduce."""
        members = gpus // self.stages // self.rings
        return 2 * (members - 1) * self.sync_bytes // members


# Sixteen large all-to-alls, a small one, seven large ones.
_EXCHANGES = (376_000_000,) * 16 + (188_000_000,) + (376_000_000,) * 7
_SMALL, _EVEN = (16, 24, 32), (16, 32)

PAPER_MIX: Mapping[str, JobType] = {
    kind.name: kind
    for kind in (
        JobType("llama2_70b_fsdp", "data", 25, _SMALL, 2_378_000, 137_430_000_000),
        JobType("gpt_oss_20b_dp_moe", "experts", 1, (16,), 133_000, 8_800_000_000, exchanges=_EXCHANGES),
        JobType("llama2_70b_tp_dp", "tensor", 100, _EVEN, 341_000, 17_180_000_000),
        JobType(
            "llama2_70b_tp_dp_pp_2",
            "pipeline",
            25,
            (32, 48, 64),
            0,
            8_590_000_000,
            2,
            8,
            60_000,
            111_000,
            8_390_000,
        ),
        JobType(
            "llama2_70b_tp_dp_pp_4",
            "pipeline",
            25,
            (64,),
            0,
            4_295_000_000,
            stages=4,
            microbatches=8,
            forward_us=30_000,
            backward_us=56_000,
            activation_bytes=8_390_000,
        ),
        JobType("llama3_70b_fsdp", "data", 25, _SMALL, 5_258_000, 137_430_000_000),
        JobType("llama3_70b_tp_dp", "tensor", 100, _EVEN, 743_000, 17_180_000_000),
        JobType("gpt_oss_120b_dp_moe", "experts", 1, (16,), 106_000, 11_420_000_000, exchanges=_EXCHANGES),
        JobType("gpt_7b_dp", "data", 25, _SMALL, 113_000, 13_000_000_000),
        JobType("gpt_13b_dp", "data", 25, _SMALL, 215_000, 26_000_000_000),
    )
}
"""In the order in which the artifact draws from it."""

EXPERTS_MIX: Mapping[str, JobType] = {
    "gpt_20b_32gpu": JobType(
        "gpt_20b_32gpu", "experts", 1, (32,), 629_000, 1_798_000_000, exchanges=(1_123_000_000_000,)
    )
}
"""Long sequences (16k) dominated by the all-to-all of experts: the paper's figure 16."""


def _one_ring(kind: JobType) -> JobType:
    """``kind`` as a job with a single ring over all its GPUs, its compute in one piece."""
    slots = kind.stages + kind.microbatches - 1 if kind.kind == "pipeline" else 0
    compute_us = kind.compute_us + slots * (kind.forward_us + kind.backward_us)
    if kind.kind == "experts":
        return kind
    return JobType(kind.name, "data", kind.weight, kind.sizes, compute_us, kind.sync_bytes)


ONE_RING_MIX: Mapping[str, JobType] = {name: _one_ring(kind) for name, kind in PAPER_MIX.items()}
"""The paper's jobs, each a single ring: a rack of 8 servers then sends at most 8 flows (figure 13)."""

MIXES: Mapping[str, Mapping[str, JobType]] = {
    "paper": PAPER_MIX,
    "experts": EXPERTS_MIX,
    "one-ring": ONE_RING_MIX,
}
