"""A plain worker moves while its job trains: nothing is lost, done twice or changed."""

from __future__ import annotations

import pytest

from .rig import Rig, eventually


@pytest.mark.parametrize("warm", [True, pytest.param(False, marks=pytest.mark.drill)], ids=["warm", "cold"])
def test_a_move(rig: Rig, warm: bool) -> None:
    for node in ("n1", "n2", "n3"):
        rig.agent(node)
    job = rig.job(["n1", "n1", "n2"])
    job.ready()
    before = job.worker(1)
    moving = job.begin(1, "n3", warm=warm).arm()
    for node in ("n1", "n2"):
        ended = moving.ended(node)
        assert (ended.state, ended.decision) == ("RELEASED", "commit"), ended
        assert ended.pause_s is not None
    source, target = moving.move_ended("n1", 1), moving.move_ended("n3", 1)
    assert source.state == target.state == "RELEASED"
    names = [phase.name for phase in source.phases]
    assert names == [
        "PREPARING",
        "PREPARED",
        "ARMED",
        "PAUSED",
        "SENDING",
        "VERIFIED",
        "DECIDED",
        "REFORMED",
        "RELEASED",
    ]
    assert source.bytes_sent == before.state_bytes
    assert 0 < source.figures["pause_s"] < 60
    moving.landed()
    assert job.worker(1).pid != before.pid
    eventually(lambda: [w.rank for w in rig.agents["n1"].client.workers().workers] == [0])
    job.assert_unharmed(job.stop())


def test_two_workers_move_in_one_pause_and_one_moves_on(rig: Rig) -> None:
    for node in ("n1", "n2", "n3"):
        rig.agent(node)
    job = rig.job(["n1", "n1", "n2"])
    job.ready()
    job.epoch = 1
    moving = job.move({0: "n3", 1: "n3"}, orders={"0": (2, 0, 1)})
    assert moving.ended("n2").decision == "commit"
    moving.landed()
    job.ready()
    again = job.move({1: "n1"})
    assert again.ended("n2").decision == "commit"
    again.landed()
    results = job.stop()
    job.assert_unharmed(results)
    assert {tuple(result["order"]) for result in results.values()} == {(2, 0, 1)}


def test_a_reorder_pauses_and_moves_nothing(rig: Rig) -> None:
    rig.agent("n1")
    job = rig.job(["n1", "n1"])
    job.ready()
    moving = job.move({}, orders={"0": (1, 0)})
    assert (moving.ended("n1").state, moving.ended("n1").decision) == ("RELEASED", "commit")
    results = job.stop()
    job.assert_unharmed(results)
    assert [result["order"] for result in results.values()] == [[1, 0], [1, 0]]


@pytest.mark.drill
def test_a_job_of_one_rank_moves(rig: Rig) -> None:
    rig.agent("n1")
    rig.agent("n2")
    job = rig.job(["n1"])
    job.ready()
    moving = job.begin(0, "n2").arm()
    assert moving.ended("n1").state == "RELEASED"
    moving.landed()
    assert job.worker(0).state == "training"
    job.assert_unharmed(job.stop())


@pytest.mark.drill
def test_a_job_whose_update_needs_all_ranks_moves(rig: Rig) -> None:
    for node in ("n1", "n2"):
        rig.agent(node)
    job = rig.job(["n1", "n1"], more=["--shared-update"])
    job.ready()
    moving = job.begin(1, "n2").arm()
    assert moving.ended("n1").state == "RELEASED"
    assert moving.move_ended("n2", 1).state == "RELEASED"
    moving.landed()
    job.assert_unharmed(job.stop())
