"""Crux's path selection: jobs by descending GPU intensity, each flow on the path with fewest flows.

After Crux (SIGCOMM 2024), without its priority levels, as the authors of MonkeyTree compare with it.
Paths of a job are kept until it moves or ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..fabrics import Fabric, Path
from ..running import Running


class Crux:
    """Greedy least-loaded paths; intensity is time of an iteration over its time on the wire."""

    def route(self, jobs: Sequence[Running], fabric: Fabric) -> list[tuple[Path, ...]]:
        """See :class:`~.protocol.Router`."""
        carried: Counter[int] = Counter()
        answer: dict[int, tuple[Path, ...]] = {}
        for job in jobs:
            if job.paths is not None:
                answer[job.number] = job.paths
                carried.update(link for path in job.paths for link in path)
        for job in sorted(jobs, key=lambda one: (-one.intensity, one.number)):
            if job.number not in answer:
                answer[job.number] = self._paths(job, fabric, carried)
        return [answer[job.number] for job in jobs]

    def _paths(self, job: Running, fabric: Fabric, carried: Counter[int]) -> tuple[Path, ...]:
        found = []
        for demand in job.wiring.demands:
            choices = fabric.choices(demand.source_leaf, demand.target_leaf)
            path = min(choices, key=lambda links: sum(carried[link] for link in links))
            carried.update(path)
            found.append(path)
        return tuple(found)
