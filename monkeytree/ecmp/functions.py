"""The hash functions themselves, over the bytes of a packet's fields.

All but ``murmur3`` are affine over GF(2): f(x ^ y) = f(x) ^ f(y) ^ f(0) for messages of one length. What
is public about switches is which family they offer, not their exact bits (SONiC's generic hash, Dell's
manuals for RTAG7); the forms here are the textbook ones, and where they do not fit, a table is learned.
"""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Callable
from functools import lru_cache

WIDTHS = {
    "crc16_ccitt": 16,
    "crc16_arc": 16,
    "crc16_xor1": 16,
    "crc16_xor2": 16,
    "crc16_xor4": 16,
    "crc16_xor8": 16,
    "crc32": 32,
    "crc32_lo": 16,
    "crc32_hi": 16,
    "xor16": 16,
    "toeplitz": 32,
    "murmur3": 32,
}
"""Bits of each hash."""

# The key of Microsoft's verification suite for receive side scaling, which NICs and switches ship with.
RSS_KEY = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")


def crc16_ccitt(data: bytes, seed: int = 0) -> int:
    """CRC-16/CCITT-FALSE (polynomial 0x1021, start 0xFFFF); "123456789" gives 0x29B1."""
    return binascii.crc_hqx(data, 0xFFFF ^ (seed & 0xFFFF))


def crc16_arc(data: bytes, seed: int = 0) -> int:
    """CRC-16/ARC, also IBM or BISYNC (polynomial 0x8005 reflected, start 0); gives 0xBB3D."""
    value, table = seed & 0xFFFF, _arc_table()
    for byte in data:
        value = (value >> 8) ^ table[(value ^ byte) & 0xFF]
    return value


def crc32(data: bytes, seed: int = 0) -> int:
    """CRC-32 of Ethernet (polynomial 0x04C11DB7 reflected, start and end 0xFFFFFFFF); gives 0xCBF43926."""
    return zlib.crc32(data, seed & 0xFFFFFFFF)


def fold(data: bytes, bits: int) -> int:
    """XOR of all pieces of ``bits`` bits (1, 2, 4, 8 or 16) of ``data``, padded with zeros."""
    whole = data if bits <= 8 or len(data) % 2 == 0 else data + b"\0"
    value = 0
    if bits == 16:
        for at in range(0, len(whole), 2):
            value ^= whole[at] << 8 | whole[at + 1]
        return value
    for byte in whole:
        value ^= byte
    width = 8
    while width > bits:
        width //= 2
        value = (value >> width) ^ (value & ((1 << width) - 1))
    return value


def toeplitz(data: bytes, seed: int = 0, key: bytes = RSS_KEY) -> int:
    """The Toeplitz hash of receive side scaling, 32 bits; a key too short for ``data`` starts over."""
    need = len(data) + 4
    long = int.from_bytes((key * (need // len(key) + 1))[:need])
    message = int.from_bytes(data)
    value, bits = seed & 0xFFFFFFFF, len(data) * 8
    for at in range(bits):
        if message >> (bits - 1 - at) & 1:
            value ^= long >> (bits - at) & 0xFFFFFFFF
    return value


def murmur3(data: bytes, seed: int = 0) -> int:
    """MurmurHash3_x86_32 (A. Appleby, public domain), as ns-3's switches of the HPCC family have it."""
    value, whole = seed & 0xFFFFFFFF, len(data) & ~3
    for at in range(0, whole, 4):
        value ^= _murmur_word(int.from_bytes(data[at : at + 4], "little"))
        value = (value << 13 | value >> 19) & 0xFFFFFFFF
        value = (value * 5 + 0xE6546B64) & 0xFFFFFFFF
    if whole < len(data):
        value ^= _murmur_word(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    value = (value ^ value >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return value ^ value >> 16


def _murmur_word(word: int) -> int:
    word = word * 0xCC9E2D51 & 0xFFFFFFFF
    return ((word << 15 | word >> 17) & 0xFFFFFFFF) * 0x1B873593 & 0xFFFFFFFF


def _crc16_xor(bits: int) -> Callable[[bytes, int], int]:
    """CRC-16/ARC with its lowest bits replaced by the XOR of all pieces of ``bits`` bits."""
    mask = (1 << bits) - 1
    return lambda data, seed: (crc16_arc(data, seed) & ~mask) | fold(data, bits)


FUNCTIONS: dict[str, Callable[[bytes, int], int]] = {
    "crc16_ccitt": crc16_ccitt,
    "crc16_arc": crc16_arc,
    "crc16_xor1": _crc16_xor(1),
    "crc16_xor2": _crc16_xor(2),
    "crc16_xor4": _crc16_xor(4),
    "crc16_xor8": _crc16_xor(8),
    "crc32": crc32,
    "crc32_lo": lambda data, seed: crc32(data, seed) & 0xFFFF,
    "crc32_hi": lambda data, seed: crc32(data, seed) >> 16,
    "xor16": lambda data, seed: fold(data, 16) ^ (seed & 0xFFFF),
    "murmur3": murmur3,
}
"""By algorithm, (message, seed) to hash; ``toeplitz`` has a key besides."""


@lru_cache(maxsize=1)
def _arc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0xA001 if value & 1 else 0)
        table.append(value)
    return tuple(table)
