"""SIGTERM and SIGINT end a command promptly, also while a solver is deep in C code.

Python runs signal handlers between bytecodes, so a handler waits for as long as a solve in this
process takes. The handler raises (``finally`` blocks clean up); a thread that the C-level handler
wakes ends the process a moment later where that did not come through. Solver processes are tied to
ours by the adapters and end with it.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from types import FrameType

GRACE_S = 1.0


def end_promptly() -> None:
    """From here on SIGINT ends the process with 130, SIGTERM with 143. Call it once, from the main thread."""
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.detach(), warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    os.register_at_fork(after_in_child=_be_ordinary)
    threading.Thread(target=_insist, args=(woken,), daemon=True, name="interrupts").start()


def _be_ordinary() -> None:
    """A solver that forks shares our socket: a signal to it must not end us."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _insist(woken: socket.socket) -> None:
    while True:
        number = woken.recv(1)[0]
        if number in (signal.SIGINT, signal.SIGTERM):
            time.sleep(GRACE_S)
            os._exit(128 + number)
