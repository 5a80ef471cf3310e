"""Faults on the way: each ends the move within its deadline, and the job trains on."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from monkeytree.agent.arena import Arena
from monkeytree.agent.channel import Channel, Message
from monkeytree.agent.main import Agent, BadOption
from monkeytree.agent.mover import Config, Event
from monkeytree.agent.mover_source import SourceMover
from monkeytree.agent.options import Options
from monkeytree.wire.agents import Deadlines, MoveRequest, dump

from .rig import Rig, eventually

QUICK = Deadlines(15.0, 10.0, 6.0, 10.0)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("corrupt:1", "corrupt_chunk"),
        pytest.param("stall:1", "transport_timeout", marks=pytest.mark.drill),
    ],
    ids=["corrupt chunk", "source falls silent"],
)
def test_a_fault_on_the_wire(rig: Rig, fault: str, code: str) -> None:
    rig.agent("n1", faults=(fault,), chunk_timeout_s=1.0)
    rig.agent("n2", chunk_timeout_s=1.0)
    job = rig.job(["n1"], state=20 * 2**20)
    job.ready()
    moving = job.begin(0, "n2", deadlines=QUICK).arm()
    assert moving.ended("n1").decision == "abort"
    target = moving.move_ended("n2", 0)
    assert target.error is not None
    assert target.error["code"] == code
    assert moving.move_ended("n1", 0).state == "ABORTED"
    assert job.worker(0).state == "training"
    job.assert_unharmed(job.stop(), state=20 * 2**20)


def test_a_peer_that_stops_answering_without_closing(rig: Rig) -> None:
    rig.agent("n1", chunk_timeout_s=1.0)
    there = rig.agent("n2", chunk_timeout_s=1.0)
    job = rig.job(["n1"], state=20 * 2**20)
    job.ready()
    moving = job.begin(0, "n2", deadlines=QUICK)
    moving.put()
    moving.prepare()
    moving.start()
    mover = there.movers()[0].pid
    os.kill(mover, signal.SIGSTOP)
    moving.pause()
    assert moving.ended("n1").decision == "abort"
    os.kill(mover, signal.SIGCONT)
    assert moving.move_ended("n1", 0).state == moving.move_ended("n2", 0).state == "ABORTED"
    job.assert_unharmed(job.stop(), state=20 * 2**20)


def test_a_controller_that_dies_between_two_calls(rig: Rig) -> None:
    """Only some ranks are armed: they call the pause off, and are free for the next one."""
    rig.agent("n1")
    rig.agent("n2")
    job = rig.job(["n1", "n2"])
    job.ready()
    moving = job.begin(0, "n2", deadlines=Deadlines(15.0, 1.0, 1.0, 10.0))
    moving.put()
    moving.prepare()
    moving.start()
    moving.client("n1").put_pause(moving.pause_id, moving.pause_request())
    for _ in range(2):  # every call may come twice
        moving.client("n1").start_pause(moving.pause_id, moving.command)
    ended = moving.ended("n1")
    assert ended.error is not None
    assert (ended.decision, ended.error["code"]) == ("abort", "arm_timeout")
    for node in ("n1", "n2"):
        assert moving.move_ended(node, 0).state == "ABORTED"
    assert job.move({}, orders={"0": (1, 0)}).ended("n2").decision == "commit"
    job.assert_unharmed(job.stop())


@pytest.mark.drill
def test_a_standby_laid_out_otherwise_is_found_before_the_pause(rig: Rig) -> None:
    rig.agent("n1")
    rig.agent("n2")
    job = rig.job(["n1"])
    job.ready()
    command = job.worker(0).standby_command
    other = tuple("4096" if word == str(2**20) else word for word in command)
    moving = job.begin(0, "n2", told={"standby_command": other})
    moving.put()
    with pytest.raises(AssertionError, match="standby_failed"):
        moving.prepare()
    assert job.worker(0).state == "training"
    job.assert_unharmed(job.stop())


@pytest.mark.drill
def test_a_standby_that_does_not_start(rig: Rig) -> None:
    rig.agent("n1")
    there = rig.agent("n2").client
    job = rig.job(["n1"])
    job.ready()
    moving = job.begin(0, "n2", told={"standby_command": ("/no/such/program",)})
    moving.put()
    there.prepare_move(moving.move_id(0), moving.command)
    error = moving.move_ended("n2", 0).error
    assert error is not None
    assert (error["code"], "/no/such/program" in error["message"]) == ("standby_failed", True)


def test_an_agent_restarts_before_anything_is_armed(rig: Rig) -> None:
    here = rig.agent("n1", apart=True)
    rig.agent("n2")
    job = rig.job(["n1"])
    job.ready()
    moving = job.begin(0, "n2")
    moving.put()
    here.client.put_pause("early", moving.pause_request())
    before = here.client.workers().epoch
    here.kill()
    here.start()
    assert here.client.workers().epoch == before + 1
    move, pause = here.client.move(moving.move_id(0)), here.client.pause("early")
    assert [status.error and status.error["code"] for status in (move, pause)] == ["interrupted"] * 2
    assert job.worker(0).state == "training"
    eventually(lambda: job.worker(0).step > 10)


@pytest.mark.parametrize("started", [True, False])
def test_a_worker_that_comes_before_the_word_to_start(tmp_path: Path, started: bool) -> None:
    """The agent's word and the worker's come on two connections: their order is anybody's guess."""
    arena = Arena.create([("a", 10)])
    said = {"layout": arena.layout().document(), "step": 7}
    request = MoveRequest(1, "A", "0", 0, "source", "n1", "n2", staged=True)
    files = {name: str(tmp_path / name) for name in ("socket", "state_file", "log", "agent")}
    mover = SourceMover(Config("m", dump(request), host="127.0.0.1", **files))
    mover.begin()
    mover.handle(Event("agent", Message({"kind": "prepare", **said}, b"", (os.dup(arena.fd),))))
    mover.handle(mover.events.get(timeout=60))  # its memory is reserved
    ours, theirs = (Channel(end, 5.0) for end in socket.socketpair())
    mover.handle(Event("worker", Message({"kind": "state", **said}, b"", (os.dup(arena.fd),)), ours))
    assert mover.progress.state == "PREPARED"
    if started:
        mover.handle(Event("agent", Message({"kind": "start"})))
        mover.handle(mover.events.get(timeout=60))  # the state lies in it
        assert mover.progress.parked
    else:
        mover.fail(mover.deadline_code, "as the loop does at the deadline")
    answer = theirs.receive(5.0)
    assert answer is not None
    expected = ("parked", None) if started else ("failed", "not_armed")
    assert (answer.kind, answer.body.get("code")) == expected


def test_two_agents_in_one_folder(tmp_path: Path) -> None:
    first = Agent(Options("n1", tmp_path, secret="s"))
    with pytest.raises(BadOption, match="another agent"):
        Agent(Options("n1", tmp_path, secret="s"))
    first.start()
    first.stop()
    Agent(Options("n1", tmp_path, secret="s")).stop()
