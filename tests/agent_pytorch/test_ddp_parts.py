"""Around the sums of a DistributedDataParallel job: refusals, what goes with a rank, the loader's place."""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from monkeytree.agent.pytorch import carried
from monkeytree.agent.pytorch.ddp import Batches, Misplaced, NotMovable, Place, ShardSampler, Training
from monkeytree.agent.pytorch.refusals import check_model, check_optimizer, check_state
from monkeytree.agent.pytorch.state import TrainingState
from monkeytree.agent.pytorch.store import main as serve
from monkeytree.agent.pytorch.wrapping import REFUSED
from monkeytree.agent.standby import STANDBY_VARIABLE

from .forking import forked, hosted_store

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "training" / "ddp.py"


@pytest.fixture
def port() -> Iterator[int]:
    with hosted_store() as found:
        yield found


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "multi_step": lambda it: lr_scheduler.MultiStepLR(it, [2, 5], 0.1),
    "cosine": lambda it: lr_scheduler.CosineAnnealingLR(it, 20),
    "one_cycle": lambda it: lr_scheduler.OneCycleLR(it, 0.1, 30),
    "plateau": lambda it: lr_scheduler.ReduceLROnPlateau(it, patience=1),
    "lambda": lambda it: lr_scheduler.LambdaLR(it, lambda step: 1 / (1 + step)),
    "sequence": lambda it: lr_scheduler.SequentialLR(
        it, [lr_scheduler.ConstantLR(it, 0.1), lr_scheduler.ExponentialLR(it, 0.9)], [3]
    ),
}


@pytest.mark.parametrize("name", list(SCHEDULERS))
def test_a_schedule_goes_on_where_it_was(name: str) -> None:
    def steps(optimizer: Any, scheduler: Any, first: int, last: int) -> list[float]:
        rates = []
        for step in range(first, last):
            optimizer.step()
            scheduler.step(*([1.0 + 0.1 * (step % 3)] if name == "plateau" else []))
            rates.append(optimizer.param_groups[0]["lr"])
        return rates

    def made() -> tuple[Any, Any, TrainingState]:
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        scheduler = SCHEDULERS[name](optimizer)
        state = TrainingState(model, optimizer, {"scheduler": scheduler}, {}, 0, keep=True)
        return optimizer, scheduler, state

    optimizer, scheduler, state = made()
    steps(optimizer, scheduler, 0, 4)
    document = state.pack(4)
    expected = steps(optimizer, scheduler, 4, 12)
    optimizer, scheduler, state = made()
    assert state.restore(document) == 4
    assert steps(optimizer, scheduler, 4, 12) == expected


def test_what_goes_with_a_rank_comes_back_as_it_was() -> None:
    value = {
        "tensor": torch.tensor([1.5, -0.0, float("inf")], dtype=torch.bfloat16), "empty": torch.empty(0, 3),
        "scalar": torch.tensor(7), "bytes": b"\0\xff", 3: (1, [2.0, None]), (1, 2): {"deep": {0.1: True}},
    }  # fmt: skip
    found = carried.load(json.loads(json.dumps(carried.dump(value, "it"))))
    for name in ("tensor", "empty", "scalar"):
        ours, theirs = value.pop(name), found.pop(name)
        assert (ours.dtype, ours.shape, ours.tolist()) == (theirs.dtype, theirs.shape, theirs.tolist())
    assert found == value
    with pytest.raises(NotMovable, match=r"it\['hook'\] is a builtins.function"):
        carried.dump({"hook": lambda: 0}, "it")
    with pytest.raises(NotMovable, match="4,000,000 bytes"):
        carried.dump(torch.zeros(1_000_000), "it")
    with pytest.raises(NotMovable, match="the same script"):
        carried.restore({}, {"data": carried.dump({}, "data")})


