"""Ranks of a DistributedDataParallel job moved by real agents: bit for bit the job that never moved.

Two moves always run, the rest is behind ``MONKEYTREE_DRILL=1``.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from monkeytree.wire.agents import Command, Deadlines
from tests.agent.rig import Job, Moving, Rig, eventually

from .ddp_job import DEATH_VARIABLE

RANKS = 3
NODES = ["n0", "n1", "n2"]
ROOT = Path(__file__).parent.parent.parent
LIMITS = Deadlines(120.0, 60.0, 60.0, 60.0)
drill = pytest.mark.skipif(not os.environ.get("MONKEYTREE_DRILL"), reason="MONKEYTREE_DRILL=1 runs these")


@dataclass
class Nursery:
    """A process that has imported torch, and forks jobs."""

    process: subprocess.Popen[bytes]

    def start(self, spec: dict[str, Any], agents: list[str] | None = None) -> None:
        assert self.process.stdin is not None
        line = json.dumps({"spec": spec, "ranks": RANKS, "agents": agents}) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()

    def ended(self) -> list[int]:
        assert self.process.stdout is not None
        codes: list[int] = json.loads(self.process.stdout.readline())
        return codes


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.agent_pytorch.ddp_job"]
    process = subprocess.Popen(command, cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    yield Nursery(process)
    process.kill()
    process.wait()


@dataclass
class Scene:
    """A job on three nodes, and a fourth node that is free."""

    rig: Rig
    nursery: Nursery
    folder: Path
    job: Job
    spec: dict[str, Any] = field(default_factory=dict)

    def train(self, **spec: Any) -> None:
        """Start it; until all ranks have finished some iterations."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "wait").touch()
        self.spec = {"folder": str(self.folder), "steps": 100_000, "pace_s": 0.05, **spec}
        self.nursery.start(self.spec, [str(self.rig.folder / node / "agent.sock") for node in NODES])
        self.job.ready()

    def lines(self, folder: Path | None = None) -> list[dict[str, Any]]:
        files = sorted((folder or self.folder).glob("rank-*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def goes_on(self, count: int = 3) -> None:
        """All ranks finish iterations."""
        last = self.furthest()
        eventually(lambda: min(self.furthest().values()) >= max(last.values()) + count, why=self.errors())

    def furthest(self) -> dict[int, int]:
        found = dict.fromkeys(range(RANKS), 0)
        for line in self.lines():
            found[line["rank"]] = max(found[line["rank"]], line.get("step", 0))
        return found

    def errors(self) -> str:
        return (self.folder / "errors").read_text()[-3_000:]

    def ends_as_never_moved(self, codes: list[int]) -> None:
        """Stop it, train the same without agents, compare everything."""
        (self.folder / "stop").touch()
        eventually(
            lambda: sum("final" in line for line in self.lines()) == RANKS, why=f"it ends: {self.errors()}"
        )
        (self.folder / "wait").unlink()
        assert self.nursery.ended() == codes, self.errors()
        outcome = _outcome(self.lines())
        steps = {final["final"] for _, final in outcome.values()}
        assert len(steps) == 1
        reference = self.folder.with_name(f"{self.folder.name}-reference")
        reference.mkdir()
        self.nursery.start({**self.spec, "folder": str(reference), "steps": steps.pop(), "pace_s": 0.0})
        assert self.nursery.ended() == [0] * RANKS, (reference / "errors").read_text()
        assert outcome == _outcome(self.lines(reference))


def _outcome(lines: list[dict[str, Any]]) -> dict[int, tuple[list[Any], dict[str, Any]]]:
    """By rank: losses of each iteration, and the digest at the end; nothing finished twice."""
    found: dict[int, tuple[list[Any], dict[str, Any]]] = {}
    for rank in range(RANKS):
        mine = [line for line in lines if line["rank"] == rank]
        losses = sorted((line["step"], line["mean"], line["own"]) for line in mine if "step" in line)
        assert [step for step, _, _ in losses] == list(range(1, len(losses) + 1)), "each once"
        (final,) = [line for line in mine if "final" in line]
        found[rank] = (losses, final)
    return found


@pytest.fixture
def scene(tmp_path: Path, nursery: Nursery) -> Iterator[Scene]:
    rig = Rig(tmp_path)
    for node in [*NODES, "n3"]:
        rig.agent(node)
    job = Job(rig, "A", list(NODES), cast("Any", None), tmp_path)
    yield Scene(rig, nursery, tmp_path / "out", job)
    if (tmp_path / "out" / "wait").exists():  # it failed: the next job needs a new nursery
        nursery.process.kill()
    rig.close()


@pytest.mark.parametrize(
    ("rank", "options"),
    [
        pytest.param(1, {}, id="warm"),
        pytest.param(0, {}, id="rank_0", marks=drill),
        pytest.param(2, {"warm": False}, id="cold", marks=drill),
        pytest.param(1, {"staged": True}, id="staged", marks=drill),
    ],
)
def test_a_moved_rank_changes_no_bit(scene: Scene, rank: int, options: dict[str, Any]) -> None:
    scene.train()
    moving = scene.job.begin(rank, "n3", deadlines=LIMITS, **options)
    if moving.staged:
        park_and_land(moving, rank)
    else:
        moving.arm()
    assert moving.ended("n2" if rank != 2 else "n0").decision == "commit"
    moving.landed()
    assert scene.job.worker(rank).state == "training"
    scene.goes_on()
    scene.ends_as_never_moved([0] * RANKS)


def park_and_land(moving: Moving, rank: int) -> None:
    """The state waits in its node's memory, its process gone, until there is a place for it."""
    name, source = moving.move_id(rank), moving.sources[rank]
    here, there = moving.client(source), moving.client(moving.targets[rank])
    landing = moving.request(rank, "destination")
    here.put_move(name, moving.request(rank, "source"))
    here.prepare_move(name, moving.command)
    moving.until(source, name, "PREPARED")
    here.start_move(name, moving.command)
    moving.pause()
    eventually(lambda: here.move(name).parked, why="the state is parked")
    there.put_move(name, landing)
    there.prepare_move(name, moving.command)
    descriptor = moving.until(moving.targets[rank], name, "PREPARED").descriptor
    there.start_move(name, moving.command)
    here.start_move(name, Command(moving.epoch, descriptor))


def test_a_destination_that_dies_in_its_first_iteration_changes_no_bit(scene: Scene) -> None:
    """Its batch norms have run, its peers wait in a sum: they go back to where they paused, buffers too."""
    scene.train(env={DEATH_VARIABLE: "1"})
    moving = scene.job.begin(1, "n3", deadlines=LIMITS).arm()
    ended = moving.ended("n2")
    assert (ended.state, ended.decision) == ("ABORTED", "undo")
    scene.goes_on()
    assert {line["rank"] for line in scene.lines() if "redone" in line} == {0, 2}
    scene.ends_as_never_moved([0] * RANKS)


@drill
@pytest.mark.parametrize("kind", ["views", "unused", "tiny"])
def test_options_of_ddp_move_too(scene: Scene, kind: str) -> None:
    options = {
        "views": {"gradient_as_bucket_view": True},
        "unused": {"find_unused_parameters": True},
        "tiny": {"bucket_cap_mb": 0.1, "broadcast_buffers": False},
    }
    scene.train(ddp=options[kind])
    moving = scene.job.begin(0, "n3", deadlines=LIMITS).arm()
    assert moving.ended("n2").decision == "commit"
    scene.goes_on()
    scene.ends_as_never_moved([0] * RANKS)


@drill
def test_the_example_on_one_machine(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = {**os.environ, "PYTHON": sys.executable, "PORT": str(port)}
    script = ["sh", str(ROOT / "examples" / "training" / "one-machine.sh"), str(tmp_path / "run")]
    done = subprocess.run(
        script, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the state has moved" in done.stdout
    assert done.stdout.endswith("equal to the last bit\n")
