"""ECMP: a hash of the flow chooses among equal paths, whatever they carry."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from ..fabrics import Fabric, Path
from ..running import Running


def flow_hash(seed: int, *parts: int) -> int:
    """64 bits of BLAKE2b over the numbers: the same on every machine."""
    text = ",".join(map(str, (seed, *parts)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class Ecmp:
    """Hash of (sender, receiver, job); paths stay as long as the job stays where it is."""

    def __init__(self, seed: int = 42) -> None:
        self.seed = seed

    def route(self, jobs: Sequence[Running], fabric: Fabric) -> list[tuple[Path, ...]]:
        """See :class:`~.protocol.Router`."""
        return [self._paths(job, fabric) if job.paths is None else job.paths for job in jobs]

    def _paths(self, job: Running, fabric: Fabric) -> tuple[Path, ...]:
        found = []
        for demand in job.wiring.demands:
            choices = fabric.choices(demand.source_leaf, demand.target_leaf)
            number = flow_hash(self.seed, demand.source, demand.target, job.number)
            found.append(choices[number % len(choices)])
        return tuple(found)
