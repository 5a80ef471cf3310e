"""Blocks (Slurm's topology/block, 23.11 and newer) as a topology.

Level ``block`` is the base block. ``BlockSizes`` may name larger sizes, each the base size times a power
of two: consecutive base blocks form aggregated blocks, keys ``block2``, ``block3`` and so on, upwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import refuse_topology
from .model import Topology


@dataclass(frozen=True, slots=True)
class Block:
    """One base block: where it was read, its name and nodes."""

    at: str
    name: str
    nodes: tuple[str, ...]


def block_topology(source: str, blocks: Sequence[Block], sizes: Sequence[int]) -> Topology:
    """The topology of ``blocks``.

    Args:
        sizes: ``BlockSizes``, ascending; the first is the least size of a base block.

    Raises:
        InvalidTopology: no block, a name twice, a node in two blocks, sizes that do not fit.
    """
    if not blocks:
        raise refuse_topology(source, "names no block")
    shares = _shares(source, sizes)
    keys = ["block", *(f"block{at}" for at in range(2, len(shares) + 2))]
    nodes: dict[str, dict[str, str]] = {}
    seen: set[str] = set()
    for index, block in enumerate(blocks):
        if block.name in seen:
            raise refuse_topology(block.at, "a block of that name stands above", block.name)
        if not block.nodes:
            raise refuse_topology(block.at, "has no nodes", block.name)
        seen.add(block.name)
        path = {"block": block.name}
        for key, share in zip(keys[1:], shares, strict=True):
            path[key] = f"{key}-{index // share}"
        for node in block.nodes:
            if node in nodes:
                raise refuse_topology(block.at, f"node lies in block {nodes[node]['block']!r} already", node)
            nodes[node] = path
    return Topology(source, tuple(reversed(keys)), nodes, ("block",))


def _shares(source: str, sizes: Sequence[int]) -> list[int]:
    """Base blocks in an aggregated block, for each size above the base."""
    shares = []
    for size in sizes[1:]:
        share, rest = divmod(size, sizes[0])
        if rest or share < 2 or share & (share - 1):
            raise refuse_topology(f"{source}, BlockSizes", f"must be {sizes[0]} times a power of two", size)
        shares.append(share)
    return shares
