"""A successor that was started at home: which processes are its own, and whether any of them is left."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_DEAD = "ZX"
_SESSION, _BORN = 3, 19  # of the fields behind the command's name, proc_pid_stat(5)


@dataclass(frozen=True)
class Attempt:
    """A process that leads a session of its own, with all that it has started there.

    Attributes:
        pid: of its first process.
        born: when that one started (clock ticks since boot): pids come again.
        given: whether it was given the state: then it may be the worker by now.
    """

    pid: int
    born: str
    given: bool = False

    @classmethod
    def of(cls, pid: int) -> Attempt:
        """The one that this process leads, just started."""
        fields = _stat(pid)
        return cls(pid, "0" if fields is None else fields[_BORN])

    @classmethod
    def read(cls, token: str) -> Attempt | None:
        """The one whose token that is; None where it is no token. It was given the state."""
        pid, _, born = token.partition("-")
        return cls(int(pid), born, given=True) if pid.isdecimal() and born.isdecimal() else None

    @property
    def token(self) -> str:
        """What it writes into the job's store when it takes the worker's place: unlike any other's."""
        return f"{self.pid}-{self.born}"

    @property
    def leads(self) -> bool:
        """Whether its first process is there, and no zombie."""
        fields = _stat(self.pid)
        return fields is not None and fields[_BORN] == self.born and fields[0] not in _DEAD

    @property
    def alive(self) -> bool:
        """Whether any process of its session is there."""
        return any(True for _ in self._members())

    def owns(self, pid: int) -> bool:
        """Whether that process is of its session."""
        fields = _stat(pid)
        return fields is not None and fields[_SESSION] == str(self.pid) and not self._reused()

    def kill(self) -> None:
        """End all of them."""
        for pid in self._members():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _reused(self) -> bool:
        """Whether its number is somebody else's now: the kernel gives it away when the session is empty."""
        fields = _stat(self.pid)
        return fields is not None and fields[_BORN] != self.born

    def _members(self) -> Iterator[int]:
        if self._reused():
            return
        for pid in (int(entry) for entry in os.listdir(_PROC) if entry.isdigit()):
            fields = _stat(pid)
            if fields is not None and fields[_SESSION] == str(self.pid) and fields[0] not in _DEAD:
                yield pid


def _stat(pid: int) -> list[str] | None:
    """State, parent, group, session...; None where there is no such process, or it is another user's.

    Raises:
        OSError: out of descriptors, say: nobody can tell, and that must not be taken for its end.
    """
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > _BORN else None
