"""The part of an agent's data that jobs may read: the table of source ports, and their logs of what they set.

The agent's own folder is closed to others, so this one stands apart (``/run/monkeytree``): ``routes.txt`` for
the verbs shim and for programs, ``routes.txt.lock``, which says that the agent lives, and ``log``, in which
any user's process may write a file of its own (docs/steering-nccl.md).
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from .labels import read_table
from .presence import Presence
from .shim_log import Proof, prove, read_log

FOLDER = Path("/run/monkeytree")
_WEEK_S = 7 * 86_400.0


class Published:
    """The folder, held for as long as this object, or its process, lives.

    Raises:
        TableTaken: another agent holds the folder, still so after ``wait_s`` seconds.
        OSError: it cannot be made or written.
    """

    def __init__(self, folder: Path = FOLDER, wait_s: float = 2.0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        self.table = folder / "routes.txt"
        self.log = folder / "log"
        self.log.mkdir(exist_ok=True)
        self.log.chmod(0o1777)
        self._presence = Presence(self.table, wait_s)
        self._presence.__enter__()

    def publish(self, lines: str) -> None:
        """Replace the table (``srcIP,dstIP=port[,port...]`` lines); readers see the old or the new one."""
        fresh = self.table.with_suffix(".new")
        fresh.write_text(lines, "ascii")
        fresh.chmod(0o644)
        fresh.replace(self.table)

    def proof(self, since: float = 0.0) -> Proof:
        """What jobs have set from ``since`` (seconds since 1970) on, held against the table."""
        return prove(read_table(self.table), read_log(self.log).pairs, since)

    def sweep(self, older_than_s: float = _WEEK_S) -> int:
        """Remove logs that nobody has written to for so long; how many."""
        removed = 0
        for file in self.log.glob("*.jsonl"):
            with contextlib.suppress(OSError):
                if file.lstat().st_mtime < time.time() - older_than_s:
                    os.unlink(file)
                    removed += 1
        return removed

    def close(self) -> None:
        """Let go: from now on the shim sets nothing."""
        self._presence.release()
