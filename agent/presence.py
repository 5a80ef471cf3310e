"""Says to the verbs shim that the agent still runs: a lock that dies with the process.

The shim (``shim/presence.c``) asks about an open-file-description lock on ``TABLE.lock`` and touches no queue
pair once nobody holds it. The kernel drops the lock at the holder's death, however that comes, and the
question works across containers that share the directory.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from pathlib import Path
from types import TracebackType

from monkeytree.errors import MonkeyTreeError

# struct flock of Linux, 64 bits: l_type, l_whence, l_start, l_len, l_pid (which must be 0 here).
_FLOCK = struct.Struct("hhqqi4x")


class TableTaken(MonkeyTreeError):
    """Another process holds the table."""

    code = "table_taken"


class Presence:
    """Hold the lock of a table for as long as the context, or the process, lasts.

    Raises:
        TableTaken: on entry, where another agent holds it for ``wait_s`` seconds.
    """

    def __init__(self, table: Path, wait_s: float = 2.0) -> None:
        self._path = table.with_name(table.name + ".lock")
        self._wait_s = wait_s
        self._file = -1

    def __enter__(self) -> Presence:
        # Readable by every job's user; nobody else can take a write lock without write permission.
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + self._wait_s
        while not self._try():
            if time.monotonic() > deadline:
                self.release()
                raise TableTaken(
                    f"{self._path} is held by another process: is an agent running with this directory?"
                )
            time.sleep(0.05)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let go; the file stays, which tells the shim that there was an agent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _try(self) -> bool:
        lock = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, lock)
        except (BlockingIOError, PermissionError):
            return False
        return True
