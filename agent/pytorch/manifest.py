"""What a sender tells a receiver about the bytes it wrote: chunks with digests, and the metadata."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import torch
import xxhash
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)

from monkeytree.errors import MonkeyTreeError


class CheckpointDamaged(MonkeyTreeError):
    """What arrived is not what was sent, or not all of it."""

    code = "checkpoint_damaged"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes that were written with one call: place in the destination's arena, and xxh3_128."""

    offset: int
    nbytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All chunks of one sender, and what of its state dict is no tensor (pickled by the planner)."""

    sender: int
    chunks: tuple[Chunk, ...]
    values: dict[str, bytes]

    def text(self) -> bytes:
        """As JSON."""
        values = {name: base64.b64encode(value).decode() for name, value in self.values.items()}
        rows = [[chunk.offset, chunk.nbytes, chunk.digest] for chunk in self.chunks]
        return json.dumps({"sender": self.sender, "chunks": rows, "values": values}).encode()

    @classmethod
    def read(cls, text: bytes) -> Manifest:
        """From :meth:`text`."""
        found = json.loads(text)
        values = {name: base64.b64decode(value) for name, value in found["values"].items()}
        return cls(found["sender"], tuple(Chunk(*row) for row in found["chunks"]), values)


def digest_of(data: memoryview | bytes) -> str:
    """xxh3_128 as hexadecimal."""
    return xxhash.xxh3_128_hexdigest(data)


def metadata_text(metadata: Metadata) -> bytes:
    """A checkpoint's metadata as JSON: names, types, sizes and parts."""
    found: dict[str, Any] = {}
    for name, one in metadata.state_dict_metadata.items():
        if isinstance(one, TensorStorageMetadata):
            parts = [[list(chunk.offsets), list(chunk.sizes)] for chunk in one.chunks]
            kind = str(one.properties.dtype).removeprefix("torch.")
            found[name] = {"kind": kind, "size": list(one.size), "parts": parts}
        else:
            found[name] = None
    return json.dumps(found).encode()


def read_metadata(text: bytes) -> Metadata:
    """From :func:`metadata_text`."""
    found = json.loads(text)
    return Metadata({name: _entry(one) for name, one in found.items()})


def _entry(one: dict[str, Any] | None) -> TensorStorageMetadata | BytesStorageMetadata:
    if one is None:
        return BytesStorageMetadata()
    parts = [ChunkStorageMetadata(torch.Size(low), torch.Size(size)) for low, size in one["parts"]]
    kind = getattr(torch, one["kind"])
    if not isinstance(kind, torch.dtype):
        raise CheckpointDamaged(f"{one['kind']!r} is no element type of torch")
    return TensorStorageMetadata(TensorProperties(dtype=kind), torch.Size(one["size"]), parts)
