"""Launches jobs on this host: ``python -m monkeytree.agent.pytorch.launch``, told what on standard input.

It imports torch once, and forks each rank and each job's store from itself: importing costs seconds of CPU.

Commands and answers are JSON, one a line. ``{"do": "start", "job": ID, "spec": {...}, "agents": [PATH...]}``
is answered by ``{"job": ID, "store_port": N, "pids": [...]}``, and later by ``{"job": ID, "rank": N, "ended":
CODE}`` for each rank. ``{"do": "stop", "job": ID}`` kills the ranks and the store. At the end of its input it
kills everything and leaves.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .job import JobSpec
from .store import host_store
from .train import run

TICK_S = 0.02
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Launcher:
    """The children of each job."""

    def __init__(self) -> None:
        self._ranks: dict[int, tuple[str, int]] = {}
        self._stores: dict[str, int] = {}

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do as told; the answer."""
        if command["do"] == "start":
            return self.start(command["job"], command["spec"], command.get("agents"))
        self.stop(command["job"])
        return {"job": command["job"], "stopped": True}

    def start(self, job: str, members: dict[str, Any], agents: list[str] | None) -> dict[str, Any]:
        """Fork the job's store and its ranks, the rank's number choosing its agent."""
        port_end, port_told = os.pipe()
        self._stores[job] = _fork(lambda: _serve(port_told), Path(members["folder"]) / "store.err")
        port = int(os.read(port_end, 16))
        os.close(port_end)
        os.close(port_told)
        spec = JobSpec.read(json.dumps({**members, "store_port": port}))
        file = Path(spec.folder) / "spec.json"
        file.write_text(spec.text(), "utf-8")
        pids = []
        for rank in range(spec.world_size):
            socket = agents[rank] if agents else ""
            pid = _fork(_starter(spec, rank, str(file), socket), Path(spec.folder) / f"rank-{rank}.err")
            self._ranks[pid] = (job, rank)
            pids.append(pid)
        return {"job": job, "store_port": port, "pids": pids}

    def stop(self, job: str) -> None:
        """Kill what is left of a job, its store too."""
        for pid in [pid for pid, (name, _) in self._ranks.items() if name == job]:
            self._kill(pid)
            del self._ranks[pid]
        if job in self._stores:
            self._kill(self._stores.pop(job))

    def stop_all(self) -> None:
        """Kill everything."""
        for job in {name for name, _ in self._ranks.values()} | set(self._stores):
            self.stop(job)

    def ended(self) -> list[dict[str, Any]]:
        """Ranks that ended since the last time."""
        found = []
        for pid, (job, rank) in list(self._ranks.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                del self._ranks[pid]
                found.append({"job": job, "rank": rank, "ended": os.waitstatus_to_exitcode(status)})
        return found

    @staticmethod
    def _kill(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def main() -> None:
    """Obey until the input ends."""
    torch.set_num_threads(1)
    launcher = Launcher()
    waiting = b""
    _say({"ready": True, "torch": torch.__version__})
    try:
        while True:
            if select.select([0], [], [], TICK_S)[0]:
                part = os.read(0, 1 << 16)
                if not part:
                    return
                waiting += part
                *lines, waiting = waiting.split(b"\n")
                for line in lines:
                    _say(launcher.obey(json.loads(line)))
            for answer in launcher.ended():
                _say(answer)
    finally:
        launcher.stop_all()


def _starter(spec: JobSpec, rank: int, file: str, socket: str) -> Callable[[], int]:
    return lambda: run(spec, rank, file, socket)


def _serve(told: int) -> int:
    """Host a job's store until killed."""
    store = host_store()
    os.write(told, str(store.port).encode())
    while True:
        signal.pause()


def _fork(work: Callable[[], int], errors: Path) -> int:
    """Run ``work`` in a child that dies with this process; its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        out = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        status = work()
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException as error:  # noqa: BLE001  # nothing of the parent may run here
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
