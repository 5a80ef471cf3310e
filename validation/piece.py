"""A piece of a network with the flows on it, numbered by first use: what one simulation runs.

Two pieces of the same shape get the same numbers, so that equal work is recognised. All ports of every
switch on a flow's way are kept, idle ones as stubs to hosts that stay silent: the number of ports and
their rates decide how a switch shares its buffer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from monkeytree.fabric_hash import dump_stage

from .hashing import Choice, Hashed
from .network import Hop, Link, Network, undirected
from .traffic import Traffic

Document = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """Flows that must be simulated together.

    Attributes:
        members: indices of the flows in their traffic.
        nodes: the node of the network for each node of the piece; None for a stub. Hosts come first.
        hosts: how many are hosts, stubs included.
        links: as [a, b, gbps, delay_ns], in the piece's numbers.
        flows: as in the scenario document, in the piece's numbers: all of ``members``, step by step.
    """

    members: tuple[int, ...]
    nodes: tuple[int | None, ...]
    hosts: int
    links: tuple[tuple[int, int, float, float], ...]
    flows: tuple[Document, ...] = field(repr=False)

    @cached_property
    def shape(self) -> str:
        """Equal for pieces that are the same up to the numbers of the network."""
        flows = [(flow["bytes"], flow["path"], flow["after"]) for flow in self.flows]
        return repr((self.hosts, len(self.nodes), self.links, flows))

    @cached_property
    def work(self) -> int:
        """Bytes x hops: what simulating it costs, roughly."""
        return sum(flow["bytes"] * (len(flow["path"]) - 1) for flow in self.flows)

    @property
    def switches(self) -> Iterable[int]:
        """The switches of the network it uses."""
        return (node for node in self.nodes[self.hosts :] if node is not None)


def cut_piece(traffic: Traffic, members: Sequence[int]) -> Piece:
    """The piece of ``traffic`` with the flows at these indices, all of which have a path."""
    network, flows = traffic.network, [traffic.flows[index] for index in members]
    hosts = list(dict.fromkeys(host for flow in flows for host in (flow.src, flow.dst)))
    switches = list(dict.fromkeys(node for flow in flows for node in flow.path[1:-1]))
    used = dict.fromkeys(undirected(hop) for flow in flows for hop in flow.hops)
    stubs = [(switch, link) for switch in switches for link in _idle_ports(network, switch, used)]
    first_switch = len(hosts) + len(stubs)
    number = {host: index for index, host in enumerate(hosts)}
    number |= {switch: first_switch + index for index, switch in enumerate(switches)}
    idle = {
        (switch, link.b if link.a == switch else link.a): at
        for at, (switch, link) in enumerate(stubs, len(hosts))
    }
    rates = network.by_ends
    links = [(number[a], number[b], rates[a, b].gbps, rates[a, b].delay_ns) for a, b in used]
    links += [
        (len(hosts) + index, number[switch], link.gbps, link.delay_ns)
        for index, (switch, link) in enumerate(stubs)
    ]
    return Piece(
        members=tuple(members),
        nodes=(*hosts, *[None] * len(stubs), *switches),
        hosts=first_switch,
        links=tuple(links),
        flows=tuple(_steps(traffic, members, number, idle)),
    )


def _steps(
    traffic: Traffic, members: Sequence[int], number: Mapping[int, int], idle: Mapping[Hop, int]
) -> Iterator[Document]:
    feeders = traffic.feeders(members)
    for step in range(traffic.steps):
        before = (step - 1) * len(members)
        for at, index in enumerate(members):
            flow = traffic.flows[index]
            path = [number[node] for node in flow.path]
            earlier = [at, feeders[at]] if step else []
            yield {
                "id": step * len(members) + at,
                "src": path[0],
                "dst": path[-1],
                "bytes": -(-flow.size // traffic.steps),
                "start_ns": 0,
                "path": path,
                "ack_path": None,
                "after": sorted({before + other for other in earlier if other is not None}),
                **({"hashed": _hashed(flow.hashed, number, idle)} if flow.hashed is not None else {}),
            }


def _hashed(hashed: Hashed, number: Mapping[int, int], idle: Mapping[Hop, int]) -> Document:
    """The packet and the switches that choose, in the piece's numbers; an idle way leads to a stub."""
    return {
        "src": hashed.packet.src,
        "dst": hashed.packet.dst,
        "udp_source_port": hashed.packet.sport,
        **({} if hashed.packet.flow_label is None else {"flow_label": hashed.packet.flow_label}),
        "choices": [
            {
                "at": number[choice.at],
                "among": [
                    idle[choice.at, node] if (choice.at, node) in idle else number[node]
                    for node in choice.among
                ],
                **_how(choice, number),
            }
            for choice in hashed.choices
        ],
    }


