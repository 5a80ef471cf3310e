"""A parked state that goes home does so in spite of successors that fail, and of movers that die meanwhile.

Each case ends bit by bit as a run that never moved. Words in ``plain/mishaps`` say where the successors die,
one after the other (``monkeytree.agent.plain --drill``).
"""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from monkeytree.adapters.agents import AgentRefused
from monkeytree.agent.parked import KEPT_S, ParkedFile, folder_of
from monkeytree.wire.agents import Deadlines, MoveRequest, MoveStatus

from .rig import Moving, Rig, eventually
from .test_parked_deaths import PATIENT, everything_ended, files, parked, source, strike
from .test_staged import park

DRILL = pytest.mark.drill


def parked_job(rig: Rig, mishaps: str, deadlines: Deadlines = PATIENT, more: tuple[str, ...] = ()) -> Moving:
    """A job whose rank 1 lies parked at n1, and whose standbys die as ``mishaps`` says."""
    rig.agent("n1", apart=True)
    rig.agent("n2")
    rig.agent("n3")
    job = rig.job(["n3", "n1"], more=("--drill", *more))
    job.ready()
    job.store.set("plain/mishaps", mishaps)
    moving = job.begin(1, "n2", staged=True, deadlines=deadlines)
    park(rig, job, moving)
    return moving


def go_home(moving: Moving) -> None:
    moving.client("n1").abort_move(moving.move_id(1), moving.command)


def starts(moving: Moving) -> float:
    """Successors that were started at home so far."""
    status = source(moving)
    return 0 if status is None else status.figures.get("home_starts", 0)


def home(rig: Rig, moving: Moving, tries: int = 0) -> None:
    """The worker is at home, after so many tries (0: any number), and the job is as if nothing had been."""
    assert everything_ended(rig, moving) == "n1"
    ended = moving.move_ended("n1", 1)
    assert (ended.state, (ended.error or {}).get("code")) == ("ABORTED", "returned"), ended.error
    assert tries in (0, ended.figures["home_starts"])
    job = moving.job
    assert job.worker(1).state == "training"
    job.assert_unharmed(job.stop())


@pytest.mark.parametrize(
    "mishaps",
    [
        "start rebind first",
        pytest.param("layout restore update", marks=DRILL),
        pytest.param("update update rebind rebind", marks=DRILL),
        pytest.param("start start start start start start", marks=DRILL),
    ],
)
def test_successors_that_fail_cost_a_try_each(rig: Rig, mishaps: str) -> None:
    """Before they have the state, with it, in the group's rendezvous, in their first iteration."""
    moving = parked_job(rig, mishaps)
    go_home(moving)
    (record,), (name,) = (rig.agents["n1"].folder / "moves").glob("*.parked"), files(rig)
    home(rig, moving, len(mishaps.split()) + 1)
    record.write_text("{}")  # as if the mover had died between its last word and its last deed
    (folder_of(rig.agents["n1"].folder, Path("/dev/shm")) / name).write_bytes(b"landed long ago")
    rig.agents["n1"].kill()
    rig.agents["n1"].start()
    assert (files(rig), record.exists()) == ([], False)


def successors(rig: Rig) -> list[psutil.Process]:
    """Standbys that n1's mover has started."""
    return [child for mover in rig.agents["n1"].movers() for child in mover.children()]


@pytest.mark.parametrize("who", ["mover", pytest.param("both", marks=DRILL)])
def test_a_mover_that_dies_between_two_tries(rig: Rig, who: str) -> None:
    """Its successor goes on where it was; nobody asks for it again."""
    moving = parked_job(rig, " ".join(["start"] * 100))
    go_home(moving)
    eventually(lambda: starts(moving) == 3 and not successors(rig), why="it rests after the third")
    strike(rig, who)
    eventually(lambda: starts(moving) >= 4, why="there is a fourth")
    moving.job.store.set("plain/mishaps", "")
    home(rig, moving)


@DRILL
@pytest.mark.parametrize("mishap", ["", "update"])
@pytest.mark.parametrize("disk", ["", "full"])
def test_a_mover_that_dies_while_its_successor_is_in_its_first_iteration(
    rig: Rig, mishap: str, disk: str
) -> None:
    """The next mover lets no other one in beside it, but one after it where it dies too.

    With a full disk it does not know of it: what it starts finds the place taken.
    """
    moving = parked_job(rig, mishap)
    if disk:
        (record,) = (rig.agents["n1"].folder / "moves").glob("*.parked")
        record.with_suffix(".new").mkdir()
    moving.job.store.set("plain/hold", "1")
    go_home(moving)

    here = [f"plain/{moving.epoch}.1/here/0/{rank}" for rank in (0, 1)]
    eventually(lambda: moving.job.store.check(here), why="the successor is in its group")
    strike(rig, "mover")
    eventually(lambda: parked(moving) and rig.agents["n1"].movers(), why="it is taken up again")
    if disk:
        eventually(
            lambda: starts(moving) == 1 and not successors(rig), why="another one finds the place taken"
        )
    moving.job.store.set("plain/hold", "")
    home(rig, moving, 2 if mishap else 1)


