"""What the world does to an agent besides killing it: full disks, lost controllers, strange callers."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import resource
import socket
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from monkeytree.agent.arena import Arena
from monkeytree.agent.channel import Channel, Closed, connect_local
from monkeytree.agent.page import Page
from monkeytree.agent.registry import Registry
from monkeytree.wire.agents import Command, Deadlines, MoveRequest, PauseRequest, Seat

from .rig import Job, Moving, Rig, RunningAgent, eventually
from .test_refusals import refusal, say
from .test_staged import park

SHORT = Deadlines(0.2, 0.2, 0.2, 0.2)


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[RunningAgent]:
    """An agent without workers."""
    rig = Rig(tmp_path)
    yield rig.agent("n1")
    rig.close()


def arrival(job: str, epoch: int, **more: Any) -> MoveRequest:
    """A move whose destination is n1."""
    return MoveRequest(epoch, job, "0", 0, "destination", "n2", "n1", standby_command=("true",), **more)


def test_jobs_that_change_places_arrive_at_a_node_together(lone: RunningAgent) -> None:
    here = lone.client
    for job, epoch in (("X", 1), ("Y", 2)):  # one pause each, one execution
        assert here.put_move(f"e-{job}", arrival(job, epoch, execution_id="e")).state == "NEW"
    assert refusal(here.put_move, "other", arrival("Z", 3, execution_id="f")).reason == "moves_full"
    assert refusal(here.put_move, "none", arrival("Z", 3)).reason == "moves_full"
    for job, epoch in (("X", 1), ("Y", 2)):
        here.abort_move(f"e-{job}", Command(epoch))


def test_what_a_lost_controller_made_bars_nobody(lone: RunningAgent) -> None:
    here = lone.client
    here.put_move("left", arrival("L", 5, deadlines=SHORT))
    here.put_pause("left", PauseRequest(5, "L", (Seat("0", 0, "n2"),), deadlines=SHORT))
    eventually(lambda: here.move("left").final and here.pause("left").final, why="they are abandoned")
    for ended in (here.move("left"), here.pause("left")):
        assert (ended.state, (ended.error or {}).get("code")) == ("ABORTED", "abandoned")


def test_a_later_epoch_takes_the_place_of_what_was_not_begun(lone: RunningAgent) -> None:
    here, seats = lone.client, (Seat("0", 0, "n2"),)
    here.put_move("old", arrival("S", 5))
    here.put_pause("old", PauseRequest(5, "S", seats))
    assert here.put_move("new", arrival("S", 6)).state == "NEW"
    assert here.put_pause("new", PauseRequest(6, "S", seats)).state == "NEW"
    assert [here.move("old").error, here.pause("old").error] == [
        {"code": "superseded", "message": "epoch 6 has come"}
    ] * 2
    here.abort_move("new", Command(6))
    here.abort_pause("new", Command(6))


def test_a_prepared_move_waits_for_the_other_side(lone: RunningAgent) -> None:
    here, limits = lone.client, Deadlines(prepare_s=1.5)
    here.put_move("early", arrival("P", 1, warm=False, deadlines=limits))
    here.prepare_move("early", Command(1))
    began = eventually(lambda: (s := here.move("early")).state == "PREPARED" and s).phases[0].started_at
    ended: Any = eventually(lambda: (s := here.move("early")).final and s)
    assert (ended.error or {})["code"] == "prepare_timeout"
    assert ended.phases[-1].started_at - began > 2 * limits.prepare_s


def test_the_door_of_a_mover_takes_few_strangers_and_little_of_each(lone: RunningAgent) -> None:
    here = lone.client
    here.put_move("door", arrival("D", 1, warm=False))
    here.prepare_move("door", Command(1))
    descriptor: Any = eventually(lambda: here.move("door").descriptor)
    address = (descriptor["host"], descriptor["port"])
    with socket.create_connection(address, 10) as stranger:
        stranger.sendall(b"\x03\x00\x00\x00\x03\x00\x00\x00")  # a frame of two times 48 MiB to come
        stranger.settimeout(3)
        assert stranger.recv(1) == b"", "it is not waited for"
    silent = [socket.create_connection(address, 10) for _ in range(16)]
    with socket.create_connection(address, 10) as late:
        late.settimeout(3)
        assert late.recv(1) == b""
    for each in silent:
        each.close()

    def knock() -> bool:
        with contextlib.suppress(Closed):
            return say(descriptor, descriptor["token"]) == "welcome"
        return False

    eventually(knock, why="strangers have gone")
    here.abort_move("door", Command(1))


def test_ids_of_all_sorts(lone: RunningAgent) -> None:
    here = lone.client
    assert here.put_move("a b/é?%41", arrival("I", 1)).id == "a b/é?%41"
    assert here.abort_move("a b/é?%41", Command(1)).state == "ABORTED"
    assert refusal(here.put_move, "x" * 129, arrival("I", 2)).reason == "bad_request"
    assert refusal(here.put_pause, "x" * 129, PauseRequest(2, "I", ())).reason == "bad_request"


@pytest.mark.parametrize("query", ["wait=nan", "since=inf", "since=x"])
def test_numbers_that_are_none(lone: RunningAgent, query: str) -> None:
    headers = {"Authorization": f"Bearer {(lone.folder / 'token').read_text().strip()}"}
    answer = httpx.get(f"{lone.client.url}/v1/moves/m?{query}", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


def test_a_body_nobody_asked_for_is_not_taken_in(lone: RunningAgent) -> None:
    host, _, port = lone.client.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), 10) as caller:
        caller.sendall(b"PUT /v1/moves/m HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n")
        caller.sendall(bytes(2**16))
        assert b" 413 " in caller.recv(2**16).partition(b"\r\n")[0]


def test_silent_callers_keep_nobody_out(lone: RunningAgent) -> None:
    host, _, port = lone.client.url.removeprefix("http://").rpartition(":")
    silent = [socket.create_connection((host, int(port)), 10) for _ in range(150)]
    try:
        assert lone.client.workers().node == "n1"
    finally:
        for each in silent:
            each.close()


def test_a_worker_that_cannot_be_listed_is_refused_and_costs_no_descriptor(lone: RunningAgent) -> None:
    mine = psutil.Process()
    lone.client.workers()  # a connection that stays open
    before = mine.num_fds()
    for _ in range(5):
        channel, page, arena = (
            connect_local(lone.folder / "agent.sock"),
            Page.create(),
            Arena.create([("a", 1)]),
        )
        channel.send(
            "register", fds=(page.fd, arena.fd), layout=arena.layout().document(), reports=[],
            job="j" * 200, group="0", rank=0, world_size=1,
        )  # fmt: skip
        with pytest.raises(Closed):
            channel.receive(10)
        channel.close()
        page.close()
        arena.close()
    assert lone.client.workers().workers == ()
    eventually(lambda: mine.num_fds() <= before + 1, why="the agent, in this process, keeps none")


def test_an_agent_starts_over_a_journal_it_cannot_read_and_closes_its_folder(rig: Rig) -> None:
    agent = rig.agent("n1")
    agent.client.put_move("fine", arrival("A", 1))
    assert agent.inside is not None
    agent.inside.stop()
    with sqlite3.connect(agent.folder / "journal.sqlite") as journal:
        journal.execute("INSERT INTO entries SELECT kind, 'odd', '{}', status, at FROM entries")
    agent.folder.chmod(0o755)
    agent.start()
    ended = agent.client.move("fine")
    assert (ended.state, (ended.error or {}).get("code")) == ("ABORTED", "interrupted")
    assert refusal(agent.client.move, "odd").reason == "not_found"
    assert agent.folder.stat().st_mode & 0o777 == 0o700


def test_running_out_of_descriptors_passes(rig: Rig) -> None:
    agent = rig.agent("n1", apart=True)
    assert agent.process is not None
    pid = agent.process.pid
    agent.client.workers()
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (psutil.Process(pid).num_fds(), hard))
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(agent.folder / "agent.sock"))
        log = agent.folder.with_suffix(".log")
        eventually(lambda: "cannot accept workers" in log.read_text(), why="the agent has none left")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    job = rig.job(["n1"])
    job.ready()
    job.assert_unharmed(job.stop())


def test_a_worker_whose_process_cannot_be_seen_lives_while_it_is_connected() -> None:
    registry, (ours, theirs) = Registry(), socket.socketpair()
    page, arena, caller = Page.create(), Arena.create([("a", 1)]), Channel(theirs)
    who = {"job": "A", "group": "0", "rank": 0, "world_size": 1, "layout": arena.layout().document()}
    caller.send("register", fds=(page.fd, arena.fd), **who)
    channel = Channel(ours)
    message = channel.receive(5)
    assert message is not None
    worker = registry.register(message, channel, 0)  # SO_PEERCRED tells 0 of another pid namespace
    registry.sweep()
    assert registry.find("A", "0", 0) is worker
    worker.channel = None
    registry.sweep()
    assert registry.find("A", "0", 0) is None


def test_a_process_with_many_descriptors_sends_large_frames() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4_096)), hard))
    ours, theirs = socket.socketpair()
    high = socket.socket(fileno=fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD_CLOEXEC, 2_000))
    ours.close()
    sender, receiver, got = Channel(high), Channel(theirs), []
    reader = threading.Timer(0.3, lambda: got.append(receiver.receive(20)))
    reader.start()
    sender.send("state", blob=bytes(8 * 2**20))
    reader.join(20)
    assert len(got[0].blob) == 8 * 2**20
    sender.close()
    receiver.close()


def test_movers_meet_over_ipv6(rig: Rig) -> None:
    agent = rig.agent("n1", listen="[::1]:0")
    agent.client.put_move("six", arrival("A", 1, warm=False))
    agent.client.prepare_move("six", Command(1))
    descriptor: Any = eventually(lambda: agent.client.move("six").descriptor)
    with socket.create_connection((descriptor["host"], descriptor["port"]), 10):
        assert descriptor["host"] == "::1"
    agent.client.abort_move("six", Command(1))


def parked(rig: Rig, more: Sequence[str] = (), **deadlines: float) -> tuple[Job, Moving]:
    """A job whose rank 1 lies in n1's memory; ``more`` options of its workers."""
    rig.agent("n1")
    rig.agent("n3")
    job = rig.job(["n3", "n1"], more=more)
    job.ready()
    limits = dataclasses.replace(Deadlines(30.0, 10.0, 30.0, 20.0), **deadlines)
    moving = job.begin(1, "n2", staged=True, deadlines=limits)
    park(rig, job, moving)
    return job, moving


