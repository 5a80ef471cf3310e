"""The source port that puts a flow on its uplink at every stage, or the proof that there is none.

All 16,384 ports that a flow label reaches are candidates. Over them an affine hash is a fixed pattern,
XORed with a constant of the pair of addresses: the pattern is worked out once for each stage, and where
the uplinks are a power of two, ports are looked up by the bits that decide. Where they are not, the
pattern is scanned; a hash that is not affine is tried port by port. Scans and trials jump about among the
ports, in a fixed order: neighbours hash alike under many an affine hash.

Where the flow label of the IPv6 header is hashed, it is the label that gives the port: its number above the
first, so that the hash stays affine in it; only the first port has another label (0 means none), and is
tried by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import combinations
from math import gcd
from typing import Protocol

from monkeytree.fabric_hash import HashStage

from .label import FIRST_PORT, PORTS
from .stage import Packet, choose, hash_value, is_affine, message, raw_hash, rotate, width
from .ways import Choice

Target = tuple[Choice, int]
"""A stage that chooses, and the position of the uplink wanted there."""

Stages = tuple[tuple[HashStage, int], ...]
"""Stages that choose, each with how many uplinks it chooses among: two or more."""


class Searcher(Protocol):
    """Finds ports for one sequence of stages."""

    def ports(self, packet: Packet, wanted: Sequence[int]) -> Iterator[int]:
        """Source ports that select the positions ``wanted``, each once, in an order of its own."""


def matching_ports(packet: Packet, targets: Sequence[Target]) -> Iterator[int]:
    """Source ports with which ``packet`` takes the uplink wanted at every stage, each once.

    An empty iterator proves that there is none. The packet's own source port does not matter.

    Raises:
        QueuePairUnknown: a hash covers the destination queue pair, which ``packet`` does not name.
    """
    stages = tuple((choice.stage, len(choice.uplinks)) for choice, _ in targets if len(choice.uplinks) > 1)
    wanted = [at for choice, at in targets if len(choice.uplinks) > 1]
    return searcher(stages, ":" in packet.src).ports(packet, wanted)


def find_port(packet: Packet, targets: Sequence[Target]) -> int | None:
    """The first of :func:`matching_ports`, None where there is none."""
    return next(matching_ports(packet, targets), None)


def tries(packet: Packet, targets: Sequence[Target]) -> int:
    """How many ports a search without tables tries until one matches; all where none does."""
    rows = [(choice.stage, len(choice.uplinks), at) for choice, at in targets]
    return next((tried for tried, port in enumerate(_jumping(), 1) if _hits(packet, rows, port)), PORTS)


@lru_cache(maxsize=4096)
def searcher(stages: Stages, ipv6: bool = False) -> Searcher:
    """The quickest searcher for these stages."""
    if not all(is_affine(stage) for stage, _ in stages):
        return _Trials(stages)
    bits = all(_has_bits(stage, count) for stage, count in stages)
    found: Searcher = _Lookup(stages, ipv6) if bits else _Scan(stages, ipv6)
    return _Labelled(found, stages) if any("flow_label" in stage.fields for stage, _ in stages) else found


def forget() -> None:
    """Drop all that was worked out so far, as if in a fresh process: for measurements."""
    for kept in (searcher, pattern, _tables):
        kept.cache_clear()


class _Trials:
    """Port by port."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    def ports(self, packet: Packet, wanted: Sequence[int]) -> Iterator[int]:
        rows = [(stage, count, at) for (stage, count), at in zip(self._stages, wanted, strict=True)]
        if _is_hopeless(packet, rows):
            return iter(())
        return (FIRST_PORT + port for port in _jumping() if _hits(packet, rows, port))


class _Labelled:
    """Another searcher's ports but the first, whose label is out of line, and that one where it hits."""

    def __init__(self, others: Searcher, stages: Stages) -> None:
        self._others = others
        self._stages = stages

    def ports(self, packet: Packet, wanted: Sequence[int]) -> Iterator[int]:
        yield from (port for port in self._others.ports(packet, wanted) if port != FIRST_PORT)
        rows = [(stage, count, at) for (stage, count), at in zip(self._stages, wanted, strict=True)]
        if _hits(packet, rows, 0):
            yield FIRST_PORT


class _Scan:
    """Along the patterns of affine hashes."""

    def __init__(self, stages: Stages, ipv6: bool) -> None:
        self._stages = stages
        self._patterns = [pattern(unseeded(stage), ipv6) for stage, _ in stages]

    def ports(self, packet: Packet, wanted: Sequence[int]) -> Iterator[int]:
        if _is_hopeless(packet, [(*stage, at) for stage, at in zip(self._stages, wanted, strict=True)]):
            return
        probe = _from(packet, 0)
        fixed = [hash_value(stage, probe) for stage, _ in self._stages]
        rows = list(zip(self._stages, self._patterns, fixed, wanted, strict=True))
        (stage, count), table, constant, at = rows[0]
        if stage.select == "modulo":
            hits = (port for port in _jumping() if (table[port] ^ constant) % count == at)
        else:
            bits = width(stage)
            hits = (port for port in _jumping() if (table[port] ^ constant) * count >> bits == at)
        for port in hits:
            if all(
                choose(stage, table[port] ^ constant, count) == at
                for (stage, count), table, constant, at in rows[1:]
            ):
                yield FIRST_PORT + port