@DRILL
@pytest.mark.parametrize("mishaps", ["", "rebind", "first update", "rebind rebind first"])
def test_two_ranks_of_a_job_come_home_together(rig: Rig, mishaps: str) -> None:
    for node in ("n1", "n2", "n3", "n4"):
        rig.agent(node)
    job = rig.job(["n3", "n1", "n4"], more=("--drill",))
    job.ready()
    job.store.set("plain/mishaps", mishaps)
    job.epoch += 1
    moving = Moving(job, job.epoch, {1: "n2", 2: "n2"}, staged=True, deadlines=PATIENT)
    for rank, node in ((1, "n1"), (2, "n4")):
        moving.client(node).put_move(moving.move_id(rank), moving.request(rank, "source"))
        moving.client(node).prepare_move(moving.move_id(rank), moving.command)
        moving.until(node, moving.move_id(rank), "PREPARED")
        moving.client(node).start_move(moving.move_id(rank), moving.command)
    moving.pause()
    for rank, node in ((1, "n1"), (2, "n4")):
        eventually(partial(lies_parked, moving, node, rank), why="it is parked")
    for rank, node in ((1, "n1"), (2, "n4")):
        moving.client(node).abort_move(moving.move_id(rank), moving.command)
    for rank, node in ((1, "n1"), (2, "n4")):
        ended = moving.move_ended(node, rank)
        assert (ended.state, (ended.error or {}).get("code")) == ("ABORTED", "returned"), ended.error
        assert job.worker(rank).state == "training"
    assert moving.ended("n3").decision == "abort"
    job.assert_unharmed(job.stop())


def lies_parked(moving: Moving, node: str, rank: int) -> bool:
    return moving.client(node).move(moving.move_id(rank)).parked


def kept(moving: Moving, ended: MoveStatus) -> ParkedFile:
    """The file that a move's end names, and its record; every byte is as it was."""
    error = ended.error or {}
    assert (ended.state, ended.parked, error.get("code")) == ("ABORTED", False, "standby_failed")
    words = error["message"].replace(":", " ").split()
    (file,) = [Path(word) for word in words if word.endswith((".state", ".state,"))]
    (record,) = [Path(word) for word in words if word.endswith(".parked")]
    found = ParkedFile(Path(str(file).rstrip(",")), record)
    told = found.read()
    assert told is not None
    arena, extras = found.attach(told)
    assert arena.nbytes >= 2**20
    assert extras
    arena.close()
    return found


def test_a_state_that_cannot_go_home_is_kept_for_a_day(rig: Rig) -> None:
    """Its worker told no command. The file is named, outlives the agent, and counts as arena memory."""
    moving = parked_job(rig, "")
    (record,) = (rig.agents["n1"].folder / "moves").glob("*.parked")
    record.write_text(json.dumps({**json.loads(record.read_text()), "command": []}))
    strike(rig, "mover")
    eventually(lambda: parked(moving) and rig.agents["n1"].movers(), why="it is taken up again")
    go_home(moving)
    found = kept(moving, moving.move_ended("n1", 1))
    eventually(lambda: not rig.agents["n1"].movers(), why="the mover leaves")
    unknown = record.with_name("0123456789abcdef.parked")
    unknown.write_text("{}")
    lying = found.file.with_name("0123456789abcdef.state")
    lying.write_bytes(b"of a move that the journal does not tell of")
    rig.agents["n1"].kill()
    rig.agents["n1"].start()
    assert len(files(rig)) == 2
    assert found.file.exists()
    with pytest.raises(AgentRefused, match="could not go home") as refused:
        moving.client("n1").put_move("more", half_of_the_memory())
    assert refused.value.reason == "arena_full"
    for path in (record, unknown):
        os.utime(path, (time.time() - KEPT_S - 60.0,) * 2)
    rig.agents["n1"].kill()
    rig.agents["n1"].start()
    assert files(rig) == []
    assert not record.exists()
    assert not unknown.exists()


def half_of_the_memory() -> MoveRequest:
    """As much as an agent takes in by default, with nothing kept."""
    return MoveRequest(
        epoch=1, job="B", group="0", rank=0, role="destination", source="n2", target="n1",
        state_bytes=psutil.virtual_memory().total // 2, warm=False,
    )  # fmt: skip


@DRILL
def test_when_all_tries_have_failed_the_state_is_kept(rig: Rig) -> None:
    moving = parked_job(rig, " ".join(["start"] * 20), Deadlines(20.0, 20.0, 5.0, 60.0))
    ended = moving.move_ended("n1", 1)
    found = kept(moving, ended)
    assert ended.figures["home_starts"] == 8
    assert files(rig) == [found.file.name]
