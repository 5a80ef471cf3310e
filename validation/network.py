"""The fabric of a snapshot as a graph of numbered nodes: NICs, leaves, spines and cores.

Hosts (NICs) are 0 to N-1, switches follow, as the scenario document wants it. A spine serves all rails;
with pods each has spines of its own, and pod uplink c leads from spine c mod S to core c.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from monkeytree.snapshot import Rack, Snapshot

Leaf = tuple[str, int]
"""(rack id, rail)."""

Hop = tuple[int, int]
"""One direction of a link: from node, to node."""

LINK_DELAY_NS = 1000.0
"""One way, each link; the usual figure of public packet simulators (200 m of fibre)."""


@dataclass(frozen=True, slots=True)
class Link:
    """A full-duplex link between two nodes."""

    a: int
    b: int
    gbps: float
    delay_ns: float = LINK_DELAY_NS


def undirected(hop: Hop) -> Hop:
    """The same for both directions of a link."""
    return hop if hop[0] < hop[1] else (hop[1], hop[0])


class Network:
    """Nodes and live links of one fabric, and the ways between its leaves.

    ``links`` are those of the fabric; ``by_ends`` holds also the private ones.

    Args:
        snapshot: racks, pods and rates.
        nics: the leaf of each host, by host number.
        dead: uplinks that failed after the plan was made, as (rack id, spine): all rails of the rack.
    """

    def __init__(
        self, snapshot: Snapshot, nics: Sequence[Leaf], dead: Iterable[tuple[str, int]] = ()
    ) -> None:
        self.hosts = len(nics)
        self.links: list[Link] = []
        self.by_ends: dict[Hop, Link] = {}
        self.pod_of: dict[str, str | None] = {rack.id: rack.pod for rack in snapshot.racks}
        self.pod_uplinks = {pod.id: pod.uplinks for pod in snapshot.pods}
        self.names: dict[int, str] = {}
        gone = set(dead)
        self.spines = {
            rack.id: tuple(u for u in rack.spines if (rack.id, u) not in gone) for rack in snapshot.racks
        }
        self._numbers: dict[tuple[str, str | None, int], int] = {}
        fabric = snapshot.fabric
        self.uplink_gbps = fabric.nic_gbps if fabric.uplink_gbps is None else fabric.uplink_gbps
        self._pod_spines = _pod_spines(snapshot.racks)
        for host, leaf in enumerate(nics):
            self._join(host, self.leaf(leaf), fabric.nic_gbps)
        for rack in snapshot.racks:
            for rail in range(fabric.rails):
                for spine in self.spines[rack.id]:
                    ends = self.leaf((rack.id, rail)), self.spine(rack.pod, spine)
                    self._join(*ends, self.uplink_gbps)
        for pod in snapshot.pods:
            for core in range(pod.uplinks if self._pod_spines.get(pod.id) else 0):
                ends = self._spine_to(pod.id, core), self.core(core)
                self._join(*ends, self.uplink_gbps)

    @cached_property
    def ports(self) -> Mapping[int, list[Link]]:
        """Live links of each node, private ways left out."""
        ports: defaultdict[int, list[Link]] = defaultdict(list)
        for link in self.links:
            ports[link.a].append(link)
            ports[link.b].append(link)
        return ports

    def leaf(self, leaf: Leaf) -> int:
        """Node of the leaf of a rack and rail."""
        return self._number(("leaf", *leaf), f"leaf {leaf[0]}" + (f" rail {leaf[1]}" if leaf[1] else ""))

    def spine(self, pod: str | None, spine: int) -> int:
        """Node of a spine; without pods ``pod`` is None."""
        return self._number(("spine", pod, spine), f"spine {spine}" + (f" of pod {pod}" if pod else ""))

    def core(self, core: int) -> int:
        """Node of a core."""
        return self._number(("core", None, core), f"core {core}")

    @property
    def switches(self) -> list[int]:
        """All switches, ascending."""
        return list(range(self.hosts, self.hosts + len(self._numbers)))

    def crosses_core(self, source: Leaf, target: Leaf) -> bool:
        """Whether the way between two leaves leaves the pod."""
        return self.pod_of[source[0]] != self.pod_of[target[0]]

    def labels(self, source: Leaf, target: Leaf) -> tuple[int, ...]:
        """The live ways between two leaves of one rail: spines, or cores where they are in two pods."""
        own, other = self.spines[source[0]], self.spines[target[0]]
        if not self.crosses_core(source, target):
            there = set(other)
            return tuple(spine for spine in own if spine in there)
        pods = self._pod(source), self._pod(target)
        up, down = (self._pod_spines.get(pod, 0) for pod in pods)
        reach = min(self.pod_uplinks[pod] for pod in pods) if up and down else 0
        return tuple(core for core in range(reach) if core % up in own and core % down in other)

    def way(self, source: Leaf, target: Leaf, label: int | None) -> tuple[int, ...]:
        """Switches from leaf to leaf; ``label`` is one of :meth:`labels` (None within a leaf)."""
        first, last = self.leaf(source), self.leaf(target)
        if label is None:
            return (first,)
        if not self.crosses_core(source, target):
            return first, self.spine(self.pod_of[source[0]], label), last
        up, down = (self._spine_to(self._pod(leaf), label) for leaf in (source, target))
        return first, up, self.core(label), down, last

    def private_way(self, source: Leaf, target: Leaf) -> tuple[int, ...]:
        """A way as long as the others over new switches that nothing else uses, as if the fabric had more."""
        middle = 3 if self.crosses_core(source, target) else 1
        fresh = [self._number(("private", None, len(self._numbers)), "private") for _ in range(middle)]
        nodes = (self.leaf(source), *fresh, self.leaf(target))
        for a, b in pairwise(nodes):
            self.by_ends[undirected((a, b))] = Link(a, b, self.uplink_gbps)
        return nodes

    def _join(self, a: int, b: int, gbps: float) -> None:
        link = Link(a, b, gbps)
        self.links.append(link)
        self.by_ends[undirected((a, b))] = link

    def _number(self, key: tuple[str, str | None, int], name: str) -> int:
        number = self._numbers.setdefault(key, self.hosts + len(self._numbers))
        self.names.setdefault(number, name)
        return number

    def _pod(self, leaf: Leaf) -> str:
        return str(self.pod_of[leaf[0]])

    def _spine_to(self, pod: str, core: int) -> int:
        return self.spine(pod, core % self._pod_spines[pod])


def _pod_spines(racks: Iterable[Rack]) -> dict[str, int]:
    """S of each pod: 1 + the largest spine number of its racks."""
    spines: dict[str, int] = {}
    for rack in racks:
        if rack.pod is not None and rack.spines:
            spines[rack.pod] = max(spines.get(rack.pod, 0), rack.spines[-1] + 1)
    return spines
