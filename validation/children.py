"""Ends the simulations that are still running when the replay itself is stopped."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType


def stop_with_children(number: int, frame: FrameType | None) -> None:
    """A signal handler: kill what this process started, then end as the signal would have ended it.

    The simulations run in sessions of their own, so a Ctrl-C does not reach them; and the threads that
    wait for them cannot be interrupted.
    """
    for pid in _children():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os._exit(128 + number)


def _children() -> list[int]:
    """Processes started by any thread of this one (Linux, proc(5))."""
    pids: list[int] = []
    for listing in Path("/proc/self/task").glob("*/children"):
        try:
            pids += map(int, listing.read_text("ascii").split())
        except OSError:  # the thread is gone
            continue
    return pids
