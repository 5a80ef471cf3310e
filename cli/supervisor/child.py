"""One child of ``serve``: started on a leash, restarted with back-off, stopped with patience."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from .leash import leash, uninterrupted

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 10.0
SETTLED_S = 30.0  # a child that lived this long starts its back-off anew


@dataclass(frozen=True, slots=True)
class Spec:
    """What to run.

    Attributes:
        name: short, for messages.
        command: the argument vector.
        env: variables on top of the supervisor's own.
        feed: text for its standard input (secrets do not belong on a command line).
        pass_fds: descriptors it inherits.
        stops: signals to stop it with, each with the seconds it is given; SIGKILL to its whole
            process group follows.
    """

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    feed: str | None = None
    pass_fds: tuple[int, ...] = ()
    stops: tuple[tuple[signal.Signals, float], ...] = ((signal.SIGTERM, 5.0),)


class Child:
    """A running (or crashed, or stopped) ``Spec`` in a process group of its own."""

    def __init__(self, spec: Spec, output: IO[bytes] | None, on_group: Callable[[str, int], None]) -> None:
        """``on_group`` hears ``("+", N)`` and ``("-", N)`` as process groups come and go."""
        self.spec = spec
        self.restarts = 0
        self._output = output
        self._on_group = on_group
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._start_again_at = 0.0
        self._delay_s = FIRST_DELAY_S

    @property
    def pid(self) -> int | None:
        """Process id, which is also the id of its process group; None while it is down."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it. A child outlives neither the supervisor nor its own crash."""
        with uninterrupted():
            self._process = self._spawn()
            self._started_at = time.monotonic()
            self._on_group("+", self._process.pid)

    def _spawn(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            list(self.spec.command),
            env={**os.environ, **self.spec.env},
            stdin=subprocess.DEVNULL if self.spec.feed is None else subprocess.PIPE,
            stdout=self._output or sys.stderr,  # our standard output is for what the user asked for
            stderr=subprocess.STDOUT,
            pass_fds=self.spec.pass_fds,
            start_new_session=True,  # Ctrl-C reaches the supervisor alone
            preexec_fn=leash(),
        )
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it died at once: poll() will tell
                process.stdin.write((self.spec.feed or "").encode())
                process.stdin.close()
        return process

    def poll(self) -> int | None:
        """The exit code of a child found dead just now (its group is swept), else None."""
        if self._process is None or self._process.poll() is None:
            return None
        code = self._process.returncode
        self._sweep()
        if time.monotonic() - self._started_at >= SETTLED_S:
            self._delay_s = FIRST_DELAY_S
        self._start_again_at = time.monotonic() + self._delay_s
        self._delay_s = min(2 * self._delay_s, LONGEST_DELAY_S)
        return code

    @property
    def due(self) -> bool:
        """Whether it is down and its back-off is over."""
        return self._process is None and time.monotonic() >= self._start_again_at

    def signal(self, number: signal.Signals) -> None:
        """Signal the child itself, not its group: it stops its own children in order."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, seconds: float) -> bool:
        """Whether it is gone within ``seconds``."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            return False
        self._sweep()
        return True

    def kill(self) -> None:
        """SIGKILL to its whole group."""
        if self._process is not None:
            self._sweep()

    def _sweep(self) -> None:
        """Kill what is left of the group and reap the child."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._on_group("-", self._process.pid)
        self._process = None
