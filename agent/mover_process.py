"""A mover as the agent sees it: started, found again after a restart, listened to."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .channel import Channel, Closed, connect_local
from .mover import Config

_START_S = 60.0
_KILLED_S = 5.0


def start_mover(config: Config) -> subprocess.Popen[bytes]:
    """Start it, in a session of its own: it outlives the agent."""
    process = subprocess.Popen(
        [sys.executable, "-m", "monkeytree.agent.mover"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=_log(config.log),
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(asdict(config)).encode())
    process.stdin.close()
    return process


def _log(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


class MoverLink:
    """The agent's connection to a mover; :meth:`follow` blocks, run it in a thread."""

    def __init__(self, config: Config, process: subprocess.Popen[bytes] | None) -> None:
        """``process`` None: it was started by an agent before this one."""
        self.config = config
        self.process = process
        self._channel: Channel | None = None

    def connect(self) -> bool:
        """Connect, once it listens; False where it does not."""
        ends = time.monotonic() + (_START_S if self.process is not None else 0.0)
        while True:
            try:
                self._channel = connect_local(Path(self.config.socket))
                self._channel.send("hello")
                return True
            except (OSError, Closed):
                gone = self.process is None or self.process.poll() is not None
                if gone or time.monotonic() > ends:
                    return False
                time.sleep(0.01)

    def tell(self, kind: str, fds: Sequence[int] = (), **body: Any) -> bool:
        """Send it an order; False where it is gone."""
        if self._channel is None:
            return False
        try:
            self._channel.send(kind, b"", fds, **body)
        except Closed:
            return False
        return True

    def follow(self, on_status: Callable[[dict[str, Any]], None]) -> dict[str, Any] | None:
        """Hand on what it says until it goes; the last status it left on disk."""
        try:
            while self._channel is not None:
                message = self._channel.receive(None)
                if message is not None and message.kind == "status":
                    on_status(message.body["status"])
        except Closed:
            pass
        if self.process is not None:
            self.process.wait()
        return self.last_words()

    def last_words(self) -> dict[str, Any] | None:
        """The status file."""
        try:
            words: dict[str, Any] = json.loads(Path(self.config.state_file).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return words

    def end(self) -> None:
        """Kill one that we started and that does not answer: what comes after it must not meet it."""
        if self.process is not None:
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_KILLED_S)
        self.close()

    def close(self) -> None:
        """Let it be."""
        if self._channel is not None:
            self._channel.close()
