"""A solve in a forked child, so that a time limit is a promise and a kill is always possible.

A solver library may overrun its own limit inside one long step (HiGHS 1.16: 136 s against 60 s), and
cannot be stopped from outside while in process. The child streams what it finds; when its time is up
it is killed and the last finding counts. It dies with the thread that forked it (PR_SET_PDEATHSIG).
Forking costs milliseconds where starting an interpreter costs a good part of a second.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
Send = Callable[[Any], None]


def die_with_parent() -> None:
    """In a child: ask the kernel to kill it when the thread that started it ends (prctl(2))."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def findings(work: Callable[[Send], None], time_limit_s: float) -> Iterator[Any]:
    """What ``work`` sends, as it sends it, until it ends or ``time_limit_s`` is over.

    ``work`` runs in a forked child with stdout and stderr closed to the parent's. An exception in it
    is sent as the last finding.
    """
    read_end, write_end = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _run_and_leave(work, write_end, parent)
    os.close(write_end)
    try:
        yield from _messages(read_end, time.monotonic() + time_limit_s)
    finally:
        os.close(read_end)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _run_and_leave(work: Callable[[Send], None], write_end: int, parent: int) -> None:
    """The child's whole life; it never returns into the parent's code."""
    status = 1
    try:
        die_with_parent()
        if os.getppid() == parent:
            _silence()
            with os.fdopen(write_end, "wb") as pipe:
                _work(work, lambda finding: _send(pipe, finding))
            status = 0
    finally:
        os._exit(status)


def _work(work: Callable[[Send], None], send: Send) -> None:
    try:
        work(send)
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent raises it again
        send(error)


def _silence() -> None:
    """Keep a solver's banner off the parent's stdout."""
    sink = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(sink, stream)


def _send(pipe: Any, finding: Any) -> None:
    data = pickle.dumps(finding)
    pipe.write(len(data).to_bytes(8, "big") + data)
    pipe.flush()


def _messages(read_end: int, deadline: float) -> Iterator[Any]:
    buffer = b""
    while True:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([read_end], [], [], max(0.0, left))
        if not ready:
            return
        chunk = os.read(read_end, 1 << 20)
        if not chunk:
            return
        buffer += chunk
        while len(buffer) >= 8 and len(buffer) >= 8 + (size := int.from_bytes(buffer[:8], "big")):
            yield pickle.loads(buffer[8 : 8 + size])  # our own child's words
            buffer = buffer[8 + size :]
