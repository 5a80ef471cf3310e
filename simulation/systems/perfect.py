"""Perfect routing: edge colouring of the ring flows between leaves; the best that paths alone can do.

With at most as many ring flows out of and into each leaf as it has spines, none shares an uplink.
Colours above the spines are folded by modulo, as the authors do. Other flows (activations, all-to-alls,
moved state) go round the spines of their leaf in turn, each leaf starting at another spine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..fabrics import Fabric, Path
from ..running import Running
from .colouring import colour_edges


class Perfect:
    """Coloured anew whenever a job starts, ends or moves."""

    def route(self, jobs: Sequence[Running], fabric: Fabric) -> list[tuple[Path, ...]]:
        """See :class:`~.protocol.Router`."""
        edges = [
            (demand.source_leaf, demand.target_leaf)
            for job in jobs
            for demand in job.wiring.demands
            if demand.ring
        ]
        colours = iter(colour_edges(edges))
        turns: Counter[int] = Counter()
        answer = []
        for job in jobs:
            paths = []
            for demand in job.wiring.demands:
                choices = fabric.choices(demand.source_leaf, demand.target_leaf)
                if demand.ring:
                    number = next(colours)
                else:
                    number = demand.source_leaf + turns[demand.source_leaf]
                    turns[demand.source_leaf] += 1
                paths.append(choices[number % len(choices)])
            answer.append(tuple(paths))
        return answer
