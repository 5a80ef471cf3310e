"""A checkpoint of two gloo ranks over sockets: replicated tensors once, sharded ones cut anew."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from monkeytree.agent.pytorch.manifest import CheckpointDamaged
from monkeytree.agent.pytorch.meeting import End, destination, meet, offer_to
from monkeytree.agent.pytorch.offer import make_arena, place
from monkeytree.agent.pytorch.reader import ArenaReader
from monkeytree.agent.pytorch.store import TorchStore, open_store
from monkeytree.agent.pytorch.writer import ArenaWriter
from monkeytree.agent.transports.stream import StreamTransport
from monkeytree.agent.transports.transport import TransportOptions

from .forking import forked, hosted_store

RANKS = 2


def state(kinds: dict[str, Any], seed: int) -> dict[str, Any]:
    """The same global tensors on every rank, cut as ``kinds`` says; and one that is simply replicated."""
    mesh = init_device_mesh("cpu", (RANKS,))
    torch.manual_seed(seed)
    whole = {name: torch.randn(6, 10) for name in kinds}
    cut = {name: distribute_tensor(whole[name], mesh, [kind]) for name, kind in kinds.items()}
    return {**cut, "replica": torch.randn(1000), "step": seed}


def full(value: Any) -> Any:
    return value.full_tensor() if isinstance(value, DTensor) else value


def transfer(rank: int, port: int, corrupt: bool) -> None:
    store = open_store(port)
    dist.init_process_group("gloo", store=dist.PrefixStore("pg", store), rank=rank, world_size=RANKS)
    source = state({"rows": Shard(0), "columns": Shard(1), "copies": Replicate()}, seed=1)
    target = state({"rows": Shard(0), "columns": Shard(0), "copies": Shard(1)}, seed=2)
    here, _ = make_arena(source, senders=RANKS)
    there, offer = make_arena(target, senders=RANKS)
    place(here, source)
    place(there, target, keep=False)

    jobs = TorchStore(store)
    faults = ("corrupt:0",) if corrupt and rank == 0 else ()
    out = [stream(f"{rank}>{to}", faults, receiving=False) for to in range(RANKS)]
    into = [stream(f"{sender}>{rank}", (), receiving=True) for sender in range(RANKS)]
    offer_to(jobs, f"d{rank}", offer)
    both(out, into, rank, here, there, jobs)
    writer = ArenaWriter(here, [destination(jobs, f"d{to}", out[to]) for to in range(RANKS)], rank)
    reader = ArenaReader(there, offer, into)
    dcp.save(source, storage_writer=writer)
    if corrupt:
        with pytest.raises(CheckpointDamaged, match="another digest"):
            reader.receive()
        return
    reader.receive()
    dcp.load(target, storage_reader=reader)
    for name, value in source.items():
        expected, got = full(value), full(target[name])
        assert torch.equal(expected, got) if isinstance(expected, torch.Tensor) else expected == got, name
    assert reader.copied_bytes == 0
    # Rows and columns go once, cut as the destination wants; the replica goes to both, from one rank.
    written = torch.tensor([writer.wire_bytes])
    dist.all_reduce(written)
    assert written.item() == 4 * (60 + 60 + 60 + 2 * 1000)


def stream(token: str, faults: tuple[str, ...], *, receiving: bool) -> StreamTransport:
    return StreamTransport(TransportOptions(token=token, timeout_s=30.0, faults=faults), receiving=receiving)


def both(out: Any, into: Any, rank: int, here: Any, there: Any, jobs: TorchStore) -> None:
    """Connect all ends at once: each waits for its other one."""
    senders = [End(one, f"{rank}>{to}", False) for to, one in enumerate(out)]
    receivers = [End(one, f"{sender}>{rank}", True) for sender, one in enumerate(into)]
    with ThreadPoolExecutor(2) as pool:
        works = [pool.submit(meet, senders, here, jobs), pool.submit(meet, receivers, there, jobs)]
        for work in works:
            work.result()


def test_replicated_and_sharded_state_goes_over_and_is_cut_anew() -> None:
    with hosted_store() as port:
        assert forked(RANKS, lambda rank: transfer(rank, port, corrupt=False)) == [0] * RANKS


def test_a_byte_changed_on_the_wire_is_found_by_every_destination_it_went_to() -> None:
    with hosted_store() as port:
        assert forked(RANKS, lambda rank: transfer(rank, port, corrupt=True)) == [0] * RANKS