def test_a_full_disk_costs_no_parked_state(rig: Rig) -> None:
    job, moving = parked(rig)
    short = hashlib.sha256(moving.move_id(1).encode()).hexdigest()[:16]
    (rig.folder / "n1" / "moves" / f"{short}.new").mkdir()  # the mover cannot write its last words
    moving.client("n1").abort_move(moving.move_id(1), moving.command)
    ended = moving.move_ended("n1", 1)
    assert (ended.error or {}).get("code") == "returned"
    assert job.worker(1).state == "training"
    job.assert_unharmed(job.stop())


def test_a_successor_at_home_that_hangs_is_killed_and_another_one_started(rig: Rig) -> None:
    job, moving = parked(rig, more=["--drill"], prepare_s=6.0)
    job.store.set("plain/mishaps", "hang")
    (mover,) = rig.agents["n1"].movers()
    moving.client("n1").abort_move(moving.move_id(1), moving.command)
    (home,) = eventually(mover.children, why="the successor is started")
    ended = moving.move_ended("n1", 1)
    assert (ended.state, (ended.error or {}).get("code")) == ("ABORTED", "returned")
    assert not _alive(home.pid), "it holds no slot any more"
    assert job.worker(1).pid != home.pid
    job.assert_unharmed(job.stop())


def _alive(pid: int) -> bool:
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
