"""The scenario document (format 1): what the packet simulator is given. See docs/validation.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from monkeytree.errors import Offence

from .errors import InvalidScenario
from .profiles import BY_NAME, DEFAULT_PROFILE, PROFILES, resolve
from .scenario_hash import Unreadable, hashed_path

FORMAT = 1
MEMBERS = ("format", "hosts", "switches", "links", "flows", "params", "routing")
FLOW_MEMBERS = ("id", "src", "dst", "bytes", "start_ns", "path", "ack_path", "after", "priority", "hashed")
MOST_NODES = 1_000_000
MOST_BYTES = 2**53


@dataclass(frozen=True, slots=True)
class PacketFlow:
    """One message. Paths hold all nodes from end to end; empty ones the simulator hashes.

    ``after`` holds positions of flows whose last byte must have arrived before this one starts.
    """

    id: int | str
    src: int
    dst: int
    size: int
    start_ns: float
    path: tuple[int, ...]
    ack_path: tuple[int, ...]
    after: tuple[int, ...]
    priority: int


@dataclass(frozen=True, slots=True)
class PacketScenario:
    """A checked scenario; links are (a, b, gbps, delay_ns), parameters are all there."""

    hosts: int
    switches: tuple[int, ...]
    links: tuple[tuple[int, int, float, float], ...]
    flows: tuple[PacketFlow, ...]
    parameters: Mapping[str, float]


def read_scenario(document: Any) -> PacketScenario:
    """Check a scenario document and read it.

    Raises:
        InvalidScenario: everything wrong with it, by JSON pointer.
    """
    return _Reader().read(document)


class _Reader:
    def __init__(self) -> None:
        self.offences: list[Offence] = []
        self.hosts = 0
        self.nodes: set[int] = set()
        self.joined: set[tuple[int, int]] = set()
        self.edges: dict[int, dict[int, None]] = {}
        self.hash_routing = False

    def read(self, document: Any) -> PacketScenario:
        if not isinstance(document, Mapping):
            raise InvalidScenario([Offence("", "must be an object", document)])
        if document.get("format") != FORMAT or isinstance(document.get("format"), bool):
            self._add("/format", f"must be {FORMAT}", document.get("format"))
        self._unknown("", document, MEMBERS)
        if document.get("routing", "given") not in ("given", "hash"):
            self._add("/routing", "must be given or hash", document["routing"])
        self.hash_routing = document.get("routing") == "hash"
        parameters = self._parameters(document.get("params", {}))
        before = len(self.offences)
        switches = self._nodes(document)
        # What stands on wrong nodes or links would be called wrong too, to no one's use.
        links = self._links(document.get("links")) if len(self.offences) == before else ()
        priority = int(parameters.get("priority", 3))
        flows = self._flows(document.get("flows"), priority) if len(self.offences) == before else ()
        if self.offences:
            raise InvalidScenario(self.offences)
        return PacketScenario(self.hosts, switches, links, flows, parameters)

    def _add(self, pointer: str, message: str, value: Any, code: str = "invalid") -> None:
        if len(self.offences) < 100:
            self.offences.append(Offence(pointer, message, _short(value), code))

    def _unknown(self, pointer: str, document: Mapping[str, Any], members: tuple[str, ...]) -> None:
        for name in document:
            if name not in members:
                known = ", ".join(members)
                self._add(f"{pointer}/{name}", f"is no member; there are {known}", name, "unsupported_member")

    def _nodes(self, document: Mapping[str, Any]) -> tuple[int, ...]:
        hosts, switches = document.get("hosts"), document.get("switches")
        if not _whole(hosts, 1, MOST_NODES):
            self._add("/hosts", f"must be an integer from 1 to {MOST_NODES}", hosts)
            hosts = 0
        self.hosts = hosts if isinstance(hosts, int) else 0
        self.nodes = set(range(self.hosts))
        if not isinstance(switches, list):
            self._add("/switches", "must be a list of ids", switches)
            return ()
        for index, switch in enumerate(switches):
            if not _whole(switch, self.hosts, 2**31 - 1) or switch in self.nodes:
                self._add(f"/switches/{index}", f"must be an id of its own, {self.hosts} or more", switch)
            else:
                self.nodes.add(switch)
        return tuple(switch for switch in switches if isinstance(switch, int))

    def _links(self, links: Any) -> tuple[tuple[int, int, float, float], ...]:
        if not isinstance(links, list):
            self._add("/links", "must be a list of [a, b, gbps, delay_ns]", links)
            return ()
        read = []
        for index, link in enumerate(links):
            pointer = f"/links/{index}"
            if not isinstance(link, list) or len(link) != 4:
                self._add(pointer, "must be [a, b, gbps, delay_ns]", link)
                continue
            a, b, gbps, delay_ns = link
            ends = [self._node(f"{pointer}/{at}", end) for at, end in enumerate((a, b))]
            if a == b:
                self._add(pointer, "must join two nodes", link)
            if not _number(gbps, 1e-3, 1e6):
                self._add(f"{pointer}/2", "must be a rate from 0.001 to 1,000,000 Gb/s", gbps)
            elif not _number(delay_ns, 0, 1e9):
                self._add(f"{pointer}/3", "must be a delay from 0 to 1e9 ns", delay_ns)
            elif all(ends):
                self.joined |= {(a, b), (b, a)}
                self.edges.setdefault(a, {})[b] = None
                self.edges.setdefault(b, {})[a] = None
                read.append((a, b, float(gbps), float(delay_ns)))
        return tuple(read)

    def _node(self, pointer: str, node: Any) -> bool:
        if not isinstance(node, int) or isinstance(node, bool) or node not in self.nodes:
            self._add(pointer, "must be a host below hosts, or one of switches", node)
            return False
        return True

    def _parameters(self, params: Any) -> dict[str, float]:
        if not isinstance(params, Mapping):
            self._add("/params", "must be an object", params)
            return {}
        before = len(self.offences)
        profile = params.get("profile", DEFAULT_PROFILE)
        if not isinstance(profile, str) or profile not in PROFILES:
            self._add("/params/profile", f"must be one of {', '.join(PROFILES)}", profile)
        for name, value in params.items():
            if name == "profile":
                continue
            known = BY_NAME.get(name)
            if known is None:
                self._add(f"/params/{name}", "is no parameter (docs/validation.md lists them)", name)
            elif not _number(value, known.least, known.most, flag=known.unit == "flag"):
                self._add(
                    f"/params/{name}", f"must be a number from {known.least:g} to {known.most:g}", value
                )
        if len(self.offences) > before:
            return {}
        values = resolve(params)
        if values["kmin_bytes"] > values["kmax_bytes"]:
            self._add("/params/kmin_bytes", "must not be above kmax_bytes", values["kmin_bytes"])
        return values

    def _flows(self, flows: Any, priority: int) -> tuple[PacketFlow, ...]:
        if not isinstance(flows, list):
            self._add("/flows", "must be a list", flows)
            return ()
        places: dict[int | str, int] = {}
        read = []
        for index, flow in enumerate(flows):
            pointer = f"/flows/{index}"
            if not isinstance(flow, Mapping):
                self._add(pointer, "must be an object", flow)
                continue
            name = flow.get("id")
            if not isinstance(name, int | str) or isinstance(name, bool) or name in places:
                self._add(f"{pointer}/id", "must be an integer or a string of its own", name)
            elif self._flow(pointer, flow, places):
                read.append(self._packet_flow(self._routed(pointer, flow), places, priority))
            if isinstance(name, int | str):
                places.setdefault(name, index)
        return tuple(read)

    def _flow(self, pointer: str, flow: Mapping[str, Any], earlier: Mapping[int | str, int]) -> bool:
        """Whether it is in order, its paths too."""
        before = len(self.offences)
        self._unknown(pointer, flow, FLOW_MEMBERS)
        src, dst = flow.get("src"), flow.get("dst")
        for name, host in (("src", src), ("dst", dst)):
            if not _whole(host, 0, self.hosts - 1):
                self._add(f"{pointer}/{name}", f"must be a host, 0 to {self.hosts - 1}", host)
        if src == dst:
            self._add(f"{pointer}/dst", "must differ from src", dst)
        if not _whole(flow.get("bytes"), 1, MOST_BYTES):
            self._add(f"{pointer}/bytes", "must be an integer of 1 or more", flow.get("bytes"))
        if not _number(flow.get("start_ns", 0), 0, 1e15):
            self._add(f"{pointer}/start_ns", "must be 0 or more", flow.get("start_ns"))
        if not _whole(flow.get("priority", 3), 1, 7):
            self._add(f"{pointer}/priority", "must be a class from 1 to 7", flow.get("priority"))
        after = flow.get("after", [])
        if not isinstance(after, list) or not all(isinstance(a, int | str) and a in earlier for a in after):
            self._add(f"{pointer}/after", "must be a list of ids of flows listed before this one", after)
        if len(self.offences) == before:
            self._path(f"{pointer}/path", flow.get("path"), src, dst)
            self._path(f"{pointer}/ack_path", flow.get("ack_path"), dst, src)
        return len(self.offences) == before

    def _routed(self, pointer: str, flow: Mapping[str, Any]) -> Mapping[str, Any]:
        """The flow with the path that its hashes lead to, where it is hashed so."""
        if "hashed" not in flow:
            return flow
        if not self.hash_routing:
            self._add(f"{pointer}/hashed", "needs routing to be hash", None)
            return flow
        try:
            path = hashed_path(flow["hashed"], flow["src"], flow["dst"], self.hosts, self.edges)
        except Unreadable as error:
            for below, message, value in error.refused:
                self._add(f"{pointer}/hashed{below}", message, value)
            return flow
        if flow.get("path") and tuple(flow["path"]) != path:
            self._add(f"{pointer}/path", f"is not where the hashes lead: {list(path)}", flow["path"])
        return {**flow, "path": path}

    def _path(self, pointer: str, path: Any, src: Any, dst: Any) -> None:
        if path is None:
            return
        if not isinstance(path, list) or not 2 <= len(path) <= 200 or path[0] != src or path[-1] != dst:
            self._add(pointer, f"must be null or the nodes from host {src} to host {dst}", path)
            return
        for at, (a, b) in enumerate(pairwise(path)):
            if not all(isinstance(end, int) for end in (a, b)) or (a, b) not in self.joined:
                self._add(f"{pointer}/{at + 1}", f"is not linked to node {a}", b)
            elif at and a < self.hosts:
                self._add(f"{pointer}/{at}", "is a host, which does not forward", a)

    @staticmethod
    def _packet_flow(flow: Mapping[str, Any], places: Mapping[int | str, int], priority: int) -> PacketFlow:
        return PacketFlow(
            id=flow["id"],
            src=flow["src"],
            dst=flow["dst"],
            size=flow["bytes"],
            start_ns=float(flow.get("start_ns", 0)),
            path=tuple(flow.get("path") or ()),
            ack_path=tuple(flow.get("ack_path") or ()),
            after=tuple(places[name] for name in flow.get("after", ())),
            priority=flow.get("priority", priority),
        )


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _number(value: Any, least: float, most: float, flag: bool = False) -> bool:
    if isinstance(value, bool):
        return flag
    return isinstance(value, int | float) and least <= value <= most


def _short(value: Any) -> Any:
    text = repr(value)
    return value if len(text) <= 200 else text[:200] + "..."
