"""How the ranks of a job agree on the boundary at which all of them pause.

One key, the *frontier*, holds the highest boundary that an armed rank has passed; it moves by
``compare_set`` only. A rank that is armed moves it up to its own step *before* it acknowledges, and before
it passes each later boundary. Once every rank has acknowledged, no rank can pass a boundary that the
frontier has not seen. So the first member of the job may append ``;pause=FRONTIER+1`` by another
``compare_set`` on the same key: every rank reads it at its next boundary, none is past it.

``;abort`` on the same key calls the pause off; the two exclude each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from .store import JobStore


class Verdict(Enum):
    """What an armed rank does at a boundary."""

    GO = "go"
    PAUSE = "pause"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Frontier:
    """The value of the key: ``STEP``, ``STEP;pause=STEP`` or ``STEP;abort``."""

    step: int
    pause: int | None = None
    abort: bool = False

    @classmethod
    def read(cls, value: str) -> Frontier:
        """``""`` is a frontier that nobody has moved (-1)."""
        step, _, mark = value.partition(";")
        pause = int(mark.removeprefix("pause=")) if mark.startswith("pause=") else None
        return cls(int(step) if step else -1, pause, mark == "abort")

    def __str__(self) -> str:
        mark = ";abort" if self.abort else "" if self.pause is None else f";pause={self.pause}"
        return f"{self.step}{mark}"


class Agreement:
    """One rank's part in it, for one epoch."""

    def __init__(
        self,
        store: JobStore,
        prefix: str,
        me: str,
        members: tuple[str, ...],
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``members`` are the ids of all ranks, in the same order everywhere; the first one proposes."""
        self._store = store
        self._key = f"{prefix}frontier"
        self._ack = f"{prefix}ack/{me}"
        self._acks = [f"{prefix}ack/{member}" for member in members] if me == members[0] else []
        self._clock = clock
        self._ends = clock() + timeout_s
        self._acknowledged = False
        self.call_off = False
        """Set from outside: write abort at the next boundary, if it is not too late."""

    def at(self, step: int) -> Verdict:
        """Called at each boundary from the first armed one on; ``step`` is the number of this boundary."""
        while True:
            value = self._store.get(self._key)
            seen = Frontier.read(value)
            if seen.abort:
                return Verdict.ABORT
            if seen.pause is not None:
                # A rank that armed late cannot be past the pause: it had not acknowledged before.
                return Verdict.PAUSE if step >= seen.pause else Verdict.GO
            if self.call_off or self._clock() > self._ends:
                wanted = Frontier(max(step, seen.step), abort=True)
            elif step > seen.step:
                wanted = Frontier(step)
            elif self._all_acknowledged():
                wanted = Frontier(seen.step, pause=seen.step + 1)
            else:
                return Verdict.GO
            self._store.compare_set(self._key, value, str(wanted))

    def _all_acknowledged(self) -> bool:
        """Acknowledge (the frontier is at our step by now); whether we propose, and all others have too."""
        if not self._acknowledged:
            self._store.set(self._ack, "1")
            self._acknowledged = True
        return bool(self._acks) and self._store.check(self._acks)