@pytest.mark.parametrize(("at", "workers"), [(0, 0), (3, 0), (7, 0), (8, 0), (19, 0), (3, 2)])
def test_batches_go_on_in_mid_epoch(at: int, workers: int) -> None:
    expected, numbers = drawn(made_batches(workers), 20), torch.rand(1)
    first = made_batches(workers)
    assert drawn(first, at) == expected[:at]
    place, random = json.loads(json.dumps(first.state_dict())), torch.get_rng_state()
    second = made_batches(workers)
    drawn(second, 2)
    second.load_state_dict(place)
    torch.set_rng_state(random)
    assert drawn(second, 20 - at) == expected[at:]
    assert torch.equal(torch.rand(1), numbers)  # nothing was drawn of what dropout draws from


def made_batches(workers: int) -> Batches:
    torch.manual_seed(5)
    dataset = TensorDataset(torch.arange(50))
    sampler = ShardSampler(dataset, num_replicas=2, rank=1, seed=3)
    return Batches(DataLoader(dataset, 3, sampler=sampler, drop_last=True, num_workers=workers))


def drawn(batches: Batches, count: int) -> list[list[int]]:
    return [next(batches)[0].tolist() for _ in range(count)]


def test_a_loader_whose_place_nobody_knows_is_refused() -> None:
    dataset = TensorDataset(torch.arange(4))
    with pytest.raises(NotMovable, match="sampler=ShardSampler"):
        Batches(DataLoader(dataset, 2, shuffle=True))
    with pytest.raises(NotMovable, match="no batch in epoch 0"):
        next(Batches(DataLoader(dataset, 8, drop_last=True)))


def test_models_that_cannot_move_are_refused() -> None:
    meta = nn.Linear(2, 2, device="meta")
    with pytest.raises(NotMovable, match=r"weight is on meta: .*docs/training.md"):
        check_model(meta)
    crooked = nn.Linear(2, 3)
    crooked.weight = nn.Parameter(torch.zeros(2, 3).t())
    with pytest.raises(NotMovable, match="weight is not contiguous"):
        check_model(crooked)
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = nn.Parameter(tied[0].weight.detach())
    with pytest.raises(NotMovable, match=r"1.weight shares its memory with 0.weight"):
        check_model(tied)
    tied[1].weight = tied[0].weight
    check_model(tied)


def test_optimizers_whose_state_has_no_place_yet_are_refused() -> None:
    model = nn.Linear(2, 2)
    for optimizer in (torch.optim.NAdam(model.parameters()), torch.optim.Rprop(model.parameters())):
        with pytest.raises(NotMovable, match=r"take its first step before|let it take its first step"):
            check_optimizer(optimizer)
    with pytest.raises(NotMovable, match="SGD with dampening"):
        check_optimizer(torch.optim.SGD(model.parameters(), momentum=0.9, dampening=0.1))
    stepped = torch.optim.NAdam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    stepped.step()
    check_optimizer(stepped)
    check_state(model, stepped)
    stepped.state[model.weight]["count"] = 3
    with pytest.raises(NotMovable, match="keeps count of weight as a int"):
        check_state(model, stepped)
    with pytest.raises(NotMovable, match="pass both whole"):
        check_state(nn.Linear(2, 2), stepped)


def test_a_buffer_that_was_assigned_anew_comes_back_into_the_arena() -> None:
    model = nn.BatchNorm1d(2)
    state = TrainingState(model, adamw(model), {}, {}, 0, keep=True)
    model.running_mean = torch.tensor([3.0, 4.0])
    state.hand_over(1)
    held = torch.frombuffer(state.arena.view("model/running_mean"), dtype=torch.float32)
    assert held.tolist() == [3.0, 4.0]
    assert model.running_mean is not None
    assert model.running_mean.data_ptr() == held.data_ptr()


def test_an_iteration_that_is_taken_back_takes_buffers_back() -> None:
    model = nn.BatchNorm1d(2)
    state = TrainingState(model, adamw(model), {}, {}, 0, keep=True)
    document, before = state.remember(0), state.digest()
    model(torch.randn(4, 2))
    assert state.digest() != before
    assert state.restore(document) == 0
    assert state.digest() == before


