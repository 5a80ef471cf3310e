"""``torch.distributed.checkpoint.save`` into other processes' tensors: no file, no serialised tensor."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import Metadata, SavePlan, SavePlanner, StorageWriter
from torch.distributed.checkpoint.planner import WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from ..arena import Arena
from ..transports.transport import Transport, TransportTimeout
from .boxes import runs
from .manifest import Chunk, Manifest, digest_of, metadata_text
from .offer import MANIFESTS, METADATA, Offer, Shard, box_of, kind_of

CHUNK_BYTES = 8 << 20
STAGE = "~stage"


@dataclass(slots=True)
class Destination:
    """Where to write: a transport, connected, its local buffer the writer's arena; and the other's offer."""

    transport: Transport
    offer: Offer
    chunks: list[Chunk] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


class ArenaWriter(StorageWriter):
    """Writes this rank's part of a state dict from where it lies into every destination that offers room.

    Tensors that lie in ``arena`` are written in place. Others (on a GPU, or in memory of their own) go
    through the arena's region ``~stage``, a piece at a time. Replicated tensors are written by one rank each:
    torch's planner takes doubles out. Sharded ones may be cut differently at the destination.
    """

    def __init__(
        self, arena: Arena, destinations: Sequence[Destination], rank: int = 0, timeout_s: float = 60.0
    ) -> None:
        """``rank`` names this sender's manifest; every wait of a save ends after ``timeout_s``."""
        self.arena, self.destinations, self.rank, self.timeout_s = arena, list(destinations), rank, timeout_s
        self.wire_bytes = 0
        whole = arena.whole()
        self._whole = whole
        self._base = torch.frombuffer(whole, dtype=torch.uint8).data_ptr()
        self._values: dict[str, bytes] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        """Forget the last save."""
        self.wire_bytes = 0
        self._values = {}
        for destination in self.destinations:
            destination.chunks, destination.tokens = [], []

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Nothing: memory and connections were made before the pause."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """As it is."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """As they are."""
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write everything of the plan, wait for the wire, and leave the manifest.

        Raises:
            TransportFailed: a destination is gone or too slow.
            ValueError: a destination offers another element type, or no room for a tensor.
        """
        results = []
        for item in plan.items:
            data = planner.resolve_data(item)
            if isinstance(data, Tensor):
                size = self._write_tensor(item, data.detach())
            else:
                self._values[item.index.fqn] = bytes(data.getbuffer())
                size = len(self._values[item.index.fqn])
            results.append(WriteResult(item.index, size, None))
        self._drain(self.destinations)
        for destination in self.destinations:
            manifest = Manifest(self.rank, tuple(destination.chunks), self._values)
            self._leave(destination, f"{MANIFESTS}{self.rank}", manifest.text())
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """The coordinator tells every destination what the checkpoint consists of."""
        for destination in self.destinations:
            self._leave(destination, METADATA, metadata_text(metadata))

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """There is none to give: destinations are connections."""
        return checkpoint_id is None

    def _write_tensor(self, item: WriteItem, tensor: Tensor) -> int:
        assert item.type != WriteItemType.BYTE_IO
        box, size = box_of(item), tensor.element_size()
        for destination in self.destinations:
            shards = [shard for shard in destination.offer.shards if shard.name == item.index.fqn]
            if not shards and tensor.numel():
                raise ValueError(f"the destination offers no room for {item.index.fqn}")
            for shard in shards:
                _same_kind(shard, tensor)
                for run in runs(box, shard.box):
                    target = shard.offset + run.target * size
                    self._write_run(destination, tensor, run.source * size, target, run.length * size)
        return tensor.numel() * size

    def _write_run(self, to: Destination, tensor: Tensor, start: int, target: int, nbytes: int) -> None:
        lies_at = self._place(tensor)
        for done in range(0, nbytes, CHUNK_BYTES):
            length = min(CHUNK_BYTES, nbytes - done)
            if lies_at is None:
                local, length = self._stage(to, tensor, start + done, length)
            else:
                local = lies_at + start + done
            to.tokens.append(to.transport.write(local, target + done, length))
            # Hashed while the chunk is on its way.
            to.chunks.append(Chunk(target + done, length, digest_of(self._whole[local : local + length])))
            self.wire_bytes += length

    def _place(self, tensor: Tensor) -> int | None:
        """The tensor's offset in the arena; None when it lies elsewhere or not in one piece."""
        if tensor.device.type != "cpu" or not tensor.is_contiguous():
            return None
        offset = tensor.data_ptr() - self._base
        return offset if 0 <= offset <= len(self._whole) - tensor.nbytes else None

    def _stage(self, to: Destination, tensor: Tensor, start: int, length: int) -> tuple[int, int]:
        """Copy a piece into the stage, once the last one has left it."""
        region = next((one for one in self.arena.layout().regions if one.name == STAGE), None)
        if region is None or region.nbytes < min(length, CHUNK_BYTES):
            raise ValueError(
                f"a tensor on {tensor.device.type} that does not lie in the arena needs a region "
                f"{STAGE!r} of {CHUNK_BYTES:,} bytes there"
            )
        self._drain([to])
        flat = tensor.contiguous().view(-1).view(torch.uint8)
        stage = torch.frombuffer(self._whole[region.offset : region.offset + length], dtype=torch.uint8)
        stage.copy_(flat[start : start + length])
        return region.offset, length

    def _drain(self, destinations: Sequence[Destination]) -> None:
        """Wait until all that was written has arrived."""
        deadline = time.monotonic() + self.timeout_s
        for destination in destinations:
            for token in destination.tokens:
                if not destination.transport.poll(token, max(0.0, deadline - time.monotonic())):
                    raise TransportTimeout(f"a chunk had not arrived after {self.timeout_s:g} s")
            destination.tokens = []

    def _leave(self, to: Destination, name: str, text: bytes) -> None:
        """Write a document into a region of the destination, and say so."""
        offset, room = to.offer.region(name)
        mine = next(one for one in self.arena.layout().regions if one.name == name)
        if len(text) > min(room, mine.nbytes):
            raise ValueError(f"{name} of {len(text):,} bytes does not fit into {min(room, mine.nbytes):,}")
        self._whole[mine.offset : mine.offset + len(text)] = text
        to.tokens.append(to.transport.write(mine.offset, offset, len(text)))
        self._drain([to])
        said = {"region": name, "nbytes": len(text), "digest": digest_of(text)}
        to.transport.notify(json.dumps(said).encode(), self.timeout_s)


def _same_kind(shard: Shard, tensor: Tensor) -> None:
    if shard.kind != kind_of(tensor):
        raise ValueError(f"{shard.name} is {kind_of(tensor)} here and {shard.kind} at the destination")
