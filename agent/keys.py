"""The keys of one pause in the job's store, and the two decisions taken there.

``decision`` is written once: ``commit`` when every rank has paused and every state has arrived and been
verified, ``abort`` by whoever has waited too long. ``probation`` is written once after a commit: ``kept``
when every destination has finished its first iteration, ``undo`` otherwise. Where workers come home from
parked states there is one too, for each attempt at forming the group with them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from monkeytree.wire.agents import PauseMove, PauseRequest

from .membership import keys_of
from .store import JobStore

_QUICK_S = 0.002
_SLOW_S = 0.02


class PauseKeys:
    """One pause, as any rank sees it in the store."""

    def __init__(self, store: JobStore, request: PauseRequest, attempt: int = 0) -> None:
        """``attempt`` as of :class:`.membership.Membership`: whose first iteration the keys are about."""
        self.store = store
        self.request = request
        self.attempt = attempt
        self.prefix = keys_of(request.epoch, 0)
        self._first = keys_of(request.epoch, attempt)
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
        return f"{self._first}reduced/{member}"

    def first(self, member: str) -> str:
        """The destination, or who came home, has finished its first iteration."""
        return f"{self._first}first/{member}"

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
        return self.store.get(f"{self._first}probation")

    def settle(self, wanted: str) -> str:
        """Write it unless it is written; what holds."""
        return self.store.compare_set(f"{self._first}probation", "", wanted)

    def await_decision(self, ends: float) -> str:
        """Wait for the decision as a rank with nothing to do; past ``ends`` (monotonic) write abort."""
        self.store.wait([f"{self.prefix}decision"], max(0.0, ends - time.monotonic()))
        return self.decide("abort")

    def await_probation(self, ends: float) -> str:
        """As above: past ``ends`` write undo."""
        self.store.wait([f"{self._first}probation"], max(0.0, ends - time.monotonic()))
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
        """Whether every destination (everyone who came home) has finished it."""
        members = [f"{move.group}/{move.rank}" for move in self.left()] if self.attempt else self.moved
        return self.store.check([self.first(member) for member in members])

    def park(self, move_id: str) -> bool:
        """The source is about to leave its state to its mover; False where the job has aborted before."""
        return self.store.compare_set(self.parked(move_id), "", "yes") == "yes"

    def stay(self, move_id: str) -> bool:
        """The source is about to stay; False where its state was taken up without it: then it must leave."""
        return self.store.compare_set(self.parked(move_id), "", "no") == "no"

    def claim(self, move_id: str, token: str) -> bool:
        """Whether this process is the one that lands the state at its destination: the first is."""
        return self.store.compare_set(f"{self.prefix}land/{move_id}", "", token) == token

    def claim_home(self, move_id: str, token: str, over: Collection[str]) -> str:
        """Be the worker at home: as the first, or after one that is dead. The token of who is.

        Args:
            token: of this process.
            over: tokens of those that are dead, and of which nothing can come any more.
        """
        key = f"{self.prefix}home/{move_id}"
        found = self.store.compare_set(key, "", f"1 {token}")
        count, _, holder = found.partition(" ")
        if holder in over:
            found = self.store.compare_set(key, found, f"{int(count) + 1} {token}")
        return found.partition(" ")[2]

    def holder(self, move_id: str) -> str:
        """The token of who is the worker at home; "" where none is yet."""
        return self.store.get(f"{self.prefix}home/{move_id}").partition(" ")[2]

    def left(self) -> list[PauseMove]:
        """After an abort or undo: the moves whose source has left its state, and which come home therefore.

        Who comes first settles it: a source that has not left by now stays.
        """
        staged = [move for move in self.request.moves if move.staged]
        return [move for move in staged if self.store.compare_set(self.parked(move.id), "", "no") == "yes"]

    def homecoming(self) -> tuple[int, bool]:
        """Which attempt at forming the group with those who come home is on, and whether all are there.

        It is 1 at first, and one more for each that was taken over from.
        """
        held = [self.store.get(f"{self.prefix}home/{move.id}") for move in self.left()]
        counts = [int(value.partition(" ")[0] or 0) for value in held]
        return 1 + sum(max(count - 1, 0) for count in counts), 0 not in counts

    def again(self, attempt: int) -> PauseKeys:
        """The keys of another attempt."""
        return PauseKeys(self.store, self.request, attempt)

    def take_back_before(self, attempt: int) -> bool:
        """The attempts before that one are off; False where one was not: somebody trains with it."""
        return all(self.again(earlier).settle("undo") == "undo" for earlier in range(1, attempt))

    def await_homecoming(self, after: int, ends: float) -> int:
        """Wait for an attempt later than ``after`` that everyone has come to; 0 where ``ends`` (monotonic)
        passes before."""
        for rest in rests():
            attempt, all_there = self.homecoming()
            if all_there and attempt > after:
                return attempt
            if time.monotonic() > ends:
                return 0
            time.sleep(rest)
        raise AssertionError("rests never end")


def rests() -> Iterable[float]:
    """Seconds to sleep between looks at the store: short at first, so that a quick move stays quick."""
    rest = _QUICK_S
    while True:
        yield rest
        rest = min(rest * 1.2, _SLOW_S)
