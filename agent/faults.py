"""Faults that tests ask a mover for, by name, in its configuration; a service has none.

``corrupt:N`` changes a byte of the N-th write on its way, ``stall:N`` sends nothing more from the N-th write
on but keeps the connection, ``hold:STATE:SECONDS`` stays in a state for a while so that a test can act in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable


class Faults:
    """What a mover is to do wrong."""

    def __init__(self, specs: Iterable[str] = ()) -> None:
        """Raises ValueError for a spec that is none."""
        self._corrupt: set[int] = set()
        self._stall: int | None = None
        self._holds: dict[str, float] = {}
        for spec in specs:
            name, *arguments = spec.split(":")
            if name == "corrupt":
                self._corrupt.add(int(arguments[0]))
            elif name == "stall":
                self._stall = int(arguments[0])
            elif name == "hold":
                self._holds[arguments[0]] = float(arguments[1])
            else:
                raise ValueError(f"no such fault: {spec!r}")

    def corrupts(self, write: int) -> bool:
        """Whether the bytes of this write are to arrive changed."""
        return write in self._corrupt

    def stall(self, write: int) -> None:
        """Never return, from the write on that was asked for."""
        while self._stall is not None and write >= self._stall:
            time.sleep(3_600)

    def hold(self, state: str) -> None:
        """Stay in ``state`` for as long as was asked for."""
        time.sleep(self._holds.get(state, 0.0))
