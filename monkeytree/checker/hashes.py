"""The checker's own hashes of switches (docs/steering.md), from their definitions alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

_CRCS = {  # width, polynomial, start, end, reflected
    "crc16_ccitt": (16, 0x1021, 0xFFFF, 0, False),
    "crc16_arc": (16, 0x8005, 0, 0, True),
    "crc32": (32, 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, True),
}
_FOLDED = {"crc16_xor1": 1, "crc16_xor2": 2, "crc16_xor4": 4, "crc16_xor8": 8}
_OTHERS = ("crc32_lo", "crc32_hi", "xor16", "toeplitz", "murmur3")
_LONG = ("crc32", "toeplitz", "murmur3")
_FIELDS = ("src", "dst", "protocol", "sport", "dport", "flow_label", "dst_qp")
_RSS = "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa"
ROCE_PORT = 4791


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of switches that choose by a hash."""

    algorithm: str
    fields: tuple[str, ...]
    seed: int
    offset: int
    high: bool
    key: bytes

    @property
    def width(self) -> int:
        """Bits of its hash."""
        return 32 if self.algorithm in _LONG else 16

    @property
    def affine(self) -> bool:
        """Whether flipping the same bits of the port always flips the same bits of the hash."""
        return self.algorithm != "murmur3"

    def position(self, value: int, count: int) -> int:
        """Which of ``count`` uplinks a hash selects."""
        return (value * count) >> self.width if self.high else value % count

    def value(self, src: str, dst: str, port: int, seed: int, label: int | None = None) -> int:
        """The hash of a RoCEv2 packet, rotated right by the offset.

        ``label``: of its IPv6 header; None for the least that gives ``port``, which is what is applied.

        Raises:
            ValueError: it covers the queue pair, which no plan knows.
        """
        if label is None:
            label = least_label(port)
        value = self._hash(self._message(src, dst, port, label), seed)
        for _ in range(self.offset % self.width):
            value = value >> 1 | (value & 1) << (self.width - 1)
        return value

    def _message(self, src: str, dst: str, port: int, label: int) -> bytes:
        known = {
            "src": _bytes_of(src), "dst": _bytes_of(dst), "protocol": b"\x11",
            "sport": port.to_bytes(2, "big"), "dport": ROCE_PORT.to_bytes(2, "big"),
            "flow_label": label.to_bytes(3, "big"),
        }  # fmt: skip
        if "dst_qp" in self.fields:
            raise ValueError("the hash covers the queue pair")
        turn = -1 if self.algorithm == "murmur3" else 1
        return b"".join(known[name][::turn] for name in self.fields)

    def _hash(self, data: bytes, seed: int) -> int:
        name = self.algorithm
        if name in _CRCS:
            return _crc(name, data, seed)
        if name in _FOLDED:
            bits = _FOLDED[name]
            return _crc("crc16_arc", data, seed) >> bits << bits | _folded(data, bits)
        if name == "crc32_lo":
            return _crc("crc32", data, seed) % 2**16
        if name == "crc32_hi":
            return _crc("crc32", data, seed) // 2**16
        if name == "xor16":
            return _folded(data, 16) ^ seed % 2**16
        return _toeplitz(data, self.key) ^ seed if name == "toeplitz" else _murmur(data, seed)


@dataclass(frozen=True, slots=True)
class Table:
    """A learned table: ports by (source, destination) and uplink."""

    epoch: str
    ports: Mapping[tuple[str, str], Mapping[int, frozenset[int]]]


@dataclass(frozen=True, slots=True)
class Hashing:
    """``fabric.hash``: stages with the seeds of single switches, or a table."""

    leaf: Stage | None
    pod: Stage | None
    leaf_seeds: Mapping[str, int]
    pod_seeds: Mapping[str, int]
    table: Table | None


def read_hashing(document: Mapping[str, Any] | None) -> Hashing | None:
    """``fabric.hash`` of a snapshot document.

    Raises:
        ValueError, KeyError, TypeError: it is none.
    """
    if document is None:
        return None
    leaf, pod = (_read_stage(document[n]) if document.get(n) else None for n in ("leaf", "pod"))
    table = _read_table(document["learned"]) if document.get("learned") else None
    if (leaf is None) == (table is None):
        raise ValueError("fabric.hash has either leaf or learned")
    seeds = [{str(k): int(v) for k, v in document.get(n, {}).items()} for n in ("leaf_seeds", "pod_seeds")]
    return Hashing(leaf, pod or leaf, seeds[0], seeds[1], table)


