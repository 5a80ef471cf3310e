"""The hash functions against their published check values, and their linearity."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monkeytree.ecmp.functions import (
    FUNCTIONS,
    WIDTHS,
    crc16_arc,
    crc16_ccitt,
    crc32,
    fold,
    murmur3,
    toeplitz,
)
from monkeytree.ecmp.stage import Packet, QueuePairUnknown, choose, hash_value, message, rotate
from monkeytree.fabric_hash import ALGORITHMS, HashStage

CHECK = b"123456789"


def test_crcs_give_their_check_values() -> None:
    """As the catalogue of parametrised CRC algorithms lists them."""
    assert crc16_ccitt(CHECK) == 0x29B1
    assert crc16_ccitt(CHECK, seed=0xFFFF) == 0x31C3  # a start value of 0: XMODEM
    assert crc16_arc(CHECK) == 0xBB3D
    assert crc32(CHECK) == 0xCBF43926
    assert FUNCTIONS["crc32_lo"](CHECK, 0) == 0x3926
    assert FUNCTIONS["crc32_hi"](CHECK, 0) == 0xCBF4


@pytest.mark.parametrize(
    ("src", "sport", "dst", "dport", "addresses", "all_four"),
    [
        ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x323E8FC2, 0x51CCC178),
        ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xD718262A, 0xC626B0EA),
        ("24.19.198.95", 12898, "12.22.207.184", 38024, 0xD2D0A5DE, 0x5C2B394A),
        ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2CC18CD5, 0x40207D3D),
    ],
)
def test_toeplitz_gives_the_values_of_the_verification_suite(
    src: str, sport: int, dst: str, dport: int, addresses: int, all_four: int
) -> None:
    """Microsoft, "Verifying the RSS hash calculation"."""
    packet = Packet(src, dst, sport, dport)
    assert hash_value(HashStage("toeplitz", ("src", "dst")), packet) == addresses
    assert hash_value(HashStage("toeplitz", ("src", "dst", "sport", "dport")), packet) == all_four


@pytest.mark.parametrize(
    ("data", "seed", "value"),
    [(b"", 0, 0), (b"", 1, 0x514E28B7), (b"test", 0, 0xBA6BD213), (b"Hello, world!", 1234, 0xFAF6CDB3)],
)
def test_murmur_gives_its_known_values(data: bytes, seed: int, value: int) -> None:
    assert murmur3(data, seed) == value


def test_murmur_hashes_the_words_of_ns3s_switches() -> None:
    """sip, dip and sport | dport << 16, as 32-bit words of a little-endian machine."""
    packet = Packet("11.0.0.1", "11.0.1.1", 10_000, 4791)
    words = (0x0B000001, 0x0B000101, 10_000 | 4791 << 16)
    stage = HashStage("murmur3", ("src", "dst", "sport", "dport"), seed=7)
    assert message(stage, packet) == b"".join(word.to_bytes(4, "little") for word in words)


@given(st.binary(min_size=1, max_size=40))
def test_folds(data: bytes) -> None:
    bits = "".join(f"{byte:08b}" for byte in data)
    for size in (1, 2, 4, 8, 16):
        padded = bits + "0" * (-len(bits) % size)
        pieces = [int(padded[at : at + size], 2) for at in range(0, len(padded), size)]
        expected = 0
        for piece in pieces:
            expected ^= piece
        assert fold(data, size) == expected


@given(st.data())
@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "murmur3"])
def test_all_but_murmur_are_affine(algorithm: str, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 20))
    x, y = (
        data.draw(st.binary(min_size=size, max_size=size)),
        data.draw(st.binary(min_size=size, max_size=size)),
    )
    seed = data.draw(st.integers(0, 2**32 - 1))
    f = toeplitz if algorithm == "toeplitz" else FUNCTIONS[algorithm]
    both = bytes(a ^ b for a, b in zip(x, y, strict=True))
    assert f(both, seed) == f(x, seed) ^ f(y, seed) ^ f(bytes(size), seed)


def test_murmur_is_not() -> None:
    assert murmur3(b"\3") != murmur3(b"\1") ^ murmur3(b"\2") ^ murmur3(b"\0")


@given(st.sampled_from(ALGORITHMS), st.integers(0, 40), st.integers(0, 2**32 - 1), st.integers(2, 64))
def test_offset_and_selection(algorithm: str, offset: int, drawn: int, uplinks: int) -> None:
    width = WIDTHS[algorithm]
    value = drawn & ((1 << width) - 1)
    stage = HashStage(algorithm, offset=offset)  # type: ignore[arg-type]
    text = f"{value:0{width}b}"
    turn = offset % width
    assert f"{rotate(stage, value):0{width}b}" == text[width - turn :] + text[: width - turn]
    assert choose(stage, value, uplinks) == value % uplinks
    high = HashStage(algorithm, select="high")  # type: ignore[arg-type]
    assert choose(high, value, uplinks) == int(value / 2**width * uplinks)


def test_the_queue_pair_can_be_part_of_it() -> None:
    stage = HashStage("crc32", ("src", "dst", "sport", "dst_qp"))
    one = hash_value(stage, Packet("10.0.0.1", "10.0.1.1", 50_000, dst_qp=17))
    other = hash_value(stage, Packet("10.0.0.1", "10.0.1.1", 50_000, dst_qp=18))
    assert one != other
    with pytest.raises(QueuePairUnknown):
        hash_value(stage, Packet("10.0.0.1", "10.0.1.1", 50_000))
