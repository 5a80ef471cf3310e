"""The ways each flow may take, and the uplinks (resources) that each way loads.

A *node* is one direction of a leaf or of a pod; a *resource* is one uplink of a node. The label of
a flow is its spine or, when it leaves its pod, its core. Resources are numbered
``node * stride + uplink``, so that they need no table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .model import Direction, Hop, Leaf, Topology

NO_MODULUS = 1 << 62
Place = Leaf | str
"""A leaf, or the id of a pod."""


@dataclass(frozen=True, slots=True)
class Route:
    """One flow: its admissible labels, ascending, and for each node it loads (node, modulus).

    Label c loads uplink ``c % modulus`` of the node: that is how core c fixes the spine.
    """

    labels: tuple[int, ...]
    terms: tuple[tuple[int, int], ...]
    seed: int | None
    crosses_core: bool = False


@dataclass
class Routes:
    """All flows of one call.

    Attributes:
        live: live uplinks of each node.
        degree: flows that load each node.
        stride: larger than any uplink number.
    """

    flows_per_uplink: int
    stride: int
    flows: list[Route] = field(default_factory=list)
    places: list[tuple[Place, Direction]] = field(default_factory=list)
    live: list[tuple[int, ...] | range] = field(default_factory=list)
    degree: list[int] = field(default_factory=list)

    def resources(self, flow: int, label: int) -> list[int]:
        """Resources that ``flow`` loads when it takes ``label``."""
        stride = self.stride
        return [node * stride + label % modulus for node, modulus in self.flows[flow].terms]

    def fold(self, node: int) -> int:
        """ceil(degree / live uplinks): the least that the fullest uplink of ``node`` can carry."""
        return -(-self.degree[node] // len(self.live[node]))


def find_routes(topology: Topology, hops: Sequence[Hop]) -> Routes:
    """The admissible ways of each flow; flows with none get no labels and load nothing."""
    return _Finder(topology).find(hops)


class _Finder:
    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.spines = {leaf: tuple(sorted(set(spines))) for leaf, spines in topology.spines.items()}
        widest = max((spines[-1] + 1 for spines in self.spines.values() if spines), default=1)
        stride = max([widest, *topology.pod_uplinks.values()])
        self.routes = Routes(topology.flows_per_uplink, stride)
        self.nodes: dict[tuple[Place, Direction], int] = {}
        self.cores: dict[tuple[Leaf, Leaf], tuple[int, ...]] = {}
        self.common: dict[tuple[Leaf, Leaf], tuple[int, ...]] = {}

    def find(self, hops: Sequence[Hop]) -> Routes:
        for hop in hops:
            route = self._route(hop)
            for node, _ in route.terms:
                self.routes.degree[node] += 1
            self.routes.flows.append(route)
        return self.routes

    def _route(self, hop: Hop) -> Route:
        own, other = self._live(hop.source), self._live(hop.target)
        source_pod = self.topology.pod_of.get(hop.source[0])
        target_pod = self.topology.pod_of.get(hop.target[0])
        if source_pod == target_pod:
            labels = own if own == other else self._common(hop.source, hop.target)
            if not labels:
                return Route((), (), None)
            ends = (self._node(hop.source, "up", own), self._node(hop.target, "down", other))
            return Route(labels, tuple((node, NO_MODULUS) for node in ends), hop.seed)
        cores = self._cores(hop, source_pod, target_pod)
        if cores and source_pod is not None and target_pod is not None:
            return self._core_route(hop, cores, source_pod, target_pod)
        if not own:
            return Route((), (), None)
        return Route(own, ((self._node(hop.source, "up", own), NO_MODULUS),), hop.seed)

    def _common(self, source: Leaf, target: Leaf) -> tuple[int, ...]:
        """Live spines of both leaves; kept, since many flows join the same two."""
        if (source, target) not in self.common:
            there = set(self._live(target))
            self.common[source, target] = tuple(u for u in self._live(source) if u in there)
        return self.common[source, target]

    def _core_route(self, hop: Hop, cores: tuple[int, ...], source_pod: str, target_pod: str) -> Route:
        spines, uplinks = self.topology.pod_spines, self.topology.pod_uplinks
        terms = (
            (self._node(hop.source, "up", self._live(hop.source)), spines[source_pod]),
            (self._node(source_pod, "up", range(uplinks[source_pod])), NO_MODULUS),
            (self._node(target_pod, "down", range(uplinks[target_pod])), NO_MODULUS),
            (self._node(hop.target, "down", self._live(hop.target)), spines[target_pod]),
        )
        return Route(cores, terms, hop.pod_seed, crosses_core=True)

    def _cores(self, hop: Hop, source_pod: str | None, target_pod: str | None) -> tuple[int, ...]:
        """Cores that both pods reach from spines live at the two leaves."""
        if source_pod is None or target_pod is None:
            return ()
        pair = (hop.source, hop.target)
        if pair not in self.cores:
            spines, uplinks = self.topology.pod_spines, self.topology.pod_uplinks
            up, down = spines.get(source_pod, 0), spines.get(target_pod, 0)
            reach = min(uplinks.get(source_pod, 0), uplinks.get(target_pod, 0)) if up and down else 0
            own, other = set(self._live(hop.source)), set(self._live(hop.target))
            self.cores[pair] = tuple(c for c in range(reach) if c % up in own and c % down in other)
        return self.cores[pair]

    def _live(self, leaf: Leaf) -> tuple[int, ...]:
        return self.spines.get(leaf, ())

    def _node(self, place: Place, direction: Direction, live: tuple[int, ...] | range) -> int:
        node = self.nodes.setdefault((place, direction), len(self.nodes))
        if node == len(self.routes.live):
            self.routes.places.append((place, direction))
            self.routes.live.append(live)
            self.routes.degree.append(0)
        return node
