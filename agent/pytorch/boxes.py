"""Boxes of a tensor: which byte runs of one contiguous shard are which byte runs of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a global tensor that somebody holds contiguously.

    Attributes:
        offsets: where it begins in the global tensor, one for each dimension.
        sizes: how far it reaches.
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """``length`` elements that lie together in both shards.

    Attributes:
        source: index of the first in the source's shard, in elements.
        target: index of the first in the target's shard.
    """

    source: int
    target: int
    length: int


def overlap(one: Box, other: Box) -> Box | None:
    """What both hold, in global offsets; None when there is nothing."""
    lows = tuple(map(max, one.offsets, other.offsets))
    ends_one = (low + size for low, size in zip(one.offsets, one.sizes, strict=True))
    ends_other = (low + size for low, size in zip(other.offsets, other.sizes, strict=True))
    highs = tuple(map(min, ends_one, ends_other))
    sizes = tuple(high - low for low, high in zip(lows, highs, strict=True))
    return Box(lows, sizes) if all(size > 0 for size in sizes) else None


def runs(source: Box, target: Box) -> Iterator[Run]:
    """The longest runs that turn the overlap of two shards from one's order into the other's.

    Rows sharded over the first dimension (FSDP) give one run; columns give a run for each row.
    """
    shared = overlap(source, target)
    if shared is None:
        return
    split = _split(source, target, shared)
    inner = prod(shared.sizes[split:])
    for place in product(*(range(size) for size in shared.sizes[:split])):
        at = [low + step for low, step in zip(shared.offsets[:split], place, strict=True)]
        at += shared.offsets[split:]
        yield Run(_index(source, at), _index(target, at), inner)


def _split(source: Box, target: Box, shared: Box) -> int:
    """The dimensions from here on lie together in both: all but the first of them are whole in both."""
    split = len(shared.sizes)
    while split > 0:
        split -= 1
        if not source.sizes[split] == target.sizes[split] == shared.sizes[split]:
            break
    return split


def _index(box: Box, place: list[int]) -> int:
    """Row-major index of a global place in a shard."""
    index = 0
    for at, low, size in zip(place, box.offsets, box.sizes, strict=True):
        index = index * size + at - low
    return index
