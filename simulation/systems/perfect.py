"""Perfect routing: edge colouring of the ring flows between leaves; the best that paths alone can do.

With at most as many ring flows out of and into each leaf as it has spines, none shares an uplink.
Colours above the spines are folded by modulo, as the authors do. Other flows (activations, all-to-alls,
moved state) go round the spines of their leaf in turn, each leaf starting at another spine.

With pods the aggregation switch of a flow between pods is that of its core. These flows are coloured
first, pod to pod, so that none shares a pod's uplink; those inside a pod then get what is left at their
racks, which may not do for all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ..fabrics import Fabric, Path
from ..running import Running
from .colouring import Edge, colour_edges, extend_colours


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
        colours = iter(_in_pods(edges, fabric) if fabric.pods else colour_edges(edges))
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


def _in_pods(edges: Sequence[Edge], fabric: Fabric) -> list[int]:
    """Colours of flows between leaves: cores between pods, the place among the spines inside one."""
    pods = fabric.pods
    between = [index for index, (here, there) in enumerate(edges) if pods[here] != pods[there]]
    found = colour_edges([(pods[edges[index][0]], pods[edges[index][1]]) for index in between])
    colours = dict(zip(between, found, strict=True))
    up: defaultdict[int, set[int]] = defaultdict(set)
    down: defaultdict[int, set[int]] = defaultdict(set)
    aggregations = max(map(len, fabric.spines))
    for index, core in colours.items():
        up[edges[index][0]].add(core % aggregations)
        down[edges[index][1]].add(core % aggregations)
    inside = [index for index in range(len(edges)) if index not in colours]
    left = extend_colours([edges[index] for index in inside], up, down, aggregations)
    colours.update(zip(inside, left, strict=True))
    return [colours[index] for index in range(len(edges))]