def test_who_a_process_is() -> None:
    environ = {
        "RANK": "2",
        "WORLD_SIZE": "4",
        "MASTER_ADDR": "head",
        "MASTER_PORT": "29500",
        "SLURM_JOB_ID": "7",
    }
    assert Place.of_environment(environ) == Place("7", 2, 4, "head", 29_500)
    calling = json.dumps({"mover": "m", "agent": "a", "job": "9", "group": "0", "rank": 3})
    standby = Place.of_environment({**environ, STANDBY_VARIABLE: calling})
    assert (standby.job, standby.rank, standby.standby) == ("9", 3, True)
    with pytest.raises(NotMovable, match="MASTER_PORT is '': start the script with torchrun"):
        Place.of_environment({**environ, "MASTER_PORT": ""})
    with pytest.raises(NotMovable, match="ranks count from 0"):
        Place.of_environment({**environ, "RANK": "4"})
    told = Place("7", 2, 4, "head", 1).standby_env({"A": "b"})
    assert (told["RANK"], told["MONKEYTREE_JOB"], told["A"]) == ("2", "7", "b")


def test_a_store_on_a_taken_port_says_so(port: int) -> None:
    with pytest.raises(SystemExit, match=f"cannot serve a store at 127.0.0.1:{port}: .*; name another"):
        serve([f"127.0.0.1:{port}"])
    with pytest.raises(SystemExit, match=r"cannot serve a store at 127\.0\.0\.1:nonsense"):
        serve(["nonsense"])


def test_a_job_without_a_store_is_told_how_to_have_one(port: int) -> None:
    def work(_: int) -> None:
        place = Place("A", 0, 1, "127.0.0.1", 1)
        with pytest.raises(NotMovable, match=r"python -m monkeytree.agent.pytorch.store 127.0.0.1:1"):
            place.open_store(0.5)

    assert forked(1, work) == [0]


def test_calls_at_the_wrong_place_are_refused_at_once(port: int) -> None:
    def work(rank: int) -> None:
        model = nn.Linear(2, 1)
        place, optimizer = Place("A", rank, 2, "127.0.0.1", port), adamw(model)
        for name, why in REFUSED.items():
            with pytest.raises(NotMovable, match=name) as refused:
                Training(model, optimizer, place, **{name: 1})
            assert why in str(refused.value)
        training = Training(model, optimizer, place)
        with pytest.raises(Misplaced, match="has not begun"):
            training.mean(1.0)
        with pytest.raises(Misplaced, match="belongs into"):
            optimizer.step()
        wrong(training, lambda: (optimizer.step(), optimizer.step()), "belongs into `with iteration`, once")
        wrong(training, lambda: (optimizer.step(), training.mean(1.0)), "has stepped in this iteration")
        wrong(training, lambda: optimizer.step(lambda: 0.0), "closure", NotMovable)
        second = torch.optim.SGD([model.bias], lr=1e-2)
        wrong(training, second.step, "a second optimizer \\(SGD\\) trains parameters", NotMovable)
        with pytest.raises(Misplaced, match="has failed"):
            training.mean(1.0)
        training.close()
        second.step()  # the training is over

    assert forked(2, work) == [0, 0]


def wrong(training: Training, body: Callable[[], Any], said: str, kind: type[Exception] = Misplaced) -> None:
    """The body is refused, and the iteration was none."""
    before = training.step

    def iterate() -> None:
        for iteration in training.iterations(before + 1):
            with iteration:
                body()

    with pytest.raises(kind, match=said):
        iterate()
    assert training.step == before


def test_the_example_trains(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"WORLD_SIZE": "2", "MASTER_PORT": str(port), "MONKEYTREE_JOB": "A", "MONKEYTREE_AGENT": ""}

    def work(rank: int) -> None:
        os.environ.update(environ, RANK=str(rank))
        monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--steps", "4"])
        runpy.run_path(str(EXAMPLE), run_name="__main__")

    assert forked(2, work) == [0, 0]
