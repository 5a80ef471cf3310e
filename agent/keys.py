"""The keys of one pause in the job's store, and the two decisions taken there.

``decision`` is written once: ``commit`` when every rank has paused and every state has arrived and been
verified, ``abort`` by whoever has waited too long. ``probation`` is written once after a commit: ``kept``
when every destination has finished its first iteration, ``undo`` otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from monkeytree.wire.agents import PauseRequest

from .store import JobStore

_QUICK_S = 0.002
_SLOW_S = 0.02


class PauseKeys:
    """One pause, as any rank sees it in the store."""

    def __init__(self, store: JobStore, request: PauseRequest) -> None:
        self.store = store
        self.request = request
        self.prefix = f"monkeytree/{request.epoch}/"
        self.members = tuple(f"{seat.group}/{seat.rank}" for seat in request.members)
        self.moved = {f"{move.group}/{move.rank}": move for move in request.moves}

    def paused(self, member: str) -> str:
        """The rank stands at the pause."""
        return f"{self.prefix}paused/{member}"

    def verified(self, move_id: str) -> str:
        """The destination holds the state, checked and taken over."""
        return f"{self.prefix}verified/{move_id}"

    def parked(self, move_id: str) -> str:
        """The source's process has gone; its agent holds the state."""
        return f"{self.prefix}parked/{move_id}"

    def reduced(self, member: str) -> str:
        """The rank has the gradients of the first iteration after the pause."""
        return f"{self.prefix}reduced/{member}"

    def first(self, member: str) -> str:
        """The destination has finished its first iteration."""
        return f"{self.prefix}first/{member}"

    @property
    def decision(self) -> str:
        """Value of the first decision: ``""``, ``commit`` or ``abort``."""
        return self.store.get(f"{self.prefix}decision")

    def decide(self, wanted: str) -> str:
        """Write it unless it is written; what holds."""
        return self.store.compare_set(f"{self.prefix}decision", "", wanted)

    @property
    def probation(self) -> str:
        """Value of the second: ``""``, ``kept`` or ``undo``."""
        return self.store.get(f"{self.prefix}probation")

    def settle(self, wanted: str) -> str:
        """Write it unless it is written; what holds."""
        return self.store.compare_set(f"{self.prefix}probation", "", wanted)

    def await_decision(self, ends: float) -> str:
        """Wait for the decision as a rank with nothing to do; past ``ends`` (monotonic) write abort."""
        self.store.wait([f"{self.prefix}decision"], max(0.0, ends - time.monotonic()))
        return self.decide("abort")

    def await_probation(self, ends: float) -> str:
        """As above: past ``ends`` write undo."""
        self.store.wait([f"{self.prefix}probation"], max(0.0, ends - time.monotonic()))
        return self.settle("undo")

    def ready(self) -> bool:
        """Whether all may commit: every rank has paused, every state been taken over."""
        return self.store.check(
            [self.paused(member) for member in self.members]
            + [self.verified(move.id) for move in self.request.moves]
        )

    def all_reduced(self) -> bool:
        """Whether every rank has the gradients of the first iteration."""
        return self.store.check([self.reduced(member) for member in self.members])

    def all_first(self) -> bool:
        """Whether every destination has finished it."""
        return self.store.check([self.first(member) for member in self.moved])

    def park(self, move_id: str) -> bool:
        """The source is about to leave its state to its mover; False where the job has aborted before."""
        return self.store.compare_set(self.parked(move_id), "", "yes") == "yes"

    def stay(self, move_id: str) -> bool:
        """The source is about to stay; False where its state was taken up without it: then it must leave."""
        return self.store.compare_set(self.parked(move_id), "", "no") == "no"

    def claim(self, what: str, move_id: str, token: str) -> bool:
        """Whether this process is the one that ``land``s the state, or brings it ``home``: the first is."""
        return self.store.compare_set(f"{self.prefix}{what}/{move_id}", "", token) == token

    def any_parked(self) -> bool:
        """After an abort: whether a source has left, so that the old communicator is of no use any more.

        Who comes first settles it: a source that has not left by now stays.
        """
        staged = [move.id for move in self.request.moves if move.staged]
        return "yes" in [self.store.compare_set(self.parked(move_id), "", "no") for move_id in staged]


def rests() -> Iterable[float]:
    """Seconds to sleep between looks at the store: short at first, so that a quick move stays quick."""
    rest = _QUICK_S
    while True:
        yield rest
        rest = min(rest * 1.2, _SLOW_S)
