"""A parked state outlives whoever dies: its mover, its agent, both, the controller.

Between park and land nobody but the source's host has the state. Each case ends bit by bit as a run that
never moved, with the worker in one place: where it went, or at home again. The whole matrix is behind
``MONKEYTREE_DRILL=1``.
"""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator

import pytest

from monkeytree.adapters.agents import AgentRefused, AgentUnreachable
from monkeytree.agent.options import Options
from monkeytree.agent.parked import folder_of
from monkeytree.wire.agents import Command, Deadlines, MoveRequest, MoveStatus

from .rig import Job, Moving, Rig, eventually
from .test_staged import park

WHO = ("mover", "agent", "both")
PATIENT = Deadlines(60.0, 60.0, 120.0, 120.0)


def staged_job(rig: Rig, held: str = "", more: tuple[str, ...] = ()) -> tuple[Job, Moving]:
    """A job with rank 1 at n1, whose agent can be killed, and a staged move of it to n2."""
    faults = (f"hold:{held}:1.0",) if held else ()
    rig.agent("n1", apart=True, faults=faults)
    rig.agent("n2", faults=faults)
    rig.agent("n3")
    job = rig.job(["n3", "n1"], more=more)
    job.ready()
    return job, job.begin(1, "n2", staged=True, deadlines=PATIENT)


def strike(rig: Rig, who: str) -> None:
    """Kill what holds the parked state, as the kernel would; a killed agent is started again."""
    movers = rig.agents["n1"].movers()
    assert movers
    if who != "mover":
        rig.agents["n1"].kill()
    if who != "agent":
        for mover in movers:
            os.kill(mover.pid, signal.SIGKILL)
            mover.wait(30)
    if who != "mover":
        rig.agents["n1"].start()


def prepare_landing(moving: Moving, request: MoveRequest, move_id: str) -> Command:
    """A destination that waits for the state; what the source is to be told."""
    there = moving.client("n2")
    there.put_move(move_id, request)
    there.prepare_move(move_id, moving.command)
    descriptor = moving.until("n2", move_id, "PREPARED").descriptor
    there.start_move(move_id, moving.command)
    return Command(moving.epoch, descriptor)


def land(moving: Moving, command: Command) -> None:
    """Tell the source, as often as it takes."""

    def told() -> bool:
        try:
            return bool(moving.client("n1").start_move(moving.move_id(1), command))
        except AgentUnreachable:
            return False

    eventually(told)


def source(moving: Moving) -> MoveStatus | None:
    """What its agent says of it, None while it does not answer."""
    try:
        return moving.client("n1").move(moving.move_id(1))
    except (AgentUnreachable, FileNotFoundError):
        return None


def parked(moving: Moving) -> MoveStatus | None:
    """The source's status while it keeps the state."""
    status = source(moving)
    return status if status is not None and status.parked else None


def files(rig: Rig) -> list[str]:
    """States in n1's memory."""
    folder = folder_of(rig.agents["n1"].folder, Options("n", rig.folder).memory)
    return sorted(file.name for file in folder.glob("*")) if folder.exists() else []


def everything_ended(rig: Rig, moving: Moving) -> str:
    """The one node that has the worker, once all is over and nothing is kept any more."""
    job = moving.job
    moving.ended("n3")
    moving.ended("n1")
    moving.move_ended("n1", 1)
    eventually(lambda: not files(rig), why="the parked state is removed")

    def place() -> str | None:
        found = [
            node for node in ("n1", "n2") for worker in rig.agents[node].client.workers().workers
            if (worker.job, worker.rank) == (job.name, 1)
        ]  # fmt: skip
        return found[0] if len(found) == 1 else None

    where: str = eventually(place, why="rank 1 is in one place")
    job.nodes[1] = where
    return where


def some(always: set[tuple[str, ...]], *axes: tuple[str, ...]) -> Iterator[object]:
    """All combinations, of which few run always."""
    for first in axes[0]:
        for second in axes[1]:
            marks = () if (first, second) in always else pytest.mark.drill
            yield pytest.param(first, second, marks=marks, id=f"{first}-{second}")


@pytest.mark.parametrize(
    ("who", "then"),
    list(some({("both", "land")}, WHO, ("home", "land"))),
)
def test_between_park_and_land(rig: Rig, who: str, then: str) -> None:
    job, moving = staged_job(rig)
    before, landing = job.worker(1).pid, moving.request(1, "destination")
    park(rig, job, moving)
    assert len(files(rig)) == 1
    strike(rig, who)
    eventually(lambda: parked(moving), why="the state is still there")
    if then == "land":
        land(moving, prepare_landing(moving, landing, moving.move_id(1)))
    else:
        moving.client("n1").abort_move(moving.move_id(1), moving.command)
    assert everything_ended(rig, moving) == ("n2" if then == "land" else "n1")
    assert job.worker(1).pid != before
    ended = moving.move_ended("n1", 1)
    assert ended.state == ("RELEASED" if then == "land" else "ABORTED")
    job.assert_unharmed(job.stop())


