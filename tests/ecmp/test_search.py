"""Every flow is steered or named impossible: exhaustive search says the same."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from statistics import median

import pytest

from monkeytree.ecmp.label import FIRST_PORT, LAST_PORT
from monkeytree.ecmp.search import Target, find_port, matching_ports, tries
from monkeytree.ecmp.stage import Packet, QueuePairUnknown, choose, hash_value
from monkeytree.ecmp.ways import Choice
from monkeytree.fabric_hash import ALGORITHMS, Algorithm, HashStage, Select

OTHERS: tuple[Algorithm, ...] = ("crc16_ccitt", "crc32_hi", "xor16")
TYPICAL: tuple[Algorithm, ...] = ("crc16_ccitt", "crc32", "toeplitz", "murmur3")
UPLINKS = (2, 3, 4, 6, 7, 8, 12, 16, 24, 32, 48, 63, 64)


def exhaustive(packet: Packet, targets: list[Target]) -> list[int]:
    """All matching ports, by the definition alone."""
    every = range(FIRST_PORT, LAST_PORT + 1)
    chosen = [
        [choose(stage, value, uplinks) for value in values_of(packet, stage)]
        for stage, uplinks in ((choice.stage, len(choice.uplinks)) for choice, _ in targets)
    ]
    wanted = tuple(at for _, at in targets)
    return [port for port, took in zip(every, zip(*chosen, strict=True), strict=True) if took == wanted]


@lru_cache(maxsize=8)
def values_of(packet: Packet, stage: HashStage) -> list[int]:
    """The hash with every port."""
    return [hash_value(stage, replace(packet, sport=port)) for port in range(FIRST_PORT, LAST_PORT + 1)]


def some_target(stage: HashStage, uplinks: int, rng: random.Random) -> Target:
    return Choice(stage, tuple(range(uplinks))), rng.randrange(uplinks)


def some_packet(rng: random.Random) -> Packet:
    return Packet(f"10.{rng.randrange(256)}.0.{rng.randrange(256)}", f"10.0.{rng.randrange(256)}.9", 0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_search_finds_what_exhaustive_search_finds(algorithm: Algorithm) -> None:
    """One stage and two, samples of 2 to 64 uplinks, seeds, offsets and both selections."""
    rng = random.Random(algorithm)
    for uplinks in rng.sample(UPLINKS, 3):
        first = HashStage(
            algorithm,
            seed=rng.randrange(2**32), offset=rng.randrange(8), select=rng.choice(["modulo", "high"]),
        )  # fmt: skip
        second = HashStage(rng.choice(OTHERS), seed=rng.randrange(99))
        targets = [some_target(first, uplinks, rng), some_target(second, rng.choice(UPLINKS[:6]), rng)]
        packet = some_packet(rng)
        for staged in (targets[:1], targets):
            assert sorted(matching_ports(packet, staged)) == exhaustive(packet, staged)


def test_the_queue_pair_and_ipv6_are_searched_too() -> None:
    stage = HashStage("crc32_lo", ("src", "dst", "sport", "dst_qp"))
    target = (Choice(stage, (0, 1, 2, 3)), 2)
    with pytest.raises(QueuePairUnknown):
        find_port(Packet("10.0.0.1", "10.0.1.1", 0), [target])
    packet = Packet("10.0.0.1", "10.0.1.1", 0, dst_qp=0x1234)
    assert sorted(matching_ports(packet, [target])) == exhaustive(packet, [target])
    six = Packet("fd00::1", "fd00::2:1", 0)
    for algorithm in TYPICAL[:3]:
        pair = [(Choice(HashStage(algorithm), (0, 1, 2, 3, 4)), 3)]
        assert sorted(matching_ports(six, pair)) == exhaustive(six, pair)


def test_a_polarised_fabric_is_named() -> None:
    """The same CRC at both stages, whatever its seeds: the second choice repeats the first."""
    leaf, pod = HashStage("crc16_ccitt"), HashStage("crc16_ccitt", seed=0xBEEF)
    packet = Packet("10.0.0.1", "10.9.0.1", 0)
    reached = {
        (up, core)
        for up in range(4)
        for core in range(4)
        if find_port(packet, [(Choice(leaf, (0, 1, 2, 3)), up), (Choice(pod, (0, 1, 2, 3)), core)])
    }
    assert len(reached) == 4  # of 16
    turned = HashStage("crc16_ccitt", offset=5)  # other bits of the same hash
    for up in range(4):
        for core in range(4):
            targets = [(Choice(leaf, (0, 1, 2, 3)), up), (Choice(turned, (0, 1, 2, 3)), core)]
            assert find_port(packet, targets) is not None


@pytest.mark.parametrize("algorithm", ["crc32", "murmur3"])
def test_a_hash_without_the_source_port_is_named(algorithm: Algorithm) -> None:
    stage = HashStage(algorithm, ("src", "dst"))
    hits = [
        find_port(Packet("10.0.0.1", "10.0.1.1", 0), [(Choice(stage, (0, 1, 2)), at)]) for at in (0, 1, 2)
    ]
    assert sorted(port is None for port in hits) == [False, True, True]


@pytest.mark.parametrize("select", ["modulo", "high"])
def test_the_same_hash_twice_is_told_apart_at_once(select: Select) -> None:
    """Switches of ns-3 without seeds of their own: what is impossible is said without trying the ports."""
    stage, packet = HashStage("murmur3", select=select), Packet("10.0.0.1", "10.9.0.1", 0)
    for ups, cores in ((4, 4), (4, 6), (3, 4)):
        for up in range(ups):
            for core in range(cores):
                targets = [(Choice(stage, tuple(range(ups))), up), (Choice(stage, tuple(range(cores))), core)]
                assert (find_port(packet, targets) is None) == (exhaustive(packet, targets) == [])


@pytest.mark.parametrize("uplinks", [2, 8, 32, 64])
def test_tries_are_about_the_number_of_uplinks(uplinks: int) -> None:
    rng = random.Random(uplinks)
    counted = [
        tries(some_packet(rng), [some_target(HashStage(algorithm), uplinks, rng)])
        for algorithm in TYPICAL
        for _ in range(25)
    ]
    assert 0.3 * uplinks <= median(counted) <= 1.5 * uplinks
