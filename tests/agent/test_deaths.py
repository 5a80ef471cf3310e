"""Whoever dies, whenever: the job goes on bit by bit as it was, and no worker is lost or doubled.

A few cases always run; the whole matrix is behind ``MONKEYTREE_DRILL=1`` (minutes).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from monkeytree.adapters.agents import AgentRefused, AgentUnreachable
from monkeytree.wire.agents import Deadlines

from .rig import Job, Moving, Rig, eventually

WHO = ["standby", "destination mover", "source mover", "destination agent", "source agent", "controller"]
STATES = ["PREPARED", "ARMED", "PAUSED", "SENDING", "VERIFIED", "DECIDED", "REFORMED"]
ALWAYS = {("standby", "SENDING"), ("standby", "REFORMED"), ("source agent", "SENDING")}


def cases() -> Iterator[object]:
    for who in WHO:
        for state in STATES:
            marks = () if (who, state) in ALWAYS else pytest.mark.drill
            yield pytest.param(who, state, marks=marks, id=f"{who}-{state}".replace(" ", "_"))
    for state in ("SENDING", "VERIFIED", "DECIDED"):  # before the pause its death is that of any rank
        yield pytest.param("source worker", state, marks=pytest.mark.drill, id=f"source_worker-{state}")


class Controller(threading.Thread):
    """Goes by docs/agents.md; calls again what was not answered, aborts what was refused."""

    def __init__(self, moving: Moving, dies_at: str) -> None:
        super().__init__(daemon=True)
        self.moving = moving
        self.dies_at = dies_at

    def run(self) -> None:
        steps = {
            "NEW": self.moving.put, "PREPARED": self.moving.prepare, "ARMED": self.moving.start,
            "PAUSED": self.moving.pause,
        }  # fmt: skip
        for state, step in steps.items():
            if not self._done(step):
                self._done(self._abort)
                return
            if state == self.dies_at:
                return

    def _done(self, step: object) -> bool:
        ends = time.monotonic() + 30
        while time.monotonic() < ends:
            try:
                step()  # type: ignore[operator]
            except (AgentUnreachable, FileNotFoundError):  # also while it is starting again
                time.sleep(0.1)
            except (AgentRefused, AssertionError):
                return False
            else:
                return True
        return False

    def _abort(self) -> None:
        moving = self.moving
        for node in set(moving.job.nodes):
            with contextlib.suppress(AgentRefused):
                moving.client(node).abort_pause(moving.pause_id, moving.command)
        for rank, target in moving.targets.items():
            for node in (moving.sources[rank], target):
                with contextlib.suppress(AgentRefused):
                    moving.client(node).abort_move(moving.move_id(rank), moving.command)


@pytest.mark.parametrize(("who", "state"), list(cases()))
def test_the_job_goes_on(rig: Rig, who: str, state: str) -> None:
    held = (f"hold:{state}:0.7",)
    rig.agent("n1", apart=who == "source agent", faults=held)
    rig.agent("n2", apart=who == "destination agent", faults=held)
    rig.agent("n3")
    slow = ["--slow-first", "1.0"] if state in ("DECIDED", "REFORMED") else []
    job = rig.job(["n3", "n1"], more=slow)
    job.ready()
    job.worker_pid = job.worker(1).pid
    moving = job.begin(1, "n2", deadlines=Deadlines(10.0, 8.0, 10.0, 10.0))
    controller = Controller(moving, state if who == "controller" else "")
    controller.start()
    victim = "n2" if who in ("standby", "destination mover", "destination agent") else "n1"
    if who != "controller":
        eventually(lambda: state in reached(rig.folder / victim), why=f"{victim} is {state}")
        strike(rig, who, job)
    if who.endswith("agent"):
        rig.agents[victim].start()
    controller.join(60)
    settle(rig, moving)
    where = eventually(lambda: only_place(rig, job), why="rank 1 is in one place")
    job.nodes[1] = where
    job.assert_unharmed(job.stop())


def reached(folder: Path) -> list[str]:
    """States that the mover in that folder has passed."""
    for file in folder.glob("moves/*.json"):
        with contextlib.suppress(ValueError):
            return [phase["name"] for phase in json.loads(file.read_text())["phases"]]
    return []


def strike(rig: Rig, who: str, job: Job) -> None:
    """Kill it, as the kernel would."""
    if who.endswith("agent"):
        rig.agents["n1" if who.startswith("source") else "n2"].kill()
        return
    if who == "source worker":
        os.kill(job.worker_pid, signal.SIGKILL)
        return
    node = "n1" if who == "source mover" else "n2"
    movers = rig.agents[node].movers()
    victims = movers if who.endswith("mover") else [child for mover in movers for child in mover.children()]
    assert victims, f"no {who} to kill"
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)


def settle(rig: Rig, moving: Moving) -> None:
    """Everything that was begun has ended."""
    for node in ("n1", "n2", "n3"):
        client = rig.agents[node].client
        for look in (lambda c: c.pause(moving.pause_id), lambda c: c.move(moving.move_id(1))):

            def final(client: object = client, look: object = look) -> bool:
                try:
                    return bool(look(client).final)  # type: ignore[operator]
                except AgentRefused as refused:
                    return refused.reason == "not_found"

            eventually(final, why=f"all ends at {node}")


def only_place(rig: Rig, job: Job) -> str | None:
    """The one node that has rank 1."""
    found = [
        node
        for node in ("n1", "n2")
        for worker in rig.agents[node].client.workers().workers
        if (worker.job, worker.rank) == (job.name, 1)
    ]
    return found[0] if len(found) == 1 else None
