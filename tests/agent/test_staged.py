"""A staged move: the state waits in its node's memory while its slot is free for somebody else."""

from __future__ import annotations

import pytest

from monkeytree.wire.agents import Command, Deadlines, MoveStatus

from .rig import Job, Moving, Rig, eventually


def park(rig: Rig, job: Job, moving: Moving) -> MoveStatus:
    """Steps up to the pause, without a destination."""
    move_id, here = moving.move_id(1), moving.client("n1")
    here.put_move(move_id, moving.request(1, "source"))
    here.prepare_move(move_id, moving.command)
    moving.until("n1", move_id, "PREPARED")
    here.start_move(move_id, moving.command)
    moving.pause()
    status: MoveStatus = eventually(lambda: (s := here.move(move_id)).parked and s, why="the state is parked")
    eventually(lambda: [w.state for w in here.workers().workers if w.rank == 1] == ["parked"])
    assert here.workers().workers[-1].slots == 0
    return status


def test_a_staged_move_parks_and_lands(rig: Rig) -> None:
    for node in ("n1", "n2", "n3"):
        rig.agent(node)
    job = rig.job(["n3", "n1"])
    job.ready()
    moving = job.begin(1, "n2", staged=True)
    landing = moving.request(1, "destination")
    park(rig, job, moving)
    move_id = moving.move_id(1)
    moving.client("n2").put_move(move_id, landing)
    moving.client("n2").prepare_move(move_id, moving.command)
    there = moving.until("n2", move_id, "PREPARED")
    moving.client("n2").start_move(move_id, moving.command)
    moving.client("n1").start_move(move_id, Command(moving.epoch, there.descriptor))
    for node in ("n1", "n3"):
        ended = moving.ended(node)
        assert (ended.state, ended.decision) == ("RELEASED", "commit"), str((ended.error, ended.phases))
    for node in ("n1", "n2"):
        assert moving.move_ended(node, 1).state == "RELEASED"
    moving.landed()
    assert job.worker(1).state == "training"
    assert [w for w in rig.agents["n1"].client.workers().workers if w.rank == 1] == []
    job.assert_unharmed(job.stop())


def test_a_parked_state_that_nobody_fetches_goes_home(rig: Rig) -> None:
    rig.agent("n1")
    rig.agent("n3")
    job = rig.job(["n3", "n1"])
    job.ready()
    before = job.worker(1).pid
    moving = job.begin(1, "n2", staged=True, deadlines=Deadlines(20.0, 10.0, 4.0, 20.0))
    park(rig, job, moving)
    ended = moving.move_ended("n1", 1)
    assert ended.state == "ABORTED"
    assert ended.error is not None
    assert ended.error["code"] == "returned"
    assert moving.ended("n3").decision == "abort"
    assert job.worker(1).pid != before
    job.assert_unharmed(job.stop())


@pytest.mark.drill
def test_a_parked_state_goes_home_when_it_is_aborted(rig: Rig) -> None:
    rig.agent("n1")
    rig.agent("n3")
    job = rig.job(["n3", "n1"])
    job.ready()
    moving = job.begin(1, "n2", staged=True)
    park(rig, job, moving)
    moving.client("n1").abort_move(moving.move_id(1), moving.command)
    assert moving.move_ended("n1", 1).state == "ABORTED"
    assert job.worker(1).state == "training"
    job.assert_unharmed(job.stop())


@pytest.mark.drill
def test_a_parked_state_goes_home_when_the_landing_dies_in_its_first_iteration(rig: Rig) -> None:
    for node in ("n1", "n2", "n3"):
        rig.agent(node)
    job = rig.job(["n3", "n1"], more=["--slow-first", "2.0"])
    job.ready()
    moving = job.begin(1, "n2", staged=True)
    landing = moving.request(1, "destination")
    park(rig, job, moving)
    move_id, there = moving.move_id(1), moving.client("n2")
    there.put_move(move_id, landing)
    there.prepare_move(move_id, moving.command)
    descriptor = moving.until("n2", move_id, "PREPARED").descriptor
    there.start_move(move_id, moving.command)
    moving.client("n1").start_move(move_id, Command(moving.epoch, descriptor))
    moving.until("n2", move_id, "REFORMED")
    for mover in rig.agents["n2"].movers():
        for standby in mover.children():
            standby.kill()
    ended = moving.move_ended("n1", 1)
    assert ended.error is not None
    assert ended.error["code"] == "returned"
    assert moving.ended("n3").decision == "undo"
    assert job.worker(1).state == "training"
    job.assert_unharmed(job.stop())