def _how(choice: Choice, number: Mapping[int, int]) -> Document:
    if choice.stage is not None:
        return {"hash": dump_stage(choice.stage)}
    assert choice.learned is not None, "neither a hash nor what a table says"
    return {"learned": number[choice.learned]}


def _idle_ports(network: Network, switch: int, used: Mapping[Hop, None]) -> list[Link]:
    idle = [link for link in network.ports[switch] if undirected((link.a, link.b)) not in used]
    return sorted(idle, key=lambda link: (link.gbps, link.delay_ns))


def combine(pieces: Sequence[Piece], params: Mapping[str, Any]) -> Document:
    """One scenario (format 1) of pieces side by side, with no link between them."""
    hosts = sum(piece.hosts for piece in pieces)
    links: list[list[float]] = []
    flows: list[Document] = []
    for piece, number in zip(pieces, _numbers(pieces), strict=True):
        links += [[number[a], number[b], gbps, delay_ns] for a, b, gbps, delay_ns in piece.links]
        first = len(flows)
        for flow in piece.flows:
            path = [number[node] for node in flow["path"]]
            row = {**flow, "id": len(flows), "src": path[0], "dst": path[-1], "path": path}
            if "hashed" in flow:
                row["hashed"] = _renumbered(flow["hashed"], number)
            flows.append({**row, "after": [first + earlier for earlier in flow["after"]]})
    switches = list(range(hosts, sum(len(piece.nodes) for piece in pieces)))
    routing = {"routing": "hash"} if any("hashed" in flow for flow in flows) else {}
    return {
        **routing, "format": 1, "hosts": hosts, "switches": switches, "links": links, "flows": flows,
        "params": dict(params),
    }  # fmt: skip


def _renumbered(hashed: Document, number: Sequence[int]) -> Document:
    choices = [
        {
            **choice,
            "at": number[choice["at"]],
            "among": [number[node] for node in choice["among"]],
            **({"learned": number[choice["learned"]]} if "learned" in choice else {}),
        }
        for choice in hashed["choices"]
    ]
    return {**hashed, "choices": choices}


@dataclass(frozen=True)
class PieceResult:
    """What came out for one piece, in its numbers.

    Attributes:
        flows: one row a member: ``fct_ns`` (to the end of its last step), ``retransmits``, ``cnps``.
        ports: rows of the result document.
        samples: of ports, where asked for: bytes sent so far and bytes queued, interval by interval.
    """

    flows: tuple[Document, ...]
    ports: Mapping[Hop, Document]
    drops: int
    finished: bool
    samples: Mapping[Hop, tuple[list[int], list[int]]] = field(default_factory=dict)


def take_apart(pieces: Sequence[Piece], result: Document) -> list[PieceResult]:
    """The result of :func:`combine`'s scenario by piece; drops and ``finished`` are those of the whole."""
    rows = sorted(result["flows"], key=lambda row: int(row["id"]))
    at: dict[int, tuple[int, int]] = {}
    for index, number in enumerate(_numbers(pieces)):
        at |= {whole: (index, own) for own, whole in enumerate(number)}
    ports: defaultdict[int, dict[Hop, Document]] = defaultdict(dict)
    for port in result["ports"]:
        index, node = at[port["node"]]
        ports[index][node, at[port["peer"]][1]] = port
    samples: defaultdict[int, dict[Hop, tuple[list[int], list[int]]]] = defaultdict(dict)
    for series in result.get("samples", {}).get("ports", ()):
        index, node = at[series["node"]]
        samples[index][node, at[series["peer"]][1]] = series["sent_bytes"], series["queue_bytes"]
    totals, results = result["totals"], []
    start = 0
    for index, piece in enumerate(pieces):
        mine = _over_steps(rows[start : start + len(piece.flows)], len(piece.members))
        start += len(piece.flows)
        ended = bool(totals["finished"])
        results.append(PieceResult(mine, ports[index], int(totals["drops"]), ended, samples[index]))
    return results


def _over_steps(rows: Sequence[Document], members: int) -> tuple[Document, ...]:
    """One row a member out of one a member and step."""
    whole = []
    for at in range(members):
        steps = rows[at::members]
        last = steps[-1]
        ended = last["fct_ns"] is not None
        whole.append(
            {
                "fct_ns": last["fct_ns"] + (last.get("start_ns") or 0) if ended else None,
                "retransmits": sum(row["retransmits"] for row in steps),
                "cnps": sum(row["cnps"] for row in steps),
            }
        )
    return tuple(whole)


def _numbers(pieces: Sequence[Piece]) -> list[list[int]]:
    """For each piece the number each of its nodes has in the whole."""
    hosts, switches = 0, sum(piece.hosts for piece in pieces)
    numbers = []
    for piece in pieces:
        others = len(piece.nodes) - piece.hosts
        numbers.append([*range(hosts, hosts + piece.hosts), *range(switches, switches + others)])
        hosts += piece.hosts
        switches += others
    return numbers
