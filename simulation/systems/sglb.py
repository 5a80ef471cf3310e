"""SGLB: each flow starts on one of the paths with fewest flows and is moved when its path is none of them.

A path's score is the number of flows on its uplink plus those on its downlink (further tiers likewise).
A hash of the flow picks one of the ``share`` (half, as the authors set it) with the lowest scores; every
10 ms a flow that gets less than line rate, and whose path is not among them any more, is picked another.
"""

from __future__ import annotations

from collections.abc import Sequence

from monkeytree.fluid import Flow, Network

from ..fabrics import Choices, Fabric, Path
from ..running import Demand
from .ecmp import flow_hash


class Sglb:
    """Load-aware flow placement with re-mapping.

    Args:
        share: of the paths, those that a flow may take.
    """

    period_us = 10_000

    def __init__(self, seed: int = 42, share: float = 0.5) -> None:
        self.seed = seed
        self.share = share
        self._hashes: dict[tuple[int, int, int], int] = {}

    def choose(self, demand: Demand, job: int, fabric: Fabric, net: Network) -> Path:
        """See :class:`~.protocol.DynamicRouter`."""
        choices = fabric.choices(demand.source_leaf, demand.target_leaf)
        best = self._best(choices, net, ())
        return best[self._hash(demand, job) % len(best)]

    def move(self, flow: Flow, fabric: Fabric, net: Network) -> Path | None:
        """See :class:`~.protocol.DynamicRouter`; a flow at line rate stays."""
        if flow.rate >= net.ceiling:
            return None
        job, _, (index,) = flow.owner
        demand = job.wiring.demands[index]
        best = self._best(fabric.choices(demand.source_leaf, demand.target_leaf), net, flow.path)
        if flow.path in best:
            return None
        return best[self._hash(demand, job.number) % len(best)]

    def _best(self, choices: Choices, net: Network, own: Sequence[int]) -> list[Path]:
        """The paths with the lowest scores; ``own`` is where the flow itself is, which does not count."""
        on = net.on
        scored = sorted(
            (sum([len(on[link]) - (link in own) for link in path if link in on]), number)
            for number, path in enumerate(choices)
        )
        count = max(1, round(len(choices) * self.share))
        return [choices[number] for _, number in scored[:count]]

    def _hash(self, demand: Demand, job: int) -> int:
        key = (demand.source, demand.target, job)
        found = self._hashes.get(key)
        if found is None:
            found = self._hashes[key] = flow_hash(self.seed, *key)
        return found
