"""Fabrics: the links between racks, and the paths a flow may take through them.

A GPU is the number ``block x 8 + rank in its server``, and blocks are numbered rack by rack. A path is
a tuple of link numbers; the choices of a pair of leaves are listed by spine (between pods: by core).
NICs are no links here: each carries one flow at a time (program.py), so they only bound a flow's rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from .mix import GPUS_PER_BLOCK

Path = tuple[int, ...]
Choices = Sequence[Path]
FabricName = Literal["leaf-spine", "pods", "rails"]


class Fabric(Protocol):
    """What routing asks of a fabric.

    Attributes:
        racks: of the scheduler and of the planner (pods where rails are built).
        blocks_per_rack: servers in each.
        pods: pod of each rack; empty without pods.
        spines: live spines of each rack.
        pod_uplinks: cores above a pod; 0 without pods.
        capacity: Gb/s of each link.
    """

    racks: int
    blocks_per_rack: int
    pods: tuple[int, ...]
    spines: tuple[tuple[int, ...], ...]
    pod_uplinks: int
    capacity: list[float]

    def ends(self, source: int, target: int) -> tuple[int, int] | None:
        """Leaves of two GPUs of different servers; None if the flow between them takes no uplink."""
        ...

    def choices(self, source_leaf: int, target_leaf: int) -> Choices:
        """Paths between two leaves, in the order of their spines; none where they share no live one."""
        ...


@dataclass
class _Links:
    """Numbers the links."""

    capacity: list[float] = field(default_factory=list)

    def add(self, gbps: float) -> int:
        self.capacity.append(gbps)
        return len(self.capacity) - 1


class _Racks:
    """Racks whose servers meet in leaves, and paths that are looked for once."""

    def __init__(self, racks: int, blocks_per_rack: int) -> None:
        self.racks = racks
        self.blocks_per_rack = blocks_per_rack
        self._known: dict[tuple[int, int], Choices] = {}

    def ends(self, source: int, target: int) -> tuple[int, int] | None:
        """See :class:`Fabric`."""
        per_rack = self.blocks_per_rack * GPUS_PER_BLOCK
        here, there = source // per_rack, target // per_rack
        return None if here == there else (here, there)

    def choices(self, source_leaf: int, target_leaf: int) -> Choices:
        """See :class:`Fabric`."""
        known = self._known.get((source_leaf, target_leaf))
        if known is None:
            known = self._known[source_leaf, target_leaf] = self._find(source_leaf, target_leaf)
        return known

    def _find(self, source: int, target: int) -> Choices:
        """Paths between two leaves."""
        raise NotImplementedError


class LeafSpine(_Racks):
    """Racks under spines, one uplink from each rack to each spine.

    Args:
        failed: (rack, spine) of uplinks that are down.
    """

    def __init__(
        self,
        racks: int,
        blocks_per_rack: int,
        spines: int,
        uplink_gbps: float,
        failed: frozenset[tuple[int, int]] = frozenset(),
        leaves_per_rack: int = 1,
    ) -> None:
        super().__init__(racks, blocks_per_rack)
        self.pods: tuple[int, ...] = ()
        self.pod_uplinks = 0
        self.spines = tuple(
            tuple(spine for spine in range(spines) if (rack, spine) not in failed) for rack in range(racks)
        )
        links = _Links()
        self._leaves_per_rack = leaves_per_rack
        leaves = range(racks * leaves_per_rack)
        self._up = [[links.add(uplink_gbps) for _ in range(spines)] for _ in leaves]
        self._down = [[links.add(uplink_gbps) for _ in range(spines)] for _ in leaves]
        self.capacity = links.capacity

    def _find(self, source: int, target: int) -> Choices:
        """By ascending live spine."""
        here = self.spines[source // self._leaves_per_rack]
        there = set(self.spines[target // self._leaves_per_rack])
        up, down = self._up[source], self._down[target]
        return [(up[spine], down[spine]) for spine in here if spine in there]


class Rails(LeafSpine):
    """Pods whose servers reach a leaf per rail: GPU i of a server is on rail i (paper, figure 14a).

    Within a pod all servers meet in the leaf of a rail, so only flows between pods take uplinks; the
    sending server hands the data to its GPU on the rail of the receiver first (NVLink).
    """

    def __init__(
        self,
        pods: int,
        blocks_per_pod: int,
        spines: int,
        uplink_gbps: float,
        failed: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        super().__init__(pods, blocks_per_pod, spines, uplink_gbps, failed, leaves_per_rack=GPUS_PER_BLOCK)

    def ends(self, source: int, target: int) -> tuple[int, int] | None:
        """See :class:`Fabric`."""
        racks = super().ends(source, target)
        if racks is None:
            return None
        rail = target % GPUS_PER_BLOCK
        return racks[0] * GPUS_PER_BLOCK + rail, racks[1] * GPUS_PER_BLOCK + rail


class Pods(_Racks):
    """Three tiers: racks under the aggregation switches of their pod, pods under cores.

    Aggregation switch a of a pod has the links to the cores c with c mod (aggregation switches) = a.
    """

    def __init__(
        self,
        pods: int,
        racks_per_pod: int,
        blocks_per_rack: int,
        aggregations: int,
        cores: int,
        uplink_gbps: float,
        failed: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        super().__init__(pods * racks_per_pod, blocks_per_rack)
        self.pods = tuple(rack // racks_per_pod for rack in range(self.racks))
        self.pod_uplinks = cores
        self.spines = tuple(
            tuple(one for one in range(aggregations) if (rack, one) not in failed)
            for rack in range(self.racks)
        )
        links = _Links()
        self._up = [[links.add(uplink_gbps) for _ in range(aggregations)] for _ in range(self.racks)]
        self._down = [[links.add(uplink_gbps) for _ in range(aggregations)] for _ in range(self.racks)]
        self._core_up = [[links.add(uplink_gbps) for _ in range(cores)] for _ in range(pods)]
        self._core_down = [[links.add(uplink_gbps) for _ in range(cores)] for _ in range(pods)]
        self.capacity = links.capacity
        self._aggregations = aggregations

    def _find(self, source: int, target: int) -> Choices:
        """By aggregation switch inside a pod, by core between pods."""
        up, down = self._up[source], self._down[target]
        both = set(self.spines[source]) & set(self.spines[target])
        here, there = self.pods[source], self.pods[target]
        found: list[Path] = []
        if here == there:
            found = [(up[one], down[one]) for one in sorted(both)]
        else:
            found = [
                (up[one], self._core_up[here][core], self._core_down[there][core], down[one])
                for core in range(self.pod_uplinks)
                if (one := core % self._aggregations) in both
            ]
        return found
