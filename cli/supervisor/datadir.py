"""The data directory of ``serve``: made private, and held by one ``serve`` at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class DataDirInUse(Exception):
    """Another ``serve`` holds the directory; the message names its process."""


def default_data_dir() -> Path:
    """``$MONKEYTREE_DATA``, else ``monkeytree-data`` in the working directory."""
    return Path(os.environ.get("MONKEYTREE_DATA") or "monkeytree-data")


class DataDirLock:
    """Held while the object lives and is not closed; the kernel lets go when the process dies."""

    def __init__(self, data: Path) -> None:
        """Make the directory where it is missing, and lock it.

        Raises:
            DataDirInUse: another process holds it.
            OSError: it cannot be made or written.
        """
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = data / "serve.lock"
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise DataDirInUse(
                f"{data} is in use by another `monkeytree serve` (process {holder}); stop it, "
                "or name another directory with --data"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Let go."""
        os.close(self._descriptor)
