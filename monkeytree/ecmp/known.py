"""What a learned table knows of a packet: the uplink that a source port takes, listed or not.

A listed port was seen to lead there, or was computed by a fit that held. Where the table says that a pair's
hash is affine, the ports listed determine it again (:mod:`monkeytree.ecmp.learn` lists enough of them), and
with it the way of every other port. Anything else is not known, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence

from monkeytree.fabric_hash import LearnedPair, LearnedTable

from .affine import AffineFit
from .label import FIRST_PORT, LAST_PORT, PORTS

PORT_BITS = PORTS.bit_length() - 1
BASIS = (3, *(1 << bit for bit in range(PORT_BITS)))
"""Numbers of ports above the first that determine an affine function of the port, whatever it is."""


class KnownWays:
    """The ways of packets under one table; its epoch is the caller's to compare."""

    def __init__(self, table: LearnedTable) -> None:
        self._rows = {(pair.src, pair.dst): pair for pair in table.pairs}
        self._ports: dict[tuple[str, str], dict[int, int]] = {}
        self._fits: dict[tuple[str, str], AffineFit | None] = {}

    def uplink(self, src: str, dst: str, port: int, uplinks: Sequence[int]) -> int | None:
        """The uplink (spine, or core) that the pair's packets from ``port`` take; None where not known.

        Args:
            uplinks: those the pair can take, ascending, as when it was learned.
        """
        row = self._rows.get((src, dst))
        if row is None:
            return None
        if (src, dst) not in self._ports:
            self._ports[src, dst] = {one: uplink for uplink, ports in row.ports.items() for one in ports}
            self._fits[src, dst] = _fit(row, uplinks)
        listed = self._ports[src, dst].get(port)
        if listed is not None:
            return listed if listed in uplinks else None
        fit = self._fits[src, dst]
        if fit is None or not first_fitted((src, dst)) <= port <= LAST_PORT:
            return None
        position = fit.predict(port - FIRST_PORT)
        return uplinks[position] if position is not None and position < len(uplinks) else None


def first_fitted(pair: tuple[str, str]) -> int:
    """The first port that fits of a pair speak of: over IPv6 not 49152, whose flow label is out of line."""
    return FIRST_PORT + (":" in pair[0])


def _fit(row: LearnedPair, uplinks: Sequence[int]) -> AffineFit | None:
    """The affine function of the port that the table was made from, so far as its ports determine it."""
    number = {uplink: position for position, uplink in enumerate(uplinks)}
    if row.method != "affine" or len(uplinks) & (len(uplinks) - 1) or not row.ports.keys() <= number.keys():
        return None
    made = AffineFit(PORT_BITS)
    first = first_fitted((row.src, row.dst))
    samples = (
        (port - FIRST_PORT, number[up]) for up, ports in row.ports.items() for port in ports if port >= first
    )
    return made if all(made.add(offset, position) for offset, position in samples) else None
