"""The process that starts ranks: it imports torch once and forks (monkeytree.agent.pytorch.launch)."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import CommandFailed, Exit
from ..supervisor.leash import leash

PATIENCE_S = 180.0
"""For torch to be imported on a busy machine."""


def why_no_torch() -> str | None:
    """What to do where PyTorch is not installed."""
    if find_spec("torch") is None:
        return "the drill trains with PyTorch, which is not installed: pip install 'monkeytree[torch]'"
    return None


class Launcher:
    """Told over its standard input, heard on its standard output, one JSON document a line."""

    def __init__(self, errors: Path) -> None:
        """``errors`` takes what it says on standard error."""
        self._errors = errors
        self._waiting = b""
        self.ended: dict[str, dict[int, int]] = {}
        """Job -> rank -> exit code of the process that started as that rank."""
        with errors.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "monkeytree.agent.pytorch.launch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                preexec_fn=leash(),
            )
        self._answer("ready")

    def start(self, job: str, spec: dict[str, Any], agents: Sequence[str] | None = None) -> list[int]:
        """Start a job; process ids of its ranks. ``agents`` has the agent's socket of each rank."""
        self.ended[job] = {}
        self._tell({"do": "start", "job": job, "spec": spec, "agents": list(agents) if agents else None})
        pids: list[int] = self._answer("pids")["pids"]
        return pids

    def stop(self, job: str) -> None:
        """Kill what is left of it."""
        self._tell({"do": "stop", "job": job})
        self._answer("stopped")

    def look(self, wait_s: float = 0.0) -> None:
        """Take in what ended meanwhile."""
        for found in self._lines(wait_s):
            self._note(found)

    def wait(self, job: str, count: int, timeout_s: float) -> bool:
        """Until that many ranks' processes have ended; False when ``timeout_s`` is over."""
        deadline = time.monotonic() + timeout_s
        while len(self.ended[job]) < count:
            if time.monotonic() > deadline:
                return False
            self.look(0.1)
        return True

    def close(self) -> None:
        """End it, and all that it started."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _tell(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed() from None

    def _answer(self, member: str) -> dict[str, Any]:
        """The next answer that has the member."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = None
            for one in self._lines(0.5):
                if member in one:
                    found = one
                else:
                    self._note(one)
            if found is not None:
                return found
        raise CommandFailed(f"PyTorch did not start within {PATIENCE_S:g} s", Exit.INTERNAL)

    def _note(self, found: dict[str, Any]) -> None:
        if "ended" in found:
            self.ended.setdefault(found["job"], {})[found["rank"]] = found["ended"]

    def _lines(self, wait_s: float) -> list[dict[str, Any]]:
        out = self._process.stdout
        assert out is not None
        if not select.select([out], [], [], wait_s)[0]:
            return []
        part = os.read(out.fileno(), 1 << 16)
        if not part:
            raise self._failed()
        *lines, self._waiting = (self._waiting + part).split(b"\n")
        return [json.loads(line) for line in lines]

    def _failed(self) -> CommandFailed:
        said = self._errors.read_text("utf-8", "replace").strip().splitlines() or ["it said nothing"]
        return CommandFailed(f"the launcher of the ranks died: {said[-1]}", Exit.INTERNAL)