class _Lookup:
    """By the bits that decide, of all stages side by side: they are affine in addresses and port.

    Seeds add a constant. Switches that differ by their seeds alone share everything else.
    """

    def __init__(self, stages: Stages, ipv6: bool) -> None:
        self._stages = stages
        self._plain = _tables(tuple((unseeded(stage), count) for stage, count in stages), ipv6)
        self._seeds: int | None = None

    def ports(self, packet: Packet, wanted: Sequence[int]) -> Iterator[int]:
        key = _side_by_side(self._stages, wanted) ^ self._constant(packet)
        return iter(self._plain.classes.get(key, ()))

    def _constant(self, packet: Packet) -> int:
        if packet.dst_qp is not None:
            return _bits(self._stages, _from(packet, 0))
        if self._seeds is None:
            self._seeds = _bits(self._stages, self._plain.blank) ^ self._plain.base
        return self._seeds ^ self._plain.constant(packet)


class _Tables:
    """What stages without seeds make of ports and addresses."""

    def __init__(self, stages: Stages, ipv6: bool) -> None:
        none = "::" if ipv6 else "0.0.0.0"
        self.blank = _from(Packet(none, none, FIRST_PORT), 0)
        self._stages = stages
        self._sources: dict[str, int] = {}
        self._targets: dict[str, int] = {}
        columns = [pattern(stage, ipv6) for stage, _ in stages]
        found: dict[int, list[int]] = {}
        for port in range(PORTS):
            values = [column[port] for column in columns]
            key = _side_by_side(
                stages, [_deciding(*stage, v) for stage, v in zip(stages, values, strict=True)]
            )
            found.setdefault(key, []).append(FIRST_PORT + port)
        self.classes = {key: tuple(ports) for key, ports in found.items()}

    @cached_property
    def base(self) -> int:
        """The deciding bits of the packet without addresses, from the first port."""
        return _bits(self._stages, self.blank)

    def constant(self, packet: Packet) -> int:
        """Those of ``packet`` from the first port: each address adds its part."""
        source, target = self._sources.get(packet.src), self._targets.get(packet.dst)
        if source is None:
            source = self.base ^ _bits(self._stages, replace(self.blank, src=packet.src))
            self._sources[packet.src] = source
        if target is None:
            target = self.base ^ _bits(self._stages, replace(self.blank, dst=packet.dst))
            self._targets[packet.dst] = target
        return self.base ^ source ^ target


@lru_cache(maxsize=64)
def _tables(stages: Stages, ipv6: bool) -> _Tables:
    return _Tables(stages, ipv6)


def _bits(stages: Stages, packet: Packet) -> int:
    return _side_by_side(stages, [_deciding(*stage, hash_value(stage[0], packet)) for stage in stages])


def _side_by_side(stages: Stages, positions: Sequence[int]) -> int:
    key = 0
    for (_, count), position in zip(stages, positions, strict=True):
        key = key * count + position  # counts are powers of two: no bit of one meets one of another
    return key


def _is_hopeless(packet: Packet, rows: Sequence[tuple[HashStage, int, int]]) -> bool:
    """Whether it is plain without a search that no port hits: so that a polarised fabric is named at once.

    A hash without the port chooses one way; two switches with the very same hash make related choices.
    """
    for stage, count, at in rows:
        if (
            not {"sport", "flow_label"} & set(stage.fields)
            and choose(stage, hash_value(stage, packet), count) != at
        ):
            return True
    return any(
        one == other and not _are_compatible(one, (count, at), (others, there))
        for (one, count, at), (other, others, there) in combinations(rows, 2)
    )


def _are_compatible(stage: HashStage, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether one hash value can select both positions, each given as (uplinks, position)."""
    if stage.select == "modulo":
        return (one[1] - other[1]) % gcd(one[0], other[0]) == 0
    whole = 1 << width(stage)
    starts = [-(-at * whole // count) for count, at in (one, other)]
    ends = [-(-(at + 1) * whole // count) for count, at in (one, other)]
    return max(starts) < min(ends)


def _from(packet: Packet, number: int) -> Packet:
    """``packet`` from the port that is so far above the first, its label in line with it."""
    return replace(packet, sport=FIRST_PORT + number, flow_label=number)


def _hits(packet: Packet, rows: Sequence[tuple[HashStage, int, int]], port: int) -> bool:
    probe = replace(packet, sport=FIRST_PORT + port, flow_label=None)
    return all(choose(stage, hash_value(stage, probe), count) == at for stage, count, at in rows)


@lru_cache(maxsize=1)
def _jumping() -> tuple[int, ...]:
    """All ports, less the first, in a fixed order without a pattern."""
    order = list(range(PORTS))
    random.Random(0).shuffle(order)
    return tuple(order)


def _has_bits(stage: HashStage, count: int) -> bool:
    """Whether some bits of the hash, and no others, number the uplink."""
    return count & (count - 1) == 0 and count.bit_length() - 1 <= width(stage)


def _deciding(stage: HashStage, count: int, value: int) -> int:
    if stage.select == "modulo":
        return value & (count - 1)
    return value >> (width(stage) - count.bit_length() + 1)


@lru_cache(maxsize=64)
def pattern(stage: HashStage, ipv6: bool) -> tuple[int, ...]:
    """For each port above the first, what it adds to an affine hash, by XOR: made of that of its bits."""
    none = "::" if ipv6 else "0.0.0.0"
    blank = _from(Packet(none, none, FIRST_PORT, dst_qp=0), 0)
    base = raw_hash(stage, message(stage, blank))
    added = [0]
    for bit in range(PORTS.bit_length() - 1):
        probe = _from(blank, 1 << bit)
        flip = rotate(stage, base ^ raw_hash(stage, message(stage, probe)))
        added += [flip ^ value for value in added]
    return tuple(added)


def unseeded(stage: HashStage) -> HashStage:
    """A seed adds a constant to an affine hash: the pattern over ports does not know it."""
    return replace(stage, seed=0) if stage.seed else stage
