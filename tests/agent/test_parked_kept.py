"""A parked state is the only copy of a rank: what others say, or fail to do, must not cost it."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from monkeytree.agent import mover_process, resuming
from monkeytree.agent.channel import Channel, Message
from monkeytree.agent.mover import Config, Event
from monkeytree.agent.mover_source import SourceMover
from monkeytree.agent.parked import folder_of, sweep
from monkeytree.wire.agents import Command, Deadlines, MoveRequest, dump

from .rig import Moving, Rig, eventually
from .test_parked_deaths import everything_ended, files, parked
from .test_staged import park

PATIENT = Deadlines(60.0, 60.0, 120.0, 120.0)


def failed_landings(moving: Moving) -> float:
    status = parked(moving)
    return 0 if status is None else status.figures.get("failed_landings", 0)


def failed_more(moving: Moving, before: float) -> bool:
    return failed_landings(moving) > before


def test_neither_nonsense_nor_a_node_that_starts_nothing_costs_the_state(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Descriptors that are none cost a landing each; movers are started until one comes up."""
    for node in ("n1", "n2", "n3"):
        rig.agent(node)
    job = rig.job(["n3", "n1"])
    job.ready()
    moving = job.begin(1, "n2", staged=True, deadlines=PATIENT)
    park(rig, job, moving)
    (mover,) = rig.agents["n1"].movers()
    no_port = {"host": "127.0.0.1", "port": 70_000, "token": "b"}
    nonsense: list[dict[str, Any]] = [{"token": "a"}, no_port, {**no_port, "port": []}]
    for descriptor in nonsense:
        before = failed_landings(moving)
        moving.client("n1").start_move(moving.move_id(1), Command(moving.epoch, descriptor))
        eventually(partial(failed_more, moving, before), why=f"{descriptor} is refused")
    assert mover.is_running()

    refused = 0
    start: Callable[[Config], subprocess.Popen[bytes]] = resuming.start_mover

    def start_after_a_while(config: Config) -> subprocess.Popen[bytes]:
        nonlocal refused
        if refused < 12:
            refused += 1
            raise BlockingIOError("no process can be made")
        return start(config)

    monkeypatch.setattr(resuming, "start_mover", start_after_a_while)
    monkeypatch.setattr(resuming, "_LONGEST_REST_S", 0.01)
    os.kill(mover.pid, signal.SIGKILL)
    eventually(lambda: refused == 12 and rig.agents["n1"].movers(), why="the thirteenth is started")
    moving.client("n1").abort_move(moving.move_id(1), moving.command)
    assert everything_ended(rig, moving) == "n1"
    job.assert_unharmed(job.stop())


def test_a_state_that_no_mover_takes_up_any_more_is_kept_and_named(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.agent("n1")
    rig.agent("n3")
    job = rig.job(["n3", "n1"])
    job.ready()
    moving = job.begin(1, "n2", staged=True, deadlines=PATIENT)
    park(rig, job, moving)
    monkeypatch.setattr(resuming, "_MOST_MOVERS", 0)
    monkeypatch.setattr(resuming, "age", lambda record: PATIENT.pause_s + 1.0)
    (mover,) = rig.agents["n1"].movers()
    os.kill(mover.pid, signal.SIGKILL)
    error = moving.move_ended("n1", 1).error or {}
    assert error["code"] == "parked_lost"
    (name,) = files(rig)
    assert name in error["message"]


def test_a_mover_that_does_not_answer_is_ended(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would come up beside the next one."""
    rig.agent("n2")
    started: list[subprocess.Popen[bytes]] = []

    def never_listens(*_: object, **__: object) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE, start_new_session=True))
        return started[-1]

    monkeypatch.setattr(mover_process, "_START_S", 0.1)
    monkeypatch.setattr("monkeytree.agent.moves.start_mover", never_listens)
    request = move_request("destination")
    client = rig.agents["n2"].client
    client.put_move("m", request)
    client.prepare_move("m", Command(1))
    eventually(lambda: client.move("m").state == "ABORTED")
    (mover,) = started
    assert mover.wait(30) == -signal.SIGKILL
    assert mover.stdin is not None
    mover.stdin.close()


def test_a_peer_that_talks_nonsense_ends_the_move_and_not_the_mover(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    mover = a_source(tmp_path)
    mover.peer = Channel(ours)
    mover.events.put(Event("peer", Message({"kind": "transport", "described": 7}), mover.peer))
    mover.run()
    assert (mover.progress.error or {})["code"] == "transport_failed"
    assert "'transport'" in (mover.progress.error or {})["message"]
    mover.peer.close()
    theirs.close()


def test_agents_of_folders_with_one_name_do_not_sweep_each_other(tmp_path: Path) -> None:
    """As in containers that share /dev/shm: the path of the data folder does not tell them apart."""
    data, elsewhere, memory = tmp_path / "data", tmp_path / "elsewhere", tmp_path / "memory"
    data.mkdir()
    first = folder_of(data, memory)
    assert folder_of(data, memory) == first
    data.rename(elsewhere)
    data.mkdir()
    second = folder_of(data, memory)
    assert second != first
    assert folder_of(elsewhere, memory) == first
    first.mkdir(parents=True, mode=0o700)
    (first / "a.state").write_bytes(b"state")
    sweep(second, ())
    assert (first / "a.state").exists()
    first.chmod(stat.S_IRWXU | stat.S_IROTH)
    sweep(first, ())  # others may have a hand in it: it is left alone
    assert (first / "a.state").exists()
    first.chmod(0o700)
    sweep(first, ())
    assert not (first / "a.state").exists()


def a_source(folder: Path) -> SourceMover:
    """In this process, and without an agent."""
    config = Config(
        "m", dump(move_request("source")), str(folder / "m.sock"), str(folder / "m.json"),
        str(folder / "agent.sock"), "127.0.0.1", str(folder / "m.log"),
    )  # fmt: skip
    return SourceMover(config)


def move_request(role: str) -> MoveRequest:
    """Of a rank that no agent knows."""
    return MoveRequest(
        epoch=1, job="A", group="0", rank=0, role=role,  # type: ignore[arg-type]
        source="n1", target="n2", state_bytes=4_096, warm=False, staged=True,
    )  # fmt: skip
