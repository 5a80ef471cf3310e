"""A worker's tensors in an arena, and what else it needs: training goes on to the last bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from monkeytree.agent.arena import Arena
from monkeytree.agent.pytorch import extras, tensors
from monkeytree.agent.pytorch.job import JobSpec, Rank
from monkeytree.agent.pytorch.model import Shape, Transformer, shape_for

SPEC = JobSpec("a", 1, 10, 1.0, "", 0)


def iterate(rank: Rank, count: int) -> list[str]:
    losses = []
    for _ in range(count):
        losses.append(float(rank.forward_backward()).hex())
        rank.update()
    return losses


def in_arena(rank: Rank, *, keep: bool) -> Arena:
    arena = Arena.create(list(rank.sizes().items()))
    rank.adopt(arena, keep=keep)
    return arena


def test_priming_changes_nothing() -> None:
    rank = Rank(SPEC, 0)
    primed = iterate(rank, 4)
    torch.manual_seed(SPEC.seed)
    model = Transformer(rank.shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=SPEC.rate, fused=True)
    other = Rank(SPEC, 0)
    other.model, other.optimizer = model, optimizer  # never primed
    assert iterate(other, 4) == primed
    assert other.digest() == rank.digest()


def test_training_in_an_arena_is_the_same_training() -> None:
    plain, moved = Rank(SPEC, 0), Rank(SPEC, 0)
    expected = iterate(plain, 3)
    Rank(SPEC, 0)  # sets the random state again
    arena = in_arena(moved, keep=True)
    assert iterate(moved, 3) == expected
    weight = moved.model.tokens.weight
    held = torch.frombuffer(arena.view("model/tokens.weight"), dtype=torch.float32)
    assert weight.data_ptr() == held.data_ptr()
    assert torch.equal(held.view_as(weight), weight.detach())


@pytest.mark.parametrize("at", [0, 3])
def test_a_copied_arena_and_the_extras_go_on_to_the_last_bit(at: int) -> None:
    source = Rank(SPEC, 3)
    arena = in_arena(source, keep=True)
    iterate(source, at)
    document, held = source.pack(), bytes(arena.whole())
    expected = iterate(source, 4)

    target = Rank(SPEC, 0)
    there = in_arena(target, keep=False)
    iterate(target, 1)  # whatever happened before is forgotten
    there.whole()[:] = held
    target.unpack(document)
    assert (target.step, target.rank) == (at, 3)
    assert iterate(target, 4) == expected
    assert target.digest() == source.digest()


def test_rates_of_a_schedule_and_other_generators_travel() -> None:
    rank = Rank(SPEC, 0)
    rank.optimizer.param_groups[0].update(lr=0.125, betas=(0.5, 0.75))
    document = extras.pack(5, 0, rank.optimizer, {"data": rank.data}, {"epoch": 2})
    other = Rank(SPEC, 0)
    found = extras.unpack(document, other.optimizer, {"data": other.data})
    assert found["more"] == {"epoch": 2}
    group = other.optimizer.param_groups[0]
    assert (group["lr"], group["betas"]) == (0.125, (0.5, 0.75))
    with pytest.raises(ValueError, match="generators"):
        extras.unpack(document, other.optimizer, {})
    with pytest.raises(ValueError, match="format 9"):
        extras.unpack(b'{"format": 9}', other.optimizer, {})


def test_state_that_cannot_lie_in_an_arena_is_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        tensors.tensor_over(memoryview(bytearray(16)), torch.zeros(2, 2).t())
    with pytest.raises(ValueError, match="12 bytes"):
        tensors.tensor_over(memoryview(bytearray(12)), torch.zeros(2, 2))
    model = torch.nn.Linear(2, 2)
    stranger = torch.optim.AdamW(torch.nn.Linear(2, 2).parameters())
    tensors.prime(stranger)
    with pytest.raises(ValueError, match="pass both whole"):
        tensors.tensors_of(model, stranger)


@pytest.mark.parametrize("asked", [1e6, 25e6, 1e9, 12e9])
def test_a_shape_is_about_as_large_as_asked(asked: float) -> None:
    shape = shape_for(asked)
    assert shape.parameters * 12 == pytest.approx(asked, rel=0.25)


def test_the_parameters_of_a_shape_are_counted() -> None:
    shape = Shape(128, 2)
    assert shape.parameters == sum(one.numel() for one in Transformer(shape).parameters())


def test_a_spec_is_read_back_and_strangers_are_refused(tmp_path: Path) -> None:
    spec = JobSpec("a", 4, 10, 1e6, str(tmp_path), 1234)
    assert JobSpec.read(spec.text()) == spec
    with pytest.raises(ValueError, match="world_size"):
        JobSpec.read('{"ranks": 3}')
