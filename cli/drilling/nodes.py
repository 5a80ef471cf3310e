"""The agents of the drill's nodes, as processes of this machine that may be killed and started again."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from monkeytree.adapters.agents import AgentClient
from monkeytree.errors import MonkeyTreeError

from ..errors import CommandFailed, Exit
from ..supervisor.leash import leash

PATIENCE_S = 60.0
MOVER = "monkeytree.agent.mover"


class NodeAgent:
    """The agent of one node."""

    def __init__(self, node: str, folder: Path, faults: Sequence[str] = ()) -> None:
        """Started, but not up yet: :meth:`wait`."""
        self.node = node
        self.folder = folder
        self.secret = ""
        self.url = ""
        self._faults = tuple(faults)
        folder.mkdir(parents=True, mode=0o700)
        self.start()

    @property
    def socket(self) -> str:
        """Where its workers register."""
        return str(self.folder / "agent.sock")

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def start(self) -> None:
        """Start it (again), on the port it had."""
        listen = self.url.removeprefix("http://") or "127.0.0.1:0"
        command = [sys.executable, "-m", "monkeytree.cli", "agent", "--node", self.node, "--listen", listen]
        command += ["--data", str(self.folder), *(f"--fault={fault}" for fault in self._faults)]
        with (self.folder / "agent.err").open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=leash(),
            )

    def wait(self) -> None:
        """Until it answers.

        Raises:
            CommandFailed: it does not.
        """
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(MonkeyTreeError, FileNotFoundError):
                self.url = (self.folder / "url").read_text("utf-8").strip()
                self.secret = (self.folder / "token").read_text("utf-8").strip()
                with AgentClient(self.url, self.secret, self.node) as agent:
                    agent.workers()
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise CommandFailed(f"the agent of {self.node} did not start: {self.said()}", Exit.INTERNAL)

    def dead(self) -> bool:
        """Whether its process has ended."""
        return self._process.poll() is not None

    def mover(self) -> int | None:
        """Process id of its mover, None where it has none."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if MOVER in child.cmdline():
                        return child.pid
        return None

    def said(self) -> str:
        """The last line of its log."""
        log = self.folder / "agent.err"
        lines = log.read_text("utf-8", "replace").strip().splitlines() if log.exists() else []
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        """End it, and the movers that would outlive it."""
        children: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.pid).children(recursive=True)
        self._process.terminate()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


def standby(spec_file: Path) -> int | None:
    """Process id of the standby of the job with that spec."""
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if "--standby" in command and str(spec_file) in command:
            return process.pid
    return None
