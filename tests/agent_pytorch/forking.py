"""Ranks as processes forked from the test, and a store in one of its own."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from monkeytree.agent.pytorch.store import host_store

PATIENCE_S = 60.0


def forked(count: int, work: Callable[[int], None]) -> list[int]:
    """Run ``work(rank)`` in a process each; their exit codes, negative for a signal."""
    pids = []
    for rank in range(count):
        pid = os.fork()
        if pid == 0:
            signal.alarm(int(PATIENCE_S))
            torch.set_num_threads(1)  # threads of the test's own process have not come along
            try:
                work(rank)
                os._exit(0)
            except BaseException:  # noqa: BLE001  # a child of pytest must end here
                os.write(2, f"rank {rank}: {traceback.format_exc()}\n".encode())
                os._exit(1)
        pids.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


@contextmanager
def hosted_store() -> Iterator[int]:
    """Its port. The process is its own: one with threads must not be forked."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(int(2 * PATIENCE_S))
        store = host_store()
        os.write(tell, str(store.port).encode())
        while True:
            signal.pause()
    try:
        yield int(os.read(told, 16))
    finally:
        os.close(told)
        os.close(tell)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
