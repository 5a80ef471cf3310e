"""The first iteration after a pause that moved ranks: until it is done, the move can be taken back.

The destinations finish their iteration first, update included; everyone else stands at ``before_update``
with its parameters untouched until they have. So a destination that dies before costs nothing: the
sources, who still hold their states, join again, and all do the iteration once more.
"""

from __future__ import annotations

import time

from monkeytree.errors import MonkeyTreeError

from .keys import rests
from .pausing import Trip


class Undone(MonkeyTreeError):
    """The move was taken back in its first iteration: call ``worker.redo(error)`` and do it again."""

    code = "undone"


class Probation:
    """A rank in its first iteration after the pause."""

    def __init__(self, trip: Trip, *, arrived: bool, update_is_local: bool) -> None:
        """``arrived``: this process is a destination."""
        self.trip = trip
        self.arrived = arrived
        self._early = not update_is_local
        self._ends = time.monotonic() + trip.request.deadlines.first_iteration_s

    def before_update(self) -> bool:
        """The gate; True when it is over for this rank, False for a destination that has yet to finish.

        Raises:
            Undone: the move is taken back.
        """
        keys = self.trip.keys
        keys.store.set(keys.reduced(self.trip.me), "1")
        if self._early or self.arrived:
            outcome = self._until_all_reduced()
        else:
            outcome = keys.await_probation(self._ends)
        if outcome == "undo":
            raise Undone("the destination did not finish its first iteration: the move is taken back")
        return outcome == "kept"

    def finished(self) -> None:
        """A destination has finished its first iteration.

        Raises:
            Undone: it came too late, or another destination of the same pause failed.
        """
        keys = self.trip.keys
        keys.store.set(keys.first(self.trip.me), "1")
        outcome = keys.settle("kept") if keys.all_first() else keys.await_probation(self._ends)
        if outcome == "undo":
            raise Undone("the first iteration was taken back")

    def _until_all_reduced(self) -> str:
        """Wait for every rank's gradients: then the iteration can be finished without the others."""
        keys = self.trip.keys
        for rest in rests():
            outcome = keys.probation
            if outcome:
                return outcome
            if keys.all_reduced():
                return keys.settle("kept") if self._early else ""
            if time.monotonic() > self._ends:
                return keys.settle("undo")
            time.sleep(rest)
        raise AssertionError("rests never end")
