"""Agents and plain jobs as real processes on this machine, and a controller of a few lines."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from monkeytree.adapters.agents import AgentClient
from monkeytree.agent.main import Agent, read_secret
from monkeytree.agent.options import Options
from monkeytree.agent.parked import folder_of
from monkeytree.agent.plain import Plain, arguments_of
from monkeytree.agent.store import SocketStore, StoreServer
from monkeytree.wire.agents import (
    Command,
    Deadlines,
    MoveRequest,
    MoveStatus,
    PauseMove,
    PauseRequest,
    PauseStatus,
    Seat,
    WorkerStatus,
)

PATIENCE_S = 60.0


def eventually(what: Callable[[], Any], timeout_s: float = PATIENCE_S, why: str = "") -> Any:
    """What ``what`` returns, as soon as it is true."""
    ends = time.monotonic() + timeout_s
    while not (found := what()):
        assert time.monotonic() < ends, f"waited in vain: {why or what}"
        time.sleep(0.01)
    return found


@dataclass
class RunningAgent:
    """The agent of a node: on threads of this process, or ``monkeytree agent`` that can be killed."""

    node: str
    folder: Path
    options: dict[str, Any]
    apart: bool = False
    process: subprocess.Popen[bytes] | None = None
    inside: Agent | None = None
    _client: tuple[str, AgentClient] | None = None

    def start(self) -> RunningAgent:
        (self.folder / "url").unlink(missing_ok=True)
        if not self.apart:
            secret = read_secret(None, self.folder)
            self.inside = Agent(Options(self.node, self.folder, secret=secret, **self.options))
            self.inside.start()
            return self
        words = [f"--fault={fault}" for fault in self.options.get("faults", ())]
        words += [f"--service={self.options['service']}"] if "service" in self.options else []
        with open(self.folder.with_suffix(".log"), "ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "monkeytree.cli", "agent", "--node", self.node,
                    "--listen", "127.0.0.1:0", "--data", str(self.folder), *words,
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
        eventually(lambda: (self.folder / "url").exists() or not self.up, why=f"agent {self.node} answers")
        assert self.up, self.folder.with_suffix(".log").read_text()[-3000:]
        return self

    @property
    def client(self) -> AgentClient:
        url = (self.folder / "url").read_text().strip()
        if self._client is None or self._client[0] != url:
            secret = (self.folder / "token").read_text().strip()
            self._client = (url, AgentClient(url, secret, self.node))
        return self._client[1]

    @property
    def up(self) -> bool:
        return self.inside is not None or (self.process is not None and self.process.poll() is None)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def movers(self) -> list[psutil.Process]:
        """Movers of this agent, whoever started them."""
        return [p for p in _ours(self.folder) if "monkeytree.agent.mover" in " ".join(_words(p))]


@dataclass
class Rig:
    """Agents by node, one plain job, and its store."""

    folder: Path
    agents: dict[str, RunningAgent] = field(default_factory=dict)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    stores: list[StoreServer] = field(default_factory=list)

    def agent(self, node: str, *, apart: bool = False, **options: Any) -> RunningAgent:
        data = self.folder / node
        data.mkdir(exist_ok=True, mode=0o700)
        self.agents[node] = RunningAgent(node, data, options, apart).start()
        return self.agents[node]

    def job(
        self, nodes: Sequence[str], *, job: str = "A", steps: int = 0, state: int = 2**20,
        pause_ms: float = 5.0, more: Sequence[str] = (),
    ) -> Job:  # fmt: skip
        """A plain job with a rank on each of ``nodes`` ("" has no agent)."""
        server = StoreServer()
        self.stores.append(server)
        out = self.folder / f"out-{job}-{len(self.stores)}"
        out.mkdir()
        made = Job(self, job, list(nodes), SocketStore(server.address), out)
        for rank, node in enumerate(nodes):
            environ = {
                **os.environ,
                "MONKEYTREE_AGENT": str(self.folder / node / "agent.sock") if node else "",
            }
            with open(out / f"{rank}.log", "ab") as log:
                self.workers.append(
                    subprocess.Popen(
                        [
                            sys.executable, "-m", "monkeytree.agent.plain", "--job", job, "--rank", str(rank),
                            "--world", str(len(nodes)), "--store", server.address, "--steps", str(steps),
                            "--bytes", str(state), "--pause-ms", str(pause_ms),
                            "--out", str(out / f"{rank}.json"), *more,
                        ],
                        env=environ, stdout=log, stderr=log,
                    )
                )  # fmt: skip
        return made

    def close(self) -> None:
        for process in [*self.workers, *(a.process for a in self.agents.values() if a.process)]:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for agent in self.agents.values():
            if agent.inside is not None:
                agent.inside.stop()
        for left in _ours(self.folder):
            with contextlib.suppress(psutil.Error):
                left.kill()
        for agent in self.agents.values():
            shutil.rmtree(folder_of(agent.folder, Path("/dev/shm")), ignore_errors=True)
        for store in self.stores:
            store.close()


@dataclass
class Job:
    """A plain job: where its ranks are, and what it wrote."""

    rig: Rig
    name: str
    nodes: list[str]
    store: SocketStore
    out: Path
    epoch: int = 0
    worker_pid: int = 0

    def worker(self, rank: int) -> WorkerStatus:
        """As its agent lists it, once it trains."""
        client = self.rig.agents[self.nodes[rank]].client

        def find() -> WorkerStatus | None:
            listed = client.workers().workers
            return next(
                (w for w in listed if (w.job, w.rank, w.state) == (self.name, rank, "training")), None
            )

        found: WorkerStatus = eventually(find, why=f"rank {rank} registers at {self.nodes[rank]}")
        return found

    def ready(self) -> None:
        """All ranks are registered and train."""
        for rank in range(len(self.nodes)):
            eventually(partial(self._trains, rank), why="it trains")

    def _trains(self, rank: int) -> bool:
        return self.worker(rank).step > 0

    def stop(self, after: int = 5) -> dict[int, dict[str, Any]]:
        """Let it end a few steps on; what the ranks wrote at the end."""
        step = max(
            w.step for a in self.rig.agents.values() if a.up
            for w in a.client.workers().workers if w.job == self.name
        )  # fmt: skip
        self.store.set("plain/stop", str(step + after))
        return self.results()

    def results(self) -> dict[int, dict[str, Any]]:
        files = [self.out / f"{rank}.json" for rank in range(len(self.nodes))]
        eventually(lambda: all(file.exists() for file in files), why=f"all ranks end: {self.logs()}")
        return {rank: json.loads(file.read_text()) for rank, file in enumerate(files)}

    def logs(self) -> str:
        return "\n".join(log.read_text()[-2_000:] for log in sorted(self.out.glob("*.log")))

    def assert_unharmed(self, results: Mapping[int, Mapping[str, Any]], state: int = 2**20) -> None:
        """Every rank has, bit by bit, what it has in the same job that never moved."""
        steps = {result["step"] for result in results.values()}
        assert len(steps) == 1, f"the ranks ended at different steps: {steps}"
        expected = reference(self.name, len(self.nodes), steps.pop(), state)
        for rank, (digest, sums) in expected.items():
            assert results[rank]["sums"] == sums, f"rank {rank}"
            assert results[rank]["digest"] == digest, f"rank {rank}"

    def begin(self, rank: int, target: str, *, epoch: int | None = None, **options: Any) -> Moving:
        """The requests of one move of a pause of its own."""
        self.epoch = epoch or self.epoch + 1
        return Moving(self, self.epoch, {rank: target}, **options)

    def move(self, targets: dict[int, str], **options: Any) -> Moving:
        """Moves and orders in one pause, armed."""
        self.epoch += 1
        return Moving(self, self.epoch, targets, **options).arm()


@dataclass
class Moving:
    """What a controller does for the moves of one job in one wave (docs/agents.md)."""

    job: Job
    epoch: int
    targets: dict[int, str]
    warm: bool = True
    staged: bool = False
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=lambda: Deadlines(30.0, 20.0, 20.0, 20.0))
    told: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.command = Command(self.epoch)
        self.pause_id = f"p{self.epoch}"
        self.sources = {rank: self.job.nodes[rank] for rank in self.targets}

    def move_id(self, rank: int) -> str:
        return f"e{self.epoch}-m{rank}"

    def client(self, node: str) -> AgentClient:
        return self.job.rig.agents[node].client

    def request(self, rank: int, role: str) -> MoveRequest:
        worker = self.job.worker(rank)
        told = {"standby_command": worker.standby_command, **self.told}
        return MoveRequest(
            epoch=self.epoch, job=self.job.name, group="0", rank=rank, role=role,  # type: ignore[arg-type]
            source=self.sources[rank], target=self.targets[rank], state_bytes=worker.state_bytes,
            warm=self.warm, staged=self.staged,
            standby_env=worker.standby_env,
            deadlines=self.deadlines, **told,
        )  # fmt: skip

    def pause_request(self) -> PauseRequest:
        moves = tuple(
            PauseMove(self.move_id(rank), "0", rank, self.sources[rank], target, self.staged)
            for rank, target in self.targets.items()
        )
        members = tuple(Seat("0", rank, node) for rank, node in enumerate(self.job.nodes))
        return PauseRequest(self.epoch, self.job.name, members, moves, self.orders, deadlines=self.deadlines)

    def put(self) -> None:
        for rank in self.targets:
            self.client(self.targets[rank]).put_move(self.move_id(rank), self.request(rank, "destination"))
            self.client(self.sources[rank]).put_move(self.move_id(rank), self.request(rank, "source"))

    def prepare(self) -> None:
        for rank, target in self.targets.items():
            move_id = self.move_id(rank)
            self.client(target).prepare_move(move_id, self.command)
            there = self.until(target, move_id, "PREPARED")
            descriptor = Command(self.epoch, there.descriptor)
            self.client(self.sources[rank]).prepare_move(move_id, descriptor)
            self.until(self.sources[rank], move_id, "PREPARED")

    def start(self) -> None:
        for rank, target in self.targets.items():
            for node in (target, self.sources[rank]):
                self.client(node).start_move(self.move_id(rank), self.command)

    def pause(self) -> None:
        hosts = set(self.job.nodes)
        for node in hosts:
            self.client(node).put_pause(self.pause_id, self.pause_request())
        for node in hosts:
            self.client(node).start_pause(self.pause_id, self.command)

    def arm(self) -> Moving:
        """All of it up to the pause."""
        self.put()
        self.prepare()
        self.start()
        self.pause()
        return self

    def until(self, node: str, move_id: str, state: str) -> MoveStatus:
        def look() -> MoveStatus | None:
            status = self.client(node).move(move_id, wait_s=1.0, since=since[0])
            since[0] = status.version
            passed = state in [phase.name for phase in status.phases]
            assert not status.final or passed or status.state == state, f"{move_id} at {node}: {status}"
            return status if passed or status.state == state else None

        since = [-1]
        found: MoveStatus = eventually(look, why=f"{move_id} at {node} is {state}")
        return found

    def ended(self, node: str) -> PauseStatus:
        def look() -> PauseStatus | None:
            status = self.client(node).pause(self.pause_id, wait_s=1.0, since=10**6)
            return status if status.final else None

        found: PauseStatus = eventually(look, why=f"{self.pause_id} ends at {node}")
        return found

    def move_ended(self, node: str, rank: int) -> MoveStatus:
        def look() -> MoveStatus | None:
            status = self.client(node).move(self.move_id(rank), wait_s=1.0, since=10**6)
            return status if status.final else None

        found: MoveStatus = eventually(look, why=f"move of {rank} ends at {node}")
        return found

    def landed(self) -> None:
        """The workers are where they went."""
        for rank, target in self.targets.items():
            self.job.nodes[rank] = target


def reference(job: str, world: int, steps: int, state: int) -> dict[int, tuple[str, list[int]]]:
    """Digest and sums by rank of an unmigrated run, on threads of this process."""
    server = StoreServer()
    options = ["--job", job, "--world", str(world), "--store", server.address]
    options += ["--steps", str(steps), "--bytes", str(state)]
    plains = [Plain(arguments_of([*options, "--rank", str(rank)])) for rank in range(world)]
    threads = [threading.Thread(target=plain.run) for plain in plains]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    server.close()
    return {rank: (plain.digest(), plain.sums) for rank, plain in enumerate(plains)}


def _words(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def _ours(folder: Path) -> Iterator[psutil.Process]:
    """Processes that have a file of ``folder`` open: movers (their socket's log), standbys (their log)."""
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        with contextlib.suppress(OSError, psutil.Error):
            for handle in os.scandir(f"/proc/{process.pid}/fd"):
                if os.readlink(handle.path).startswith(str(folder)):
                    yield process
                    break
