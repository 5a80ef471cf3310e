"""StorageWriter and StorageReader: torch.distributed.checkpoint from arena to arena, no tensor serialised."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException

from monkeytree.agent.arena import Arena
from monkeytree.agent.pytorch import tensors
from monkeytree.agent.pytorch.manifest import CheckpointDamaged
from monkeytree.agent.pytorch.offer import Offer, make_arena, offer_of, place
from monkeytree.agent.pytorch.reader import ArenaReader
from monkeytree.agent.pytorch.writer import CHUNK_BYTES, STAGE, ArenaWriter, Destination

from .loopback import pair


def job(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A small model a few steps into its training."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(48, 32), nn.BatchNorm1d(32), nn.Linear(32, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01 * seed)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(16, 48)).square().mean().backward()
        optimizer.step()
    return model, optimizer


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def placed(model: nn.Module, optimizer: torch.optim.Optimizer, *, keep: bool) -> tuple[Arena, Offer]:
    state = state_of(model, optimizer)
    arena, offer = make_arena(state, senders=1)
    place(arena, state, keep=keep)
    return arena, offer


def test_a_save_is_a_load_elsewhere_and_no_tensor_is_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = job(1), job(2)
    expected = tensors.digest(*source)
    here, _ = placed(*source, keep=True)
    there, offer = placed(*target, keep=False)
    assert tensors.digest(*source) == expected != tensors.digest(*target)
    out, into = pair(here, there)
    writer = ArenaWriter(here, [Destination(out, Offer.read(offer.text()))])
    reader = ArenaReader(there, offer, [into])

    pickled: list[Any] = []
    save = torch.save

    def saved(value: Any, *rest: Any) -> None:
        pickled.append(value)
        save(value, *rest)

    monkeypatch.setattr(torch, "save", saved)
    dcp.save(state_of(*source), storage_writer=writer, no_dist=True)
    state = state_of(*target)
    dcp.load(state, storage_reader=reader, no_dist=True)
    target[1].load_state_dict(state["optimizer"])

    assert tensors.digest(*target) == expected
    assert reader.copied_bytes == 0  # they were where they belong before the load began
    assert writer.wire_bytes == sum(one.nbytes for one in tensors.tensors_of(*source))
    assert pickled
    assert not any(isinstance(value, torch.Tensor) for value in pickled)
    assert target[1].param_groups[0]["lr"] == 0.01


def test_a_changed_byte_is_found() -> None:
    source, target = job(1), job(2)
    here, _ = placed(*source, keep=True)
    there, offer = placed(*target, keep=False)
    out, into = pair(here, there, spoil=offer.shards[0].offset + 5)
    dcp.save(state_of(*source), storage_writer=ArenaWriter(here, [Destination(out, offer)]), no_dist=True)
    with pytest.raises(CheckpointDamaged, match="another digest"):
        ArenaReader(there, offer, [into]).receive()


def test_bytes_that_never_came_are_found() -> None:
    source, target = job(1), job(2)
    here, _ = placed(*source, keep=True)
    there, offer = placed(*target, keep=False)
    lame = Offer(tuple(one for one in offer.shards if not one.name.endswith("2.weight")), offer.layout)
    out, into = pair(here, there)
    state = state_of(*source)
    state["model"] = {name: value for name, value in state["model"].items() if name != "2.weight"}
    dcp.save(state, storage_writer=ArenaWriter(here, [Destination(out, lame)]), no_dist=True)
    with pytest.raises(CheckpointDamaged, match="never came"):
        ArenaReader(there, offer, [into]).receive()


def test_tensors_outside_of_the_arena_go_through_its_stage() -> None:
    big = torch.randn(3 * CHUNK_BYTES // 4 // 2)
    state, other = {"loose": big}, {"loose": torch.zeros_like(big)}
    there, offer = make_arena(other, senders=1)
    place(there, other, keep=False)
    rooms = [(one.name, one.nbytes) for one in offer.layout.regions if one.name.startswith("~")]
    here = Arena.create([*rooms, (STAGE, CHUNK_BYTES)])
    out, into = pair(here, there)
    dcp.save(state, storage_writer=ArenaWriter(here, [Destination(out, offer)]), no_dist=True)
    dcp.load(other, storage_reader=ArenaReader(there, offer, [into]), no_dist=True)
    assert torch.equal(other["loose"], big)
    bare = Arena.create(rooms)
    lame = ArenaWriter(bare, [Destination(pair(bare, there)[0], offer)])
    with pytest.raises(CheckpointException, match=STAGE):
        dcp.save(state, storage_writer=lame, no_dist=True)


def test_an_offer_says_where_everything_lies() -> None:
    source = job(1)
    arena, offer = placed(*source, keep=True)
    again = Offer.read(offer.text())
    assert again == offer == offer_of(arena, state_of(*source))
    weight = next(shard for shard in offer.shards if shard.name == "model.0.weight")
    lies = torch.frombuffer(
        arena.whole(), dtype=torch.float32, count=weight.nbytes // 4, offset=weight.offset
    )
    assert torch.equal(lies.view(32, 48), source[0].get_parameter("0.weight"))
