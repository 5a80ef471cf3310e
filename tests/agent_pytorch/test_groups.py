"""gloo groups that re-form, and torch's store as a job's; real processes, forked from this one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import torch

from monkeytree.agent.pytorch.groups import Bucket, GlooGroup, GroupBroken
from monkeytree.agent.pytorch.store import TorchStore, host_store, open_store
from monkeytree.agent.store import StoreLost

from .forking import PATIENCE_S, forked, hosted_store


@pytest.fixture
def port() -> Iterator[int]:
    with hosted_store() as found:
        yield found


def test_a_lost_rank_is_noticed_by_all_and_the_rest_form_again(port: int) -> None:
    def work(rank: int) -> None:
        store = open_store(port)
        group = GlooGroup(store, "1", rank, 4, timeout_s=PATIENCE_S)
        values = torch.full((1000,), float(rank))
        group.sum([values])
        assert values[0] == 6.0
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        # Long before the time limit: the neighbours tell the others.
        with pytest.raises(GroupBroken):
            group.sum([values])
        again = GlooGroup(store, "2", {0: 0, 1: 1, 3: 2}[rank], 3, timeout_s=PATIENCE_S)
        ones = torch.ones(3)
        again.sum([ones])
        assert ones.tolist() == [3.0] * 3

    assert forked(4, work) == [0, 0, -signal.SIGKILL, 0]


def test_who_never_comes_is_not_waited_for(port: int) -> None:
    def work(rank: int) -> None:
        with pytest.raises(GroupBroken, match="2 of 3 ranks came"):
            GlooGroup(open_store(port), "1", rank, 3, timeout_s=1.0)

    assert forked(2, work) == [0, 0]


def test_gradients_and_losses_are_averaged(port: int) -> None:
    def work(rank: int) -> None:
        group = GlooGroup(open_store(port), "1", rank, 2)
        layer = torch.nn.Linear(2, 1)
        bucket = Bucket(layer.parameters())
        layer.weight.grad = torch.full((1, 2), float(rank))  # the bias has none
        assert bucket.reduce(group, torch.tensor(float(4 * rank))) == (2.0, False)
        assert bucket.reduce(group, torch.tensor(1.0), stop=rank == 1) == (1.0, True)
        assert layer.weight.grad.tolist() == [[0.5, 0.5]]  # an average of averages

    assert forked(2, work) == [0, 0]


def test_the_store_keeps_the_promises_of_a_job_store(port: int) -> None:
    def work(_: int) -> None:
        store = TorchStore(open_store(port))
        assert store.get("a") == ""
        assert not store.check(["a"])
        assert store.compare_set("a", "old", "new") == ""  # nothing there: not set
        assert store.compare_set("a", "", "one") == "one"
        assert store.compare_set("a", "", "two") == "one"
        assert store.compare_set("a", "one", "two") == "two" == store.get("a")
        assert not store.wait(["a", "b"], 0.05)
        store.set("b", "x")
        assert store.wait(["a", "b"], 0.05)
        store.delete("b")
        assert store.get("b") == ""

    assert forked(1, work) == [0]


def test_a_store_that_is_gone_is_said_to_be() -> None:
    def work(_: int) -> None:
        store = host_store()
        client = TorchStore(open_store(store.port))
        client.set("a", "b")
        del store
        with pytest.raises(StoreLost):
            client.get("a")

    assert forked(1, work) == [0]
