"""What a destination offers: which shard of which tensor lies where in its arena."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.planner import SavePlan, WriteItem, WriteItemType

from ..arena import Arena, Layout
from .boxes import Box

MANIFESTS = "~manifest/"
METADATA = "~metadata"
MANIFEST_BYTES = 1 << 20
"""Least room of a manifest; 512 bytes more for each tensor and MiB of state."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A tensor, or this rank's part of it.

    Attributes:
        name: fully qualified name in the state dict.
        box: which part of the global tensor.
        kind: torch's name of the element type, as ``float32``.
        offset: first byte in the arena.
        nbytes: size.
    """

    name: str
    box: Box
    kind: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Offer:
    """All shards of a destination's arena, and where the senders leave their manifests."""

    shards: tuple[Shard, ...]
    layout: Layout

    def text(self) -> str:
        """As JSON, for the senders."""
        rows = [[s.name, s.box.offsets, s.box.sizes, s.kind, s.offset, s.nbytes] for s in self.shards]
        return json.dumps({"layout": self.layout.document(), "shards": rows})

    @classmethod
    def read(cls, text: str | bytes) -> Offer:
        """From :meth:`text`."""
        found = json.loads(text)
        shards = tuple(
            Shard(name, Box(tuple(low), tuple(size)), kind, offset, nbytes)
            for name, low, size, kind, offset, nbytes in found["shards"]
        )
        return cls(shards, Layout.read(found["layout"]))

    def region(self, name: str) -> tuple[int, int]:
        """Offset and size of a region, in bytes."""
        for region in self.layout.regions:
            if region.name == name:
                return region.offset, region.nbytes
        raise KeyError(name)


def shards_of(state_dict: Mapping[str, Any]) -> list[tuple[str, Box, Tensor]]:
    """Name, part and local tensor of everything in a state dict (nested or not) that is a tensor."""
    planner = DefaultSavePlanner()
    planner.set_up_planner(dict(state_dict), None, True)
    plan: SavePlan = planner.create_local_plan()
    found = []
    for item in plan.items:
        if item.type != WriteItemType.BYTE_IO:
            local = planner.resolve_data(item)
            assert isinstance(local, Tensor)
            found.append((item.index.fqn, box_of(item), local.detach()))
    return found


def box_of(item: WriteItem) -> Box:
    """Which part of its global tensor an item writes."""
    assert item.tensor_data is not None
    chunk = item.tensor_data.chunk
    return Box(tuple(chunk.offsets), tuple(chunk.sizes))


def kind_of(tensor: Tensor) -> str:
    """``float32`` of torch.float32, and so on."""
    return str(tensor.dtype).removeprefix("torch.")


def make_arena(state_dict: Mapping[str, Any], senders: int, *, prefault: bool = True) -> tuple[Arena, Offer]:
    """An arena with room for every tensor of ``state_dict`` and the manifests of ``senders`` ranks.

    :func:`place` then makes it the tensors' own memory.
    """
    found = shards_of(state_dict)
    specs = [(region_name(name, box), local.numel() * local.element_size()) for name, box, local in found]
    room = MANIFEST_BYTES + 512 * len(specs) + sum(size for _, size in specs) // 2048
    specs += [(f"{MANIFESTS}{sender}", room) for sender in range(senders)] + [(METADATA, room)]
    arena = Arena.create(specs, prefault=prefault)
    return arena, offer_of(arena, state_dict)


def offer_of(arena: Arena, state_dict: Mapping[str, Any]) -> Offer:
    """The offer of an arena made by :func:`make_arena` for such a state dict."""
    places = {region.name: region for region in arena.layout().regions}
    shards = []
    for name, box, local in shards_of(state_dict):
        region = places[region_name(name, box)]
        shards.append(Shard(name, box, kind_of(local), region.offset, region.nbytes))
    return Offer(tuple(shards), arena.layout())


def place(arena: Arena, state_dict: Mapping[str, Any], *, keep: bool = True) -> None:
    """Let the tensors that share storage with those of ``state_dict`` live in the arena from now on.

    It swaps the memory behind the storages themselves, so parameters, their detached aliases in state dicts
    and the local parts of DTensors all follow.

    Args:
        keep: copy the present values in; False where they will be received.

    Raises:
        ValueError: a tensor is on another device, or shares its storage with others.
    """
    for name, box, local in shards_of(state_dict):
        if local.device.type != "cpu" or not local.is_contiguous():
            raise ValueError(
                f"{name}: on {local.device.type}; only contiguous tensors on the CPU lie in an arena"
            )
        storage = local.untyped_storage()
        if storage.nbytes() != local.numel() * local.element_size():
            raise ValueError(
                f"{name}: {local.nbytes} bytes of a storage of {storage.nbytes()}; clone it first"
            )
        view = arena.view(region_name(name, box))
        if view.nbytes == 0:
            continue
        placed = torch.frombuffer(view, dtype=torch.uint8)
        if keep:
            placed.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
        _swap(storage, placed.untyped_storage())


def _swap(storage: torch.UntypedStorage, other: torch.UntypedStorage) -> None:
    storage._swap_data_ptr_(other)


def region_name(name: str, box: Box) -> str:
    """Of the region that holds a shard."""
    return f"{name}@{','.join(map(str, box.offsets))}"
