"""``torch.distributed.checkpoint.load`` from what senders wrote into this process's arena."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.checkpoint import LoadPlan, LoadPlanner, Metadata, StorageReader
from torch.distributed.checkpoint.planner import LoadItemType, ReadItem
from torch.futures import Future

from ..arena import Arena
from ..transports.transport import Transport, TransportClosed, TransportTimeout
from .boxes import Box, overlap
from .manifest import CheckpointDamaged, Manifest, digest_of, read_metadata
from .offer import MANIFESTS, METADATA, Offer, Shard


class ArenaReader(StorageReader):
    """Waits for every sender, verifies every chunk, and hands tensors over.

    A tensor that lives in the arena is there already. Any other is copied from it once.
    """

    def __init__(
        self, arena: Arena, offer: Offer, senders: Sequence[Transport], timeout_s: float = 60.0
    ) -> None:
        """``senders`` are connected, one for each rank that saves, their local buffer this arena."""
        self.arena, self.offer, self.senders, self.timeout_s = arena, offer, list(senders), timeout_s
        self.copied_bytes = 0
        self._shards: dict[str, list[Shard]] = {}
        for shard in offer.shards:
            self._shards.setdefault(shard.name, []).append(shard)
        self._metadata: Metadata | None = None
        self._values: dict[str, bytes] = {}

    def receive(self) -> Metadata:
        """Wait for all senders and verify what they wrote; called by ``load`` where it was not before.

        Raises:
            CheckpointDamaged: a digest differs, or bytes are missing.
            TransportFailed: a sender is gone or too slow.
        """
        documents = self._documents()
        self._metadata = read_metadata(documents.pop(METADATA))
        written = []
        for text in documents.values():
            manifest = Manifest.read(text)
            self._values.update(manifest.values)
            written += self._verified(manifest)
        self._complete(sorted(written))
        return self._metadata

    def reset(self, checkpoint_id: Any = None) -> None:
        """Begin a load; what was received stays."""
        self.copied_bytes = 0

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint consists of; receives it first."""
        return self._metadata if self._metadata is not None else self.receive()

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kw: Any) -> None:
        """Nothing to set up."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """As it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """As they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Hand over each item: the arena holds this rank's shards in its own cut, whoever sent them."""
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(self._values[item.storage_index.fqn]))
            else:
                self._hand_over(item, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """There is none to give: sources are connections."""
        return checkpoint_id is None

    def _documents(self) -> dict[str, bytes]:
        """The manifest of each sender and the metadata, by region."""
        found: dict[str, bytes] = {}
        wanted = {METADATA} | {f"{MANIFESTS}{sender}" for sender in range(len(self.senders))}
        there = dict(enumerate(self.senders))
        deadline = time.monotonic() + self.timeout_s
        while wanted - set(found):
            if time.monotonic() > deadline:
                late = sorted(wanted - set(found))
                raise TransportTimeout(f"{late} had not come after {self.timeout_s:g} s")
            for number, sender in list(there.items()):
                try:
                    messages = sender.notifications(0.01)
                except TransportClosed:
                    # A sender that has said everything may leave, unless all have and something is missing.
                    if f"{MANIFESTS}{number}" not in found or len(there) == 1:
                        raise
                    del there[number]
                    continue
                for message in messages:
                    self._take(message, found)
        return found

    def _take(self, message: bytes, found: dict[str, bytes]) -> None:
        said = json.loads(message)
        name, size = said["region"], said["nbytes"]
        text = bytes(self.arena.view(name)[:size])
        if digest_of(text) != said["digest"]:
            raise CheckpointDamaged(f"{name}: {size:,} bytes arrived with another digest")
        found[name] = text

    def _verified(self, manifest: Manifest) -> list[tuple[int, int]]:
        whole = self.arena.whole()
        for chunk in manifest.chunks:
            if digest_of(whole[chunk.offset : chunk.offset + chunk.nbytes]) != chunk.digest:
                raise CheckpointDamaged(
                    f"sender {manifest.sender}: the {chunk.nbytes:,} bytes at {chunk.offset:,} arrived with "
                    "another digest"
                )
        return [(chunk.offset, chunk.offset + chunk.nbytes) for chunk in manifest.chunks]

    def _complete(self, written: list[tuple[int, int]]) -> None:
        """Every byte of every shard was written by somebody; both lists walk along the arena once."""
        place = 0
        for shard in sorted(self.offer.shards, key=lambda shard: shard.offset):
            covered, end = shard.offset, shard.offset + shard.nbytes
            while place < len(written) and covered < end and written[place][0] <= covered:
                covered = max(covered, written[place][1])
                place += 1
            if covered < end:
                raise CheckpointDamaged(
                    f"{shard.name}: {end - covered:,} of {shard.nbytes:,} bytes never came"
                )

    def _hand_over(self, item: ReadItem, planner: LoadPlanner) -> None:
        target = planner.resolve_tensor(item).detach()
        offset = item.dest_index.offset
        shard = self._shard(item.dest_index.fqn, tuple(offset) if offset is not None else None)
        view = torch.frombuffer(self.arena.whole(), dtype=torch.uint8)
        held = view[shard.offset : shard.offset + shard.nbytes].view(target.dtype).view(shard.box.sizes)
        for dimension, (low, length) in enumerate(zip(item.dest_offsets, item.lengths, strict=True)):
            held = held.narrow(dimension, low, length)
        if target.data_ptr() != held.data_ptr():
            target.copy_(held)
            self.copied_bytes += target.nbytes
        planner.commit_tensor(item, target)

    def _shard(self, name: str, offset: tuple[int, ...] | None) -> Shard:
        shards = self._shards[name]
        if offset is None or len(shards) == 1:
            return shards[0]
        here = Box(offset, (1,) * len(offset))
        return next(shard for shard in shards if overlap(shard.box, here))
