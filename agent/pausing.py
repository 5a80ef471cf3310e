"""A rank at the pause: the state goes, the job decides, the group forms anew (docs/agents.md).

The functions here are the trip of one rank through one pause; :mod:`.probation` follows it through the
first iteration after.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from monkeytree.errors import MonkeyTreeError
from monkeytree.wire.agents import PauseMove, PauseRequest, dump

from .hold import Hold
from .keys import PauseKeys, rests
from .membership import Member, Membership, WorkerState
from .store import StoreLost

StateFn = Callable[[], WorkerState]
RebindFn = Callable[[Membership], None]


class NotHome(MonkeyTreeError):
    """A rank whose state was parked is not in the job again."""

    code = "worker_lost"


@dataclass
class Trip:
    """What a rank knows of the pause it is in.

    Attributes:
        keys: the pause in the store.
        me: ``GROUP/RANK``.
        step: the boundary it stands at.
        orders: ring orders as they are before the pause.
        report: tells the agent.
        extras: of this rank at the pause, for an iteration that is redone.
    """

    keys: PauseKeys
    me: str
    step: int
    orders: Mapping[str, tuple[int, ...]]
    report: Callable[..., None]
    extras: bytes = b""
    paused_at: float = field(default_factory=time.monotonic)

    @property
    def request(self) -> PauseRequest:
        return self.keys.request

    @property
    def move(self) -> PauseMove | None:
        """The move of this rank, None for those that stay."""
        return self.keys.moved.get(self.me)

    @property
    def decides_by(self) -> float:
        """Monotonic time at which whoever waits writes abort."""
        return self.paused_at + self.request.deadlines.pause_s

    def membership(self, attempt: int) -> Membership:
        """Attempt 0 has the moved ranks at their destinations, 1 at their sources again."""
        moved = self.keys.moved if attempt == 0 else {}
        members = []
        for seat in self.request.members:
            move = moved.get(f"{seat.group}/{seat.rank}")
            members.append(Member(seat.group, seat.rank, move.target if move else seat.node))
        members.sort(key=lambda member: (member.group, member.rank))
        orders = {**self.orders, **(self.request.orders if attempt == 0 else {})}
        limit = self.request.deadlines.first_iteration_s
        return Membership(self.request.epoch, attempt, self.step, tuple(members), orders, limit)

    def seconds(self) -> float:
        """Since the pause began."""
        return time.monotonic() - self.paused_at


def stay(trip: Trip) -> str:
    """A rank that does not move stands at the pause; the decision."""
    trip.keys.store.set(trip.keys.paused(trip.me), "1")
    if trip.me == trip.keys.members[0]:
        return decide(trip, trip.decides_by)
    return trip.keys.await_decision(trip.decides_by)


def decide(trip: Trip, ends: float, meanwhile: Callable[[float], str | None] | None = None) -> str:
    """Wait until all are ready and commit, or abort: past ``ends``, or as soon as ``meanwhile`` says why.

    Several ranks do this at once (the first member, sources, standbys), so that any one may die.
    ``meanwhile`` is called with seconds to spend.
    """
    keys = trip.keys
    for rest in rests():
        decision = keys.decision
        if decision:
            return decision
        if keys.ready():
            return keys.decide("commit")
        if time.monotonic() > ends:
            return keys.decide("abort")
        if meanwhile is None:
            time.sleep(rest)
        elif meanwhile(rest):
            return keys.decide("abort")
    raise AssertionError("rests never end")


def hand_over(
    trip: Trip, state_fn: StateFn, mover: str, identity: Mapping[str, Any]
) -> tuple[str, Hold | None]:
    """A rank that moves offers its state; the decision (``parked`` where it is to leave), and its hold."""
    began = time.monotonic()
    try:
        hold = Hold(mover)
    except OSError:
        trip.report(error={"code": "mover_lost", "message": f"no mover listens at {mover}"})
        return trip.keys.decide("abort"), None
    state = state_fn()
    trip.extras = state.extras
    orders = {group: list(order) for group, order in trip.orders.items()}
    hold.offer(state, step=trip.step, pause=dump(trip.request), orders=orders, identity=identity)
    trip.report(figures={"offer_s": time.monotonic() - began})
    trip.keys.store.set(trip.keys.paused(trip.me), "1")
    move = trip.move
    if move is not None and move.staged:
        return _park(trip, hold, move.id), hold

    def listen(rest: float) -> str | None:
        hold.listen(rest)
        return hold.failure

    decision = decide(trip, trip.decides_by, listen)
    if hold.failure and decision == "abort":
        trip.report(error={"code": hold.failure, "message": "the state could not be handed over"})
    return decision, hold


def _park(trip: Trip, hold: Hold, move_id: str) -> str:
    """Leave the state with the mover, which keeps the arena alive without us."""
    keys = trip.keys
    while not hold.parked:
        hold.listen(0.05)
        late = hold.failure or time.monotonic() > trip.decides_by
        decision = keys.decide("abort") if late else keys.decision
        if decision == "commit":
            return decision  # it has landed already: we hold on as any source does
        if decision:  # unless somebody has the state by now, and takes our place with it
            return decision if keys.stay(move_id) else "parked"
    return "parked" if keys.park(move_id) else keys.decision


def hold_on(trip: Trip, hold: Hold) -> str:
    """After the commit the source keeps its state until the destination has proved itself: kept or undo."""
    keys = trip.keys
    ends = time.monotonic() + trip.request.deadlines.first_iteration_s
    while not (outcome := keys.probation):
        hold.listen(0.02)
        if hold.failure or time.monotonic() > ends:
            hold.failure = hold.failure or "first_iteration_timeout"
            return keys.settle("undo")
        if hold.verified:
            time.sleep(0.01)  # a mover that has gone gives no pause between two looks
    return outcome


def rebind(trip: Trip, rebind_fn: RebindFn) -> bool:
    """Form the new group, on probation; False where the move is taken back (all come to know it)."""
    began = time.monotonic()
    try:
        rebind_fn(trip.membership(0))
    except StoreLost:
        raise
    except Exception as error:
        if not trip.request.moves:
            raise  # a reorder among living ranks: not our failure to mend
        trip.keys.settle("undo")
        trip.report(error={"code": "undone", "message": f"the group did not form: {error}"})
        return False
    trip.report(figures={"rebind_s": time.monotonic() - began})
    return trip.keys.probation != "undo"


def take_back(trip: Trip, rebind_fn: RebindFn, **error: Any) -> Trip | None:
    """Form the old group anew, after an undo or where a parked worker returns.

    Returns:
        Where parked workers have come home: the trip that goes on, for their first iteration can be taken
        back too. None where all is over.

    Raises:
        Exception: what ``rebind_fn`` raises: then the job fails as any job that cannot form its group.
        NotHome: a parked worker did not come.
    """
    told = {"error": error} if error else {}
    if trip.keys.left():
        trip = come_together(trip, rebind_fn)
        trip.report(state="REFORMED", pause_s=trip.seconds(), **told)
        return trip
    rebind_fn(trip.membership(1))
    trip.report(state="ABORTED", pause_s=trip.seconds(), **told)
    return None


def come_together(trip: Trip, rebind_fn: RebindFn, *, token: str = "") -> Trip:
    """Form the old group with those who come home; again where one of them ends, and its successor comes.

    Args:
        token: of this process, where it is one of them. It tries again for the others' sake only: its own
            place is better taken by a fresh process, and is lost where one has taken it.
    """
    request, failure = trip.request, None
    while True:
        ends = max(trip.decides_by, time.monotonic()) + request.deadlines.first_iteration_s
        before = trip.keys.attempt
        attempt = trip.keys.await_homecoming(before, ends)
        if not attempt:
            away = ", ".join(f"{move.group}/{move.rank} (of {move.source})" for move in trip.keys.left())
            raise failure or NotHome(
                f"the parked ranks {away} did not all come back to the job in epoch {request.epoch}: ask the "
                f"agents of their nodes for the ends of the moves"
            )
        if token and trip.move is not None and trip.keys.holder(trip.move.id) != token:
            raise failure or NotHome(f"another process is rank {trip.me} now")
        # One that takes it later makes a later attempt, and takes this one back.
        trip = replace(trip, keys=trip.keys.again(attempt))
        try:
            rebind_fn(trip.membership(attempt))
            failure = None
        except StoreLost:
            raise
        except Exception as error:  # noqa: BLE001  # as in rebind(): it may fail in any way
            failure = error
            trip.keys.settle("undo")
        if failure is None and trip.keys.probation != "undo":
            return trip
        if token and trip.keys.homecoming()[0] == attempt:
            raise failure or NotHome(f"attempt {attempt} at forming the group was taken back")


def close(hold: Hold | None, outcome: str) -> None:
    """Tell the mover how it ended, and let go of it."""
    if hold is not None:
        with contextlib.suppress(OSError):
            hold.tell(outcome)
        hold.close()
