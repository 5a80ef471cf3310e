"""Which flows must be simulated together, and whether apart was good enough.

Flows that share no direction of a link, counting the ways of their ACKs, feel each other only through
the shared buffers of common switches. They are simulated apart; afterwards the peaks of all parts on
each common switch are summed, and where the sum could have led to a pause or a mark, those parts are
simulated together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monkeytree.flowmodel import link_components

from .network import Hop, Network, undirected
from .piece import Piece, PieceResult
from .traffic import Traffic

FRAME_BYTES = 4_200
"""Longest frame: what may arrive on top of a peak before a switch looks at its thresholds."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """The thresholds of a switch, as the simulator has them (names of :mod:`.profiles`).

    Attributes:
        buffer_bytes: packet memory of a switch.
        reserve_bytes: set aside for each port.
        alpha: a port pauses its peer above alpha x (shared pool - shared bytes in use).
        headroom_bdp: headroom of a port in rate x one-way delay of its link.
        headroom_extra_bytes: on top of that.
        kmin_bytes: an egress queue is marked above so much per 100 Gb/s of its link; None: never.
    """

    buffer_bytes: float
    reserve_bytes: float
    alpha: float
    headroom_bdp: float
    headroom_extra_bytes: float
    kmin_bytes: float | None

    @staticmethod
    def of(values: Mapping[str, float]) -> Buffers:
        """Those of a resolved set of parameters."""
        return Buffers(
            values["buffer_bytes"], values["reserve_bytes"], values["alpha"], values["headroom_bdp"],
            values["headroom_extra_bytes"], values["kmin_bytes"] if values["ecn"] else None,
        )  # fmt: skip

    def pool(self, network: Network, switch: int) -> float:
        """Bytes that all ports of ``switch`` share."""
        taken = sum(
            self.headroom_bdp * link.gbps * link.delay_ns / 8 + self.headroom_extra_bytes + self.reserve_bytes
            for link in network.ports[switch]
        )
        return self.buffer_bytes - taken

    def marks_above(self, gbps: float) -> float:
        """Bytes in an egress queue above which frames may be marked."""
        return float("inf") if self.kmin_bytes is None else self.kmin_bytes * gbps / 100


def components(traffic: Traffic) -> list[list[int]]:
    """Indices of the flows that share links, directly or through others; those without a way left out."""
    routed = [index for index, flow in enumerate(traffic.flows) if flow.path]
    links = [_both_ways(traffic.flows[index].hops) for index in routed]
    return [[routed[at] for at in members] for members in link_components(links)]


def _both_ways(hops: Iterable[Hop]) -> list[Hop]:
    """Links of the data and, turned round, of the ACKs."""
    return [way for a, b in hops for way in ((a, b), (b, a))]


def is_calm(rates: Mapping[Hop, float], result: PieceResult, buffers: Buffers) -> bool:
    """Whether nothing in ``result`` depended on a draw: no queue came near being marked or paused.

    Args:
        rates: Gb/s of each link of the piece, by its ends in ascending order.
    """
    if result.drops or not result.finished:
        return False
    return all(
        not port["ecn_marks"]
        and not port["pauses_sent"]
        and port["max_queue_bytes"] <= buffers.marks_above(rates[undirected(ends)])
        for ends, port in result.ports.items()
    )


def coupled(
    network: Network, parts: Sequence[tuple[Piece, PieceResult]], buffers: Buffers
) -> list[list[int]]:
    """Which parts (indices) must be simulated together after all; parts that need not are left out."""
    on: defaultdict[int, list[int]] = defaultdict(list)
    for index, (piece, _) in enumerate(parts):
        for switch in piece.switches:
            on[switch].append(index)
    joined = [
        members
        for switch, members in on.items()
        if len(members) > 1 and _feel_each_other(network, switch, [parts[i] for i in members], buffers)
    ]
    return [
        sorted({index for at in together for index in joined[at]}) for together in link_components(joined)
    ]


def _feel_each_other(
    network: Network, switch: int, parts: Sequence[tuple[Piece, PieceResult]], buffers: Buffers
) -> bool:
    """Whether the parts, had they met in ``switch`` at their peaks, could have changed anything."""
    peaks = [peak for piece, result in parts for peak in _ingress_peaks(piece, result, switch)]
    if any(port["pauses_sent"] for piece, result in parts for port in _ports_at(piece, result, switch)):
        return True
    free = buffers.pool(network, switch) - sum(peaks)
    return max(peaks, default=0.0) + FRAME_BYTES >= buffers.alpha * free


def _ports_at(piece: Piece, result: PieceResult, switch: int) -> list[dict[str, Any]]:
    number = piece.nodes.index(switch, piece.hosts)
    return [port for ends, port in result.ports.items() if ends[0] == number]


def _ingress_peaks(piece: Piece, result: PieceResult, switch: int) -> list[float]:
    return [float(port["max_ingress_bytes"]) for port in _ports_at(piece, result, switch)]