@pytest.mark.parametrize(
    ("who", "state"),
    list(some({("mover", "SENDING")}, WHO, ("SENDING", "VERIFIED", "DECIDED", "REFORMED"))),
)
def test_while_it_lands(rig: Rig, who: str, state: str) -> None:
    """It lands all the same; or the destination gives up, and the controller sends it once more."""
    job, moving = staged_job(rig, state, ("--slow-first", "1.0"))
    landing = moving.request(1, "destination")
    park(rig, job, moving)
    command = prepare_landing(moving, landing, moving.move_id(1))
    land(moving, command)
    at = "n2" if state in ("DECIDED", "REFORMED") else "n1"
    moving.until(at, moving.move_id(1), state)
    strike(rig, who)
    there = moving.move_ended("n2", 1)
    if there.state == "ABORTED":
        eventually(lambda: parked(moving), why="the state is still there")
        land(moving, prepare_landing(moving, landing, f"{moving.move_id(1)}-again"))
    assert everything_ended(rig, moving) == "n2"
    assert moving.move_ended("n1", 1).state == "RELEASED"
    job.assert_unharmed(job.stop())


@pytest.mark.parametrize("who", [pytest.param("mover"), pytest.param("both", marks=pytest.mark.drill)])
def test_the_worker_had_not_left(rig: Rig, who: str) -> None:
    """The state lies in memory, but its worker has not heard so: it stays, and is not started once more."""
    job, moving = staged_job(rig, "PARKED")
    before, move_id, here = job.worker(1).pid, moving.move_id(1), moving.client("n1")
    here.put_move(move_id, moving.request(1, "source"))
    here.prepare_move(move_id, moving.command)
    moving.until("n1", move_id, "PREPARED")
    here.start_move(move_id, moving.command)
    moving.pause()
    eventually(lambda: parked(moving), why="the state is parked")
    strike(rig, who)
    assert everything_ended(rig, moving) == "n1"
    assert job.worker(1).pid == before
    assert moving.move_ended("n1", 1).state == "ABORTED"
    job.assert_unharmed(job.stop())


@pytest.mark.drill
def test_a_landing_that_fails_leaves_it_parked(rig: Rig) -> None:
    job, moving = staged_job(rig, "SENDING")
    landing = moving.request(1, "destination")
    park(rig, job, moving)
    land(moving, prepare_landing(moving, landing, moving.move_id(1)))
    moving.until("n2", moving.move_id(1), "SENDING")
    for mover in rig.agents["n2"].movers():
        mover.kill()
    assert moving.move_ended("n2", 1).state == "ABORTED"

    def failed() -> MoveStatus | None:
        status = parked(moving)
        return status if status is not None and status.figures.get("failed_landings") else None

    status: MoveStatus = eventually(failed, why="the source has seen it")
    assert (status.state, (status.error or {}).get("code")) == ("PAUSED", "peer_lost")
    land(moving, prepare_landing(moving, landing, f"{moving.move_id(1)}-again"))
    assert everything_ended(rig, moving) == "n2"
    ended = moving.move_ended("n1", 1)
    assert (ended.state, ended.error) == ("RELEASED", None)
    job.assert_unharmed(job.stop())


@pytest.mark.drill
def test_the_controller_dies_and_nobody_comes(rig: Rig) -> None:
    job, moving = staged_job(rig)
    moving.deadlines = dataclasses.replace(PATIENT, pause_s=12.0)
    park(rig, job, moving)
    strike(rig, "both")
    assert everything_ended(rig, moving) == "n1"
    job.assert_unharmed(job.stop())


def test_a_state_that_is_not_what_it_was_is_not_used(rig: Rig) -> None:
    job, moving = staged_job(rig)
    park(rig, job, moving)
    movers = rig.agents["n1"].movers()
    rig.agents["n1"].kill()
    for mover in movers:
        mover.kill()
        mover.wait(30)
    folder = folder_of(rig.agents["n1"].folder, Options("n", rig.folder).memory)
    (state,) = folder.iterdir()
    assert state.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    with open(state, "r+b") as file:
        file.seek(4_711)
        byte = file.read(1)
        file.seek(4_711)
        file.write(bytes([byte[0] ^ 1]))
    (folder / "orphan.state").write_bytes(b"of a move that nobody knows")
    rig.agents["n1"].start()
    ended = moving.move_ended("n1", 1)
    assert (ended.state, (ended.error or {}).get("code")) == ("ABORTED", "parked_lost")
    eventually(lambda: not files(rig), why="neither the state nor the orphan is kept")


def test_where_there_is_no_room_the_job_trains_on(rig: Rig) -> None:
    blocked = rig.folder / "full"
    blocked.write_text("no folder")
    rig.agent("n1", memory=blocked)
    rig.agent("n3")
    job = rig.job(["n3", "n1"])
    job.ready()
    moving = job.begin(1, "n2", staged=True)
    moving.client("n1").put_move(moving.move_id(1), moving.request(1, "source"))
    moving.client("n1").prepare_move(moving.move_id(1), moving.command)
    ended = moving.move_ended("n1", 1)
    assert (ended.state, (ended.error or {}).get("code")) == ("ABORTED", "parking_failed")
    with pytest.raises(AgentRefused, match="not_found"):
        moving.client("n1").pause(moving.pause_id)
    job.assert_unharmed(job.stop())
