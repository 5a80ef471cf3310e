"""One stage that chooses: from a packet's fields to the position of an uplink among equal ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import ip_address

from monkeytree.fabric_hash import HashStage

from .functions import FUNCTIONS, RSS_KEY, WIDTHS, toeplitz
from .label import FIRST_PORT, LAST_PORT, label_of_port

ROCE_PORT = 4791
"""UDP destination port of RoCEv2 (IANA)."""
UDP = 17


@dataclass(frozen=True, slots=True)
class Packet:
    """What switches may hash of a RoCEv2 packet.

    ``dst_qp`` is the destination queue pair of its BTH, None where it is not known; ``flow_label`` that of
    its IPv6 header, None for the one that gives the source port (:mod:`.label`).
    """

    src: str
    dst: str
    sport: int
    dport: int = ROCE_PORT
    protocol: int = UDP
    dst_qp: int | None = None
    flow_label: int | None = None


class QueuePairUnknown(ValueError):
    """The hash covers the destination queue pair, and the packet does not say which."""


def hash_value(stage: HashStage, packet: Packet) -> int:
    """The hash of ``packet`` at ``stage``, ``width(stage)`` bits, rotated by its offset.

    Raises:
        QueuePairUnknown: it covers ``dst_qp``, which is None.
    """
    return rotate(stage, raw_hash(stage, message(stage, packet)))


def choose(stage: HashStage, value: int, uplinks: int) -> int:
    """The position, 0 to ``uplinks`` - 1, that a hash ``value`` selects."""
    if stage.select == "high":
        return value * uplinks >> WIDTHS[stage.algorithm]
    return value % uplinks


def width(stage: HashStage) -> int:
    """Bits of the stage's hash."""
    return WIDTHS[stage.algorithm]


def is_affine(stage: HashStage) -> bool:
    """Whether its hash is affine over GF(2)."""
    return stage.algorithm != "murmur3"


def seeded(stage: HashStage, seed: int | None) -> HashStage:
    """The stage as a switch with a seed of its own has it."""
    return stage if seed is None or seed == stage.seed else replace(stage, seed=seed)


def raw_hash(stage: HashStage, data: bytes) -> int:
    """The hash of a message, before rotation."""
    if stage.algorithm == "toeplitz":
        key = RSS_KEY if stage.key is None else bytes.fromhex(stage.key)
        return toeplitz(data, stage.seed, key)
    return FUNCTIONS[stage.algorithm](data, stage.seed)


def rotate(stage: HashStage, value: int) -> int:
    """``value`` rotated right by the stage's offset."""
    bits = WIDTHS[stage.algorithm]
    by = stage.offset % bits
    return (value >> by | value << (bits - by)) & ((1 << bits) - 1) if by else value


def message(stage: HashStage, packet: Packet) -> bytes:
    """The bytes that are hashed."""
    little = stage.algorithm == "murmur3"
    parts = []
    for name in stage.fields:
        if name in ("src", "dst"):
            part = packed(packet.src if name == "src" else packet.dst)
        elif name == "dst_qp":
            if packet.dst_qp is None:
                raise QueuePairUnknown("the hash covers the destination queue pair, which is not known")
            part = packet.dst_qp.to_bytes(3)
        elif name == "flow_label":
            part = _flow_label(packet).to_bytes(3)
        elif name == "protocol":
            part = bytes((packet.protocol,))
        else:
            part = (packet.sport if name == "sport" else packet.dport).to_bytes(2)
        parts.append(part[::-1] if little else part)
    return b"".join(parts)


def _flow_label(packet: Packet) -> int:
    if packet.flow_label is not None:
        return packet.flow_label
    return label_of_port(packet.sport) if FIRST_PORT <= packet.sport <= LAST_PORT else 0


@lru_cache(maxsize=1 << 18)
def packed(address: str) -> bytes:
    """The 4 or 16 bytes of an IP address."""
    return ip_address(address).packed
