"""A rank of a real job over gloo comes home from a parked state, though its successors are killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import psutil
import pytest

from monkeytree.wire.agents import Command, Deadlines, MoveRequest, MoveStatus, PauseMove, PauseRequest, Seat

from .rig import Rig, eventually
from .test_parked_home import successors

pytest.importorskip("torch")
pytestmark = pytest.mark.drill
NODES = ("n3", "n1", "n3")
COMMAND = Command(1)
LIMITS = Deadlines(120.0, 60.0, 120.0, 60.0)
HOLDS = {"DECIDED": 2.0, "REFORMED": 4.0}
"""Seconds that each rank stays before it joins the group, and before its first iteration."""
PATIENCE_S = 180.0


class TorchJob:
    """Three ranks, of which the second is at n1."""

    def __init__(self, rig: Rig, name: str, holds: Mapping[str, float]) -> None:
        from monkeytree.agent.pytorch.job import JobSpec
        from monkeytree.agent.pytorch.store import TorchStore, host_store, open_store

        self.rig = rig
        self.host = host_store()
        self.store = TorchStore(open_store(self.host.port))
        self.out = rig.folder / name
        self.out.mkdir()
        spec = JobSpec(name, 3, 60, 1e6, str(self.out), self.host.port, iteration_s=0.05, holds=holds)
        (self.out / "spec.json").write_text(spec.text())
        for rank, node in enumerate(NODES):
            words = ["--spec", str(self.out / "spec.json"), "--rank", str(rank)]
            words += ["--agent", str(rig.folder / node / "agent.sock")]
            with open(self.out / f"{rank}.log", "ab") as log:
                command = [sys.executable, "-m", "monkeytree.agent.pytorch.train", *words]
                rig.workers.append(subprocess.Popen(command, stdout=log, stderr=log))

    def lines(self) -> list[dict[str, Any]]:
        """What the ranks have logged, whole lines only."""
        files = self.out.glob("rank-*.jsonl")
        return [
            json.loads(line) for f in files for line in f.read_text().splitlines(True) if line[-1] == "\n"
        ]

    def ended(self) -> bool:
        return len([line for line in self.lines() if "final" in line]) == len(NODES)

    def result(self) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
        """Digests by rank, and losses by rank and step, once it has ended."""
        eventually(self.ended, PATIENCE_S, "all ranks end")
        found = self.lines()
        digests = {line["rank"]: line["digest"] for line in found if "final" in line}
        return digests, {(line["rank"], line["step"]): line["loss"] for line in found if "loss" in line}


def test_a_rank_of_a_gloo_job_comes_home_at_the_fourth_try(rig: Rig) -> None:
    """One is killed before it has the state, one in the rendezvous, one in its first iteration."""
    for node in ("n1", "n2", "n3"):
        rig.agent(node)
    expected = TorchJob(rig, "A", {}).result()
    job = TorchJob(rig, "B", HOLDS)
    park(rig, job)
    here = rig.agents["n1"].client
    here.abort_move("m", COMMAND)
    for claims, group in ((0, ""), (1, ""), (2, "group/1.2")):
        (successor,) = eventually(partial(alive, rig), PATIENCE_S, "a successor is started")
        eventually(partial(claimed, job, claims), PATIENCE_S, f"it is number {claims} in the store")
        eventually(partial(formed, job, group), PATIENCE_S, "it is in its group")
        successor.send_signal(signal.SIGKILL)
        eventually(partial(gone, rig, successor), why="it is gone")

    def final() -> MoveStatus | None:
        status = here.move("m")
        return status if status.final else None

    ended: MoveStatus = eventually(final, PATIENCE_S, "the move ends")
    assert (ended.state, (ended.error or {}).get("code")) == ("ABORTED", "returned"), ended.error
    assert ended.figures["home_starts"] == 4
    assert job.result() == expected


def alive(rig: Rig) -> list[psutil.Process]:
    return [one for one in successors(rig) if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def gone(rig: Rig, successor: psutil.Process) -> bool:
    return successor not in alive(rig)


def claimed(job: TorchJob, claims: int) -> bool:
    return claims == 0 or job.store.get("monkeytree/1/home/m").startswith(f"{claims} ")


def formed(job: TorchJob, group: str) -> bool:
    return not group or job.store.check([f"{group}/all"])


def park(rig: Rig, job: TorchJob) -> None:
    """Rank 1 lies parked at n1."""
    here, name = rig.agents["n1"].client, job.out.name

    def trains() -> Any:
        return [w for w in here.workers().workers if (w.job, w.rank) == (name, 1) and w.step > 3]

    (worker,) = eventually(trains, PATIENCE_S, "it trains")
    request = MoveRequest(
        epoch=1, job=name, group="0", rank=1, role="source", source="n1", target="n2",
        state_bytes=worker.state_bytes, warm=True, staged=True, standby_command=worker.standby_command,
        standby_env=worker.standby_env, deadlines=LIMITS,
    )  # fmt: skip
    here.put_move("m", request)
    here.prepare_move("m", COMMAND)
    eventually(lambda: here.move("m").state == "PREPARED", PATIENCE_S)
    here.start_move("m", COMMAND)
    seats = tuple(Seat("0", rank, node) for rank, node in enumerate(NODES))
    moves = (PauseMove("m", "0", 1, "n1", "n2", True),)
    for node in ("n1", "n3"):
        client = rig.agents[node].client
        client.put_pause("p", PauseRequest(1, name, seats, moves, {}, deadlines=LIMITS))
    for node in ("n1", "n3"):
        rig.agents[node].client.start_pause("p", COMMAND)
    eventually(lambda: here.move("m").parked, PATIENCE_S, "it is parked")
