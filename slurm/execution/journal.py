"""What an execution did, a line of JSON each, and the lock that keeps it the only one."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from ..errors import MovesRefused
from .order import Kind


class Journal:
    """A file of entries ``{"at": ..., "plan": ..., "event": ..., ...}``, appended and synced one by one.

    A crash may leave the last line cut off: it is passed over, what it would have said is told by Slurm.
    """

    def __init__(self, path: Path, plan_id: str) -> None:
        """Open it for this process alone.

        Raises:
            MovesRefused: another execution has it, or it is of another plan.
            OSError: it cannot be written.
        """
        self.path = path
        self.plan_id = plan_id
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise MovesRefused(f"{path} is in use: this plan is being carried out already") from None
        self.entries = [entry for entry in _read(path) if isinstance(entry, dict)]
        foreign = next((entry for entry in self.entries if entry.get("plan") != plan_id), None)
        if foreign is not None:
            self.close()
            raise MovesRefused(f"{path} is the journal of plan {foreign.get('plan')}; name another --journal")
        damaged = next((entry for entry in self.entries if not _sound(entry)), None)
        if damaged is not None:
            self.close()
            what = json.dumps(damaged)[:120]
            raise MovesRefused(f"{path} is damaged: {what}; mend it, or name another --journal")
        self._end_line()

    def _end_line(self) -> None:
        """Close a line that a crash cut off."""
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def write(self, event: str, **what: Any) -> None:
        """Append an entry; it is on disk when this returns.

        Raises:
            OSError: it cannot be written.
        """
        entry = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "plan": self.plan_id,
            "event": event,
            **what,
        }
        os.write(self._file, (json.dumps(entry) + "\n").encode())
        os.fsync(self._file)
        self.entries.append(entry)

    def has(self, event: str, **what: Any) -> bool:
        """Whether there is such an entry."""
        return self.last(event, **what) is not None

    def last(self, event: str, **what: Any) -> Mapping[str, Any] | None:
        """The last such entry."""
        for entry in reversed(self.entries):
            if entry.get("event") == event and all(entry.get(key) == value for key, value in what.items()):
                return entry
        return None

    def close(self) -> None:
        """Give the lock back."""
        os.close(self._file)


def _read(path: Path) -> list[Any]:
    entries = []
    for line in path.read_bytes().splitlines():
        try:
            entries.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return entries


def _sound(entry: Mapping[str, Any]) -> bool:
    """Whether an entry has what is read of it."""
    event = entry.get("event")
    if not isinstance(event, str):
        return False
    if event == "begun":
        steps = entry.get("steps")
        return isinstance(steps, list) and all(_is_step(step) for step in steps)
    needed = {"done": ("move",), "skipped": ("move",), "held": ("job",), "holding": ("job",)}.get(event, ())
    return all(type(entry.get(key)) is int for key in ("move", "job") if key in entry or key in needed)


def _is_step(step: Any) -> bool:
    return isinstance(step, list) and len(step) == 2 and step[0] in get_args(Kind) and type(step[1]) is int
