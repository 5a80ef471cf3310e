"""Ties a child to the life of its parent, and lets no signal come between its start and the record of it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PRCTL = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None) if sys.platform == "linux" else None
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back the signals that stop us: a child started meanwhile must not be forgotten."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)


def leash() -> Callable[[], None]:
    """What a child must run between fork and exec.

    It hears the signals that we held back, and on Linux the kernel sends it SIGKILL when we die,
    however we die. The kernel remembers the parent *thread*: start children from the main thread.
    Processes that the child starts in turn are the warden's task (see warden.py).
    """
    parent = os.getpid()

    def bind() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        if _PRCTL is not None:
            _PRCTL(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != parent:  # it died before the call took effect
                os._exit(1)

    return bind
