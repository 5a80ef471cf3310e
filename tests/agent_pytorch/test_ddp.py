"""DistributedDataParallel over groups that form anew: the same bits whatever becomes of wrapper and group."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from monkeytree.agent.membership import Member, Membership
from monkeytree.agent.pytorch.ddp import GroupBroken, Place, Training
from monkeytree.agent.pytorch.groups import GlooGroup
from monkeytree.agent.pytorch.reforming import ReformingGroup
from monkeytree.agent.pytorch.store import open_store
from monkeytree.agent.pytorch.sums import cut

from .ddp_job import BATCH, FEATURES, MICRO, Net, iterate, make
from .forking import forked, hosted_store

RANKS = 3
STEPS = 5


@pytest.fixture
def port() -> Iterator[int]:
    with hosted_store() as found:
        yield found


def place(port: int, rank: int, job: str = "A", ranks: int = RANKS) -> Place:
    return Place(job, rank, ranks, "127.0.0.1", port)


def run(training: Training, batches: Any, rest: Any, steps: int) -> list[str]:
    found = []
    for iteration in training.iterations(steps):
        with iteration:
            found.append(iterate(training, batches, rest)[0].hex())
    return found


def test_sums_do_not_depend_on_buckets_nor_on_when_the_wrapper_was_made(port: int) -> None:
    """Other buckets, a wrapper that is made anew in mid-training, a group that is: all the same."""
    options: dict[str, dict[str, Any]] = {
        "plain": {},
        "tiny": {"bucket_cap_mb": 0.1},
        "views": {"gradient_as_bucket_view": True, "bucket_cap_mb": 1},
        "unused": {"find_unused_parameters": True},
    }

    def work(rank: int) -> None:
        found = []
        for job, chosen in options.items():
            training, batches, rest = make(place(port, rank, job), **chosen)
            losses = run(training, batches, rest, 2)
            if job != "plain":
                training._iteration = object()  # as if it had failed half-way
                training._rebind(membership())
                training._wrapping.clear()
            losses += run(training, batches, rest, STEPS)
            found.append((losses, training.digest()))
        assert all(one == found[0] for one in found), [one == found[0] for one in found]

    assert forked(RANKS, work) == [0] * RANKS


def membership() -> Membership:
    members = tuple(Member("0", rank, f"n{rank}") for rank in range(RANKS))
    return Membership(1, 1, 2, members, timeout_s=60.0)


def test_it_is_the_training_of_plain_ddp(port: int) -> None:
    """As near as sums in another order can be; exactly so on two ranks, where there is one order only."""

    def work(rank: int) -> None:
        training, batches, rest = make(place(port, rank, ranks=2))
        ours = run(training, batches, rest, STEPS)
        theirs = plain(rank, port)
        assert ours == theirs

    assert forked(2, work) == [0, 0]


def plain(rank: int, port: int) -> list[str]:
    """The same by torch's own means."""
    store = dist.PrefixStore("plain", dist.TCPStore("127.0.0.1", port, is_master=False))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    other, batches, (optimizer, _) = make(place(port, 0, f"alone{rank}", ranks=1))
    del other
    torch.manual_seed(1)
    model = Net()
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 6, 12], 0.7)
    batches._loader.sampler.num_replicas, batches._loader.sampler.rank = 2, rank
    batches._loader.sampler.num_samples, batches._loader.sampler.total_size = 45, 90
    torch.manual_seed(100 + rank)
    losses = []
    for _ in range(STEPS):
        own = 0.0
        optimizer.zero_grad()
        for part in range(MICRO):
            inputs, labels = next(batches)
            ddp.require_backward_grad_sync = part == MICRO - 1
            loss = torch.nn.functional.cross_entropy(ddp(inputs), labels) / MICRO
            loss.backward()
            own += float(loss.detach())
        total = torch.tensor([own], dtype=torch.float64)
        dist.all_reduce(total)
        losses.append(float(total / 2).hex())
        optimizer.step()
        scheduler.step()
    dist.destroy_process_group()
    return losses


def test_a_rank_that_dies_is_noticed_by_all(port: int, tmp_path: Path) -> None:
    def work(rank: int) -> None:
        training, batches, rest = make(place(port, rank, ranks=4))
        run(training, batches, rest, 2)
        began = time.monotonic()
        if rank == 1:
            next(batches)
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(GroupBroken):
            run(training, batches, rest, 4)
        assert training.step == 2
        (tmp_path / str(rank)).write_text(str(time.monotonic() - began))

    assert forked(4, work) == [0, -signal.SIGKILL, 0, 0]
    # Operations have 120 s: nobody has waited for that limit.
    assert all(float(one.read_text()) < 60 for one in tmp_path.iterdir())


def test_ranks_are_those_of_the_job_in_whatever_order_the_ring_goes(port: int) -> None:
    def work(rank: int) -> None:
        order = (2, 0, 1)
        group = ReformingGroup(rank, RANKS)
        group.order = order
        group.group = GlooGroup(open_store(port), "1", order.index(rank), RANKS)
        value, gathered = torch.tensor([float(rank)]), [torch.zeros(1) for _ in range(RANKS)]
        group.allgather([gathered], [value]).wait()
        assert [float(one) for one in gathered] == [0.0, 1.0, 2.0]
        told = dist.BroadcastOptions()
        told.rootRank = 1
        group.broadcast([value], told)
        assert float(value) == 1.0
        with group.dry():
            assert group.allreduce(value).get_future().value() is value
        assert float(value) == 1.0
        group.allreduce([value])
        assert float(value) == 3.0
        group.barrier()

    assert forked(RANKS, work) == [0] * RANKS


def test_pieces_follow_from_the_model() -> None:
    model = Net()
    pieces = cut([one for one in model.parameters() if one.requires_grad])
    names = {one: name for name, one in model.named_parameters()}
    assert [[names[one] for one in piece.parameters] for piece in pieces] == [
        ["last.bias", "last.weight", "wide.bias"],
        ["wide.weight"],
        ["norm.bias", "norm.weight", "first.bias", "first.weight"],
    ]
    assert model(torch.randn(BATCH, FEATURES)).shape == (BATCH, 3)