def _read_stage(row: Mapping[str, Any]) -> Stage:
    name, fields = row["algorithm"], tuple(row.get("fields", _FIELDS[:5]))
    if name not in (*_CRCS, *_FOLDED, *_OTHERS) or not fields or not set(fields) <= set(_FIELDS):
        raise ValueError(f"hash {name!r} over {fields!r} is not known")
    if row.get("select", "modulo") not in ("modulo", "high"):
        raise ValueError(f"select is {row['select']!r}")
    key = bytes.fromhex(row.get("key") or _RSS)
    return Stage(
        name, fields, int(row.get("seed", 0)), int(row.get("offset", 0)), row.get("select") == "high", key
    )


def _read_table(row: Mapping[str, Any]) -> Table:
    pairs = {
        (pair["src"], pair["dst"]): {int(up): frozenset(ports) for up, ports in pair["ports"].items()}
        for pair in row["pairs"]
    }
    return Table(str(row["epoch"]), pairs)


def least_label(port: int) -> int:
    """The least flow label, not 0, that the kernel makes ``port`` of."""
    return port % 2**14 or 2**14 + 1


@lru_cache(maxsize=1 << 18)
def _bytes_of(address: str) -> bytes:
    return ip_address(address).packed


def _crc(name: str, data: bytes, seed: int) -> int:
    """The CRC by long division, eight bits at a time."""
    width, _, start, end, reflected = _CRCS[name]
    mask = 2**width - 1
    value = (start ^ seed) & mask
    table = _crc_table(name)
    for byte in data:
        if reflected:
            value = value >> 8 ^ table[(value ^ byte) & 0xFF]
        else:
            value = value << 8 & mask ^ table[value >> (width - 8) ^ byte]
    return int(value ^ end)


@lru_cache(maxsize=8)
def _crc_table(name: str) -> tuple[int, ...]:
    width, polynomial, _, _, reflected = _CRCS[name]
    if reflected:
        polynomial = int(f"{polynomial:0{width}b}"[::-1], 2)
    table = []
    for byte in range(256):
        rest = byte if reflected else byte << (width - 8)
        for _ in range(8):
            if reflected:
                rest = rest >> 1 ^ (polynomial if rest & 1 else 0)
            else:
                rest = rest << 1 ^ (polynomial if rest >> (width - 1) & 1 else 0)
        table.append(rest & (2**width - 1))
    return tuple(table)


def _folded(data: bytes, bits: int) -> int:
    """XOR of all pieces of ``bits`` bits."""
    size = len(data) * 8
    whole = int.from_bytes(data, "big") << -size % bits
    value = 0
    while whole:
        value ^= whole % 2**bits
        whole >>= bits
    return value


def _toeplitz(data: bytes, key: bytes) -> int:
    """XOR of the 32 bits of the key under each bit of ``data`` that is set; the key repeats."""
    bits = "".join(f"{byte:08b}" for byte in key)
    bits *= (len(data) * 8 + 32) // len(bits) + 1
    value = 0
    for at, bit in enumerate("".join(f"{byte:08b}" for byte in data)):
        if bit == "1":
            value ^= int(bits[at : at + 32], 2)
    return value


def _murmur(data: bytes, seed: int) -> int:
    """MurmurHash3, x86, 32 bits."""
    words = 2**32
    h = seed % words
    for at in range(0, len(data), 4):
        piece = data[at : at + 4]
        k = sum(byte << 8 * n for n, byte in enumerate(piece)) * 0xCC9E2D51 % words
        k = (k * 2**15 % words | k >> 17) * 0x1B873593 % words
        h ^= k
        if len(piece) == 4:
            h = (h * 2**13 % words | h >> 19) * 5 + 0xE6546B64
            h %= words
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B % words
    h = (h ^ h >> 13) * 0xC2B2AE35 % words
    return int(h ^ h >> 16)
