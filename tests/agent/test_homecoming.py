"""Coming home from a parked state, part by part: whose place it is, and whom the mover listens to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from monkeytree.agent import attempts, mover_home, pausing
from monkeytree.agent.arena import Arena
from monkeytree.agent.attempts import Attempt
from monkeytree.agent.channel import Channel, Message, connect_local
from monkeytree.agent.keys import PauseKeys
from monkeytree.agent.mover import Event
from monkeytree.agent.mover_source import SourceMover
from monkeytree.agent.parked import record_of
from monkeytree.agent.store import SocketStore, StoreServer
from monkeytree.wire.agents import PauseMove, PauseRequest, Seat

from .rig import eventually
from .test_parked_kept import a_source

MOVES = tuple(PauseMove(f"m{rank}", "0", rank, "n1", "n2", True) for rank in (1, 2))
PAUSE = PauseRequest(7, "A", tuple(Seat("0", rank, "n1") for rank in range(3)), MOVES)
SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture
def store() -> Iterator[SocketStore]:
    server = StoreServer()
    yield SocketStore(server.address)
    server.close()


def test_only_the_place_of_one_that_is_dead_is_taken_over(store: SocketStore) -> None:
    keys = PauseKeys(store, PAUSE)
    assert keys.claim_home("m1", "first", ()) == "first"
    assert keys.claim_home("m1", "first", ()) == "first", "asked again after a lost connection"
    assert keys.claim_home("m1", "second", ()) == "first", "it may live"
    assert keys.claim_home("m1", "second", ("another",)) == "first"
    assert keys.claim_home("m1", "second", ("another", "first")) == "second"
    assert keys.claim_home("m1", "third", ("another", "first")) == "second"
    assert keys.claim_home("m1", "first", ("another",)) == "second", "one that only seemed dead is out too"


def test_of_many_at_once_one_takes_over(store: SocketStore) -> None:
    assert PauseKeys(store, PAUSE).claim_home("m1", "dead", ()) == "dead"
    got: list[str] = []

    def claim(token: str) -> None:
        if PauseKeys(store, PAUSE).claim_home("m1", token, ("dead",)) == token:
            got.append(token)

    threads = [threading.Thread(target=claim, args=(f"t{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(got) == 1
    assert store.get("monkeytree/7/home/m1") == f"2 {got[0]}"


def test_each_that_is_taken_over_from_makes_another_attempt_at_the_group(store: SocketStore) -> None:
    keys = PauseKeys(store, PAUSE)
    assert [keys.park("m1"), keys.park("m2")] == [True, True]
    assert keys.homecoming() == (1, False)
    keys.claim_home("m1", "a", ())
    assert keys.homecoming() == (1, False), "the other is not there yet"
    assert keys.await_homecoming(0, time.monotonic()) == 0
    keys.claim_home("m2", "b", ())
    assert keys.await_homecoming(0, time.monotonic()) == 1
    keys.claim_home("m1", "c", ("a",))
    keys.claim_home("m2", "d", ("b",))
    assert keys.homecoming() == (3, True)
    assert keys.await_homecoming(3, time.monotonic()) == 0
    assert keys.take_back_before(3)
    assert [keys.again(attempt).probation for attempt in (0, 1, 2, 3)] == ["", "undo", "undo", ""]


def test_an_attempt_that_was_kept_is_not_taken_back(store: SocketStore) -> None:
    """Its first iteration is over, the others have changed: the parked state is of no use any more."""
    keys = PauseKeys(store, PAUSE)
    assert keys.park("m1")
    assert not keys.stay("m1")
    assert keys.stay("m2"), "the worker of the other has not left"
    first = keys.again(1)
    store.set(first.first("0/1"), "1")
    assert first.all_first(), "who stayed is not waited for"
    assert not keys.all_first()
    assert first.settle("kept") == "kept"
    assert not keys.take_back_before(2)
    assert keys.probation == ""


def parked_source(folder: Path, command: tuple[str, ...] = SLEEP, parked_s: float = 0.0) -> SourceMover:
    """A mover in this process, as it is once a state is parked with it, ``parked_s`` ago."""
    mover = a_source(folder)
    (folder / "parked").mkdir(mode=0o700)
    arena = Arena.create([("weights", 8_192)])
    arena.whole()[:] = os.urandom(arena.nbytes)
    body = {"kind": "state", "layout": arena.layout().document(), "pause": {"moves": []}}
    mover.arena = mover.parked_file.reserve(arena.layout())
    mover.state = Message(body, b"extras")
    mover.paused_at = time.monotonic() - parked_s
    record = record_of(body, mover.paused_at, command, {})
    mover.parked_file.fill(mover.arena, arena.whole(), b"extras", record)
    mover.command = command
    mover.progress.state, mover.progress.parked = "PAUSED", True
    threading.Thread(target=mover._accept, daemon=True).start()
    return mover


def take(mover: SourceMover, who: str) -> Event:
    """Have it take what comes, up to the first event from ``who``."""
    while True:
        event = mover.events.get(timeout=60)
        mover.handle(event)
        if event.who == who:
            return event


def test_word_of_an_earlier_successor_is_not_taken_for_the_present_one(tmp_path: Path) -> None:
    mover = parked_source(tmp_path)
    mover.go_home("aborted", "tests")
    attempt = mover.attempt
    assert attempt.alive
    mover.handle(Event("exit", Message({"code": 1}), pid=attempt.pid + 1))
    assert mover.stage == "up", "somebody else has ended"
    stranger = connect_local(Path(mover.config.socket))
    arena = Arena.create([("weights", 8_192)])
    stranger.send("standby", fds=(arena.fd,), layout=arena.layout().document())
    take(mover, "standby")
    assert (mover.stage, mover.speaker) == ("up", None), "this process is none of its session"
    assert bytes(arena.whole()) == bytes(arena.nbytes), "it gets nothing"
    ours, theirs = socket.socketpair()
    mover.handle(Event("standby", Message({"kind": "outcome", "outcome": "landed"}), Channel(ours)))
    assert not mover.final, "the words of one that is over"
    attempt.kill()
    take(mover, "exit")
    assert (mover.stage, mover.final) == ("rest", False)
    mover.home_late()
    assert mover.attempt != attempt
    assert [told["pid"] for told in mover.progress.home] == [mover.attempt.pid]
    mover.attempt.kill()
    theirs.close()


@pytest.mark.parametrize("outcome", ["landed", "stayed", "released", ""])
def test_last_words_of_a_successor_count_though_it_has_left(tmp_path: Path, outcome: str) -> None:
    """Its end and its words come by two threads, in any order; without words another one is started."""
    mover = parked_source(tmp_path)
    mover.go_home("aborted", "tests")
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    arena = Arena.create([("weights", 8_192)])
    knock = Message({"kind": "standby", "layout": arena.layout().document()}, b"", (os.dup(arena.fd),))
    mover.handle(Event("standby", knock, channel, mover.attempt.pid))
    assert arena.whole() == mover.arena.whole() if mover.arena else False
    assert mover.attempt.given
    mover.attempt.kill()
    take(mover, "exit")
    assert (mover.stage, mover.final) == ("ended", False)
    if outcome:
        mover.handle(Event("standby", Message({"kind": "outcome", "outcome": outcome}), channel))
        assert mover.progress.state == ("RELEASED" if outcome == "landed" else "ABORTED")
        assert not mover.parked_file.file.exists()
    else:
        mover.handle(Event("standby", None, channel))
        assert (mover.stage, mover.final) == ("rest", False)
        assert mover.parked_file.file.exists()
    theirs.close()


def test_after_the_last_try_the_state_stays_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover_home, "_REST_S", 0.001)
    config = parked_source(tmp_path, (sys.executable, "-c", "raise SystemExit(3)"), 3_600.0).config
    mover = SourceMover(replace(config, resume=True))
    mover.run()
    error = mover.progress.error or {}
    assert error["code"] == "standby_failed"
    assert "8 tries failed" in error["message"]
    assert mover.progress.figures["home_starts"] == 8
    assert str(mover.parked_file.file) in error["message"]
    record = mover.parked_file.read()
    assert record is not None
    arena, extras = mover.parked_file.attach(record)
    assert extras == b"extras"
    arena.close()


def test_a_successor_is_over_when_nothing_it_started_is_left() -> None:
    script = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    )
    leader = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    attempt = Attempt.of(leader.pid)
    leader.wait(60)
    assert not attempt.leads
    assert attempt.alive, "what it started is there"
    attempt.kill()
    eventually(lambda: not attempt.alive)


def test_a_process_that_has_got_the_number_of_one_before_is_not_touched() -> None:
    with subprocess.Popen(SLEEP, start_new_session=True) as later:
        mine = Attempt.of(later.pid)
        before = replace(mine, born=str(int(mine.born) - 1))
        assert not before.leads
        assert not before.alive
        assert not before.owns(later.pid)
        before.kill()
        assert later.poll() is None
        assert mine.leads
        assert mine.owns(later.pid)
        assert not mine.owns(os.getpid())
        later.send_signal(signal.SIGKILL)


def arenas_held() -> int:
    """Arenas that this process keeps in memory."""
    links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    return sum("monkeytree-arena" in os.readlink(link) for link in links if link.is_symlink())


def test_memory_of_a_successor_that_has_died_is_not_kept(tmp_path: Path) -> None:
    """As much as the state each time: eight of them would fill the host."""
    mover = parked_source(tmp_path)
    mover.go_home("aborted", "tests")
    before = arenas_held()
    for pid in (mover.attempt.pid, os.getpid()):
        ours, _theirs = socket.socketpair()
        arena = Arena.create([("weights", 8_192)])
        knock = Message({"kind": "standby", "layout": arena.layout().document()}, b"", (os.dup(arena.fd),))
        mover.handle(Event("standby", knock, Channel(ours), pid))
        arena.close()
    assert mover.attempt.given
    mover.attempt.kill()
    assert arenas_held() == before


def test_one_whose_place_is_taken_joins_no_later_attempt(store: SocketStore) -> None:
    keys = PauseKeys(store, replace(PAUSE, moves=MOVES[:1]))
    assert keys.park("m1")
    keys.claim_home("m1", "old", ())
    keys.claim_home("m1", "new", ("old",))
    trip = pausing.Trip(keys, "0/1", 5, {}, lambda **_: None)
    formed: list[str] = []
    with pytest.raises(pausing.NotHome):
        pausing.come_together(trip, lambda group: formed.append(group.name), token="old")
    assert formed == []
    pausing.come_together(trip, lambda group: formed.append(group.name), token="new")
    assert formed == ["7.2"]


def test_a_process_that_cannot_be_looked_at_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Attempt.of(os.getpid())

    class NoDescriptors(type(Path())):  # type: ignore[misc]
        def read_text(self, *_: object, **__: object) -> str:
            raise OSError(24, "Too many open files")

    monkeypatch.setattr(attempts, "_PROC", NoDescriptors("/proc"))
    assert mover_home._there(mine)
    with pytest.raises(OSError, match="Too many"):
        _ = mine.leads
