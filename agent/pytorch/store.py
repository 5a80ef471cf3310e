"""torch's TCPStore as a job's store; hosted by whoever launches the job, so that every rank may move."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import torch.distributed as dist

from ..store import StoreLost

T = TypeVar("T")
_SHORTEST_S, _LONGEST_S = 0.0002, 0.005


def host_store(port: int = 0, host: str = "127.0.0.1") -> dist.TCPStore:
    """A store that serves while the object lives; ``.port`` says where."""
    return dist.TCPStore(host, port, is_master=True, wait_for_workers=False)


def open_store(port: int, host: str = "127.0.0.1", timeout_s: float = 10.0) -> dist.TCPStore:
    """A client of a hosted store.

    Raises:
        StoreLost: nothing answers there.
    """
    return _lost(
        lambda: dist.TCPStore(
            host, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=timeout_s)
        )
    )


class TorchStore:
    """:class:`monkeytree.agent.store.JobStore` over any torch store; threads may share it.

    ``wait`` asks again and again rather than let the store wait: a waiting TCPStore client keeps its
    connection from every other thread.
    """

    def __init__(self, store: dist.Store) -> None:
        self.torch = store

    def get(self, key: str) -> str:
        """The value, "" where there is none."""
        return _lost(lambda: self.torch.get(key).decode() if self.torch.check([key]) else "")

    def set(self, key: str, value: str) -> None:
        """Write it."""
        _lost(lambda: self.torch.set(key, value))

    def compare_set(self, key: str, expected: str, desired: str) -> str:
        """Write ``desired`` if the value is ``expected``; the value afterwards."""
        found: str = _lost(lambda: self.torch.compare_set(key, expected, desired).decode())
        # Asked about a key that is not there, torch answers as if it had the expected value.
        if found == expected != desired and expected and not self.check([key]):
            return ""
        return found

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all of them have a value."""
        return _lost(lambda: self.torch.check(list(keys)))

    def wait(self, keys: Sequence[str], timeout_s: float) -> bool:
        """Wait until all of them have a value; False when ``timeout_s`` is over."""
        deadline = time.monotonic() + timeout_s
        pause_s = _SHORTEST_S
        while not self.check(keys):
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause_s)
            pause_s = min(_LONGEST_S, 1.5 * pause_s)
        return True

    def delete(self, key: str) -> None:
        """Forget it."""
        _lost(lambda: self.torch.delete_key(key))


def _lost(call: Callable[[], T]) -> T:
    try:
        return call()
    except RuntimeError as error:  # torch's DistError and its kin
        raise StoreLost(f"the job's store does not answer: {str(error).splitlines()[0]}") from error


def main(arguments: Sequence[str]) -> None:
    """``python -m monkeytree.agent.pytorch.store [HOST:PORT]``: serve until killed; prints the address."""
    host, _, port = (arguments[0] if arguments else "127.0.0.1:0").rpartition(":")
    try:
        store = host_store(int(port), host or "127.0.0.1")
    except (RuntimeError, ValueError) as error:  # torch's DistNetworkError and its kin
        why = str(error).splitlines()[0]
        sys.exit(f"cannot serve a store at {host or '127.0.0.1'}:{port}: {why}; name another HOST:PORT")
    sys.stdout.write(f"{host or '127.0.0.1'}:{store.port}\n")
    sys.stdout.flush()
    while True:
        time.sleep(3_600)


if __name__ == "__main__":
    main(sys.argv[1:])
