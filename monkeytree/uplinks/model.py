"""What uplink colouring takes and gives: flows between leaves, the live fabric, the colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Leaf = tuple[str, int]
"""(rack id, rail): one ToR switch."""

Direction = Literal["up", "down"]


@dataclass(frozen=True, slots=True)
class Hop:
    """One cross-rack flow.

    Attributes:
        seed: the spine (of the source leaf) it had before, where known.
        pod_seed: the core it had before, where known and it leaves its pod.
    """

    source: Leaf
    target: Leaf
    seed: int | None = None
    pod_seed: int | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """The live fabric.

    Attributes:
        spines: live spines of each leaf; a leaf that is missing has none.
        flows_per_uplink: k, flows one uplink carries at full rate.
        pod_of: pod id of each rack id; empty where there are no pods. Spine u of one pod is
            another switch than spine u of the next.
        pod_uplinks: uplinks of each pod; pod uplink c leads to core c.
        pod_spines: S, the spines of each pod (1 + the largest spine number of its racks); pod
            uplink c leaves from spine c mod S.
    """

    spines: Mapping[Leaf, tuple[int, ...]]
    flows_per_uplink: int
    pod_of: Mapping[str, str] = field(default_factory=dict)
    pod_uplinks: Mapping[str, int] = field(default_factory=dict)
    pod_spines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Share:
    """An uplink that carries more than k flows in one direction.

    Attributes:
        uplink: the spine of a leaf (``rack`` and ``rail`` are set) or the core of a ``pod``.
        flows: indices of all flows on it, ascending.
    """

    uplink: int
    direction: Direction
    flows: tuple[int, ...]
    rack: str | None = None
    rail: int | None = None
    pod: str | None = None


@dataclass(frozen=True, slots=True)
class Colouring:
    """One entry a flow, in the order given.

    Attributes:
        uplinks: the spine of the source leaf, None where the two leaves share no live spine.
        pod_uplinks: the core, None for flows inside a pod and where no core joins the two leaves;
            such a flow keeps a spine of its source leaf and loads only that.
        shared: every uplink and direction above k: leaves by (rack, rail), then pods.
    """

    uplinks: tuple[int | None, ...]
    pod_uplinks: tuple[int | None, ...]
    shared: tuple[Share, ...]
