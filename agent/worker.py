"""A training process as its agent knows it: the object behind :mod:`.client`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from monkeytree.wire.agents import restore_pause

from . import pausing
from .agreement import Agreement, Verdict
from .hold import Hold
from .keys import PauseKeys
from .link import AgentLink
from .membership import Membership, WorkerState
from .page import Page
from .pausing import Trip
from .probation import Probation, Undone
from .store import JobStore

log = logging.getLogger(__name__)


class NotNeeded(SystemExit):
    """This process takes no rank over (any more); uncaught, it leaves with exit code 0."""


@dataclass(frozen=True)
class Identity:
    """Who a worker is; see :func:`.client.register_worker`."""

    job: str
    group: str
    rank: int
    world_size: int
    slots: int = 1
    standby_command: tuple[str, ...] = ()
    standby_env: Mapping[str, str] = field(default_factory=dict)
    update_is_local: bool = True

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Identity:
        """From ``asdict`` after a trip through JSON."""
        return cls(**{**document, "standby_command": tuple(document["standby_command"])})

    @property
    def member(self) -> str:
        """``GROUP/RANK``."""
        return f"{self.group}/{self.rank}"


class Worker:
    """Takes part in the pauses of its job. Use it from one thread: that of the training loop."""

    def __init__(
        self,
        identity: Identity,
        state_fn: Callable[[], WorkerState],
        rebind_fn: Callable[[Membership], None],
        restore_fn: Callable[[bytes], None],
        extras_fn: Callable[[], bytes],
        store: JobStore,
        agent: str,
        *,
        arrival: Trip | None = None,
        home: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """Made by :mod:`.client` and :mod:`.standby`.

        ``arrival`` is the pause that brought a standby in, ``home`` says that it came back to where it was;
        ``tell`` lets its mover know what becomes of it.
        """
        self.identity = identity
        self.step = arrival.step if arrival else 0
        """Where to start: iterations that are finished already."""
        self.orders: dict[str, tuple[int, ...]] = (
            dict(arrival.membership(1 if home else 0).orders) if arrival else {}
        )
        """Ring orders that pauses have set, by group."""
        self._state_fn, self._rebind_fn, self._restore_fn = state_fn, rebind_fn, restore_fn
        self._extras_fn = extras_fn
        self._store = store
        self._tell = tell or (lambda _: None)
        self._page = Page.create()
        self._link = AgentLink(agent, asdict(identity), state_fn().arena, self._page)
        self._agreement: tuple[int, Agreement, PauseKeys] | None = None
        self._probation: Probation | None = None
        if arrival is not None:
            self._arrive(arrival, home)

    @property
    def in_probation(self) -> bool:
        """Whether this iteration may still be taken back."""
        return self._probation is not None

    @property
    def undone(self) -> bool:
        """Whether it has been: for loops that wait in collectives and can look meanwhile."""
        return self._probation is not None and self._probation.trip.keys.probation == "undo"

    def boundary(self, step: int) -> bool:
        """Call once per iteration, before it, with the number of iterations finished.

        Returns:
            True to go on with this iteration; False where the rank lives elsewhere now: leave the loop.

        Raises:
            StoreLost: the job's store is gone.
            NotNeeded: this standby's first iteration was taken back.
        """
        self._page.step = step
        if self._probation is not None:
            if step <= self._probation.trip.step:
                return True  # a destination's first boundary, or a redone one: the iteration is yet to come
            self._end_probation(self._probation)
        epoch = self._page.armed
        return True if epoch == 0 else self._armed(epoch, step)

    def before_update(self) -> None:
        """Call between the reduction of the gradients and the optimizer's step.

        Raises:
            Undone: hand it to :meth:`redo`, and do the iteration again.
        """
        if self._probation is not None and self._probation.before_update():
            self._kept(self._probation.trip)

    def redo(self, error: BaseException) -> None:
        """After any failure of an iteration: returns where it was on probation, with everything as at its
        start and the old group formed anew; otherwise raises ``error``.

        Raises:
            NotNeeded: this process was the destination.
        """
        probation = self._probation
        if probation is None:
            raise error
        if probation.trip.keys.settle("undo") != "undo":
            self._kept(probation.trip)
            raise error
        self._undo(probation.trip, probation.arrived, str(error))

    def _arrive(self, trip: Trip, home: bool) -> None:
        trip.report = self._reporter(trip.request.epoch)
        if home:
            error = _error("returned", "it was started at home again from its parked state")
            trip.report(state="REFORMED", decision="abort", error=error, pause_s=trip.seconds())
        else:
            trip.report(state="REFORMED", decision="commit", step=trip.step, pause_s=trip.seconds())
        self._probation = Probation(trip, arrived=True, update_is_local=self.identity.update_is_local)

    def close(self) -> None:
        """Call it when the loop has ended: settles a first iteration that was also the last, says goodbye.

        Raises:
            NotNeeded: this standby's first iteration was taken back.
        """
        if self._probation is not None:
            self._end_probation(self._probation)
        self._link.leave()

    def _armed(self, epoch: int, step: int) -> bool:
        if self._agreement is None or self._agreement[0] != epoch:
            said = self._link.pause(epoch)
            if said is None:
                return True
            request = restore_pause(said["request"])
            keys = PauseKeys(self._store, request)
            limit = request.deadlines.arm_s
            mine = Agreement(self._store, keys.prefix, self.identity.member, keys.members, limit)
            self._agreement = (epoch, mine, keys)
        _, agreement, keys = self._agreement
        agreement.call_off = self._link.called_off(epoch)
        verdict = agreement.at(step)
        if verdict is Verdict.GO:
            return True
        said = self._link.pause(epoch) or {}
        trip = Trip(keys, self.identity.member, step, dict(self.orders), self._reporter(epoch))
        self._agreement = None
        if verdict is Verdict.ABORT:
            code = "aborted" if agreement.call_off else "arm_timeout"
            self._link.done(epoch)
            trip.report(state="ABORTED", decision="abort", error=_error(code, "the pause was called off"))
            return True
        return self._pause(trip, str((said.get("movers") or {}).get(trip.move.id if trip.move else "", "")))

    def _pause(self, trip: Trip, mover: str) -> bool:
        trip.report(state="PAUSED", step=trip.step)
        hold: Hold | None = None
        if trip.move is None:
            trip.extras = self._extras_fn()
            decision = pausing.stay(trip)
        else:
            about = asdict(self.identity)
            decision, hold = pausing.hand_over(trip, self._state_fn, mover, about)
        self._link.done(trip.request.epoch)
        trip.report(figures={"decided_after_s": trip.seconds()})
        if decision == "parked":
            trip.report(state="PAUSED", moved=True)
            pausing.close(hold, "left")
            return False
        trip.report(state="DECIDED", decision=decision)
        if decision == "commit":
            return self._commit(trip, hold)
        pausing.close(hold, "aborted")
        if trip.keys.left():
            self._take_back(trip, "returned", "a parked worker returned")
        else:
            code = hold.failure if hold and hold.failure else "job_aborted"
            error = _error(code, "the job decided to go on as it was")
            trip.report(state="ABORTED", error=error, pause_s=trip.seconds())
        return True

    def _commit(self, trip: Trip, hold: Hold | None) -> bool:
        if hold is not None:
            hold.tell("committed")
            if pausing.hold_on(trip, hold) == "kept":
                trip.report(state="RELEASED", moved=True)
                pausing.close(hold, "released")
                return False
            if trip.move is not None and trip.move.staged and not trip.keys.stay(trip.move.id):
                trip.report(state="PAUSED", moved=True)  # whoever took our state up is us now
                pausing.close(hold, "left")
                return False
            pausing.close(hold, "undone")
            self._undo(trip, False, hold.failure or "undone", iterated=False)
            return True
        if not pausing.rebind(trip, self._rebind_fn):
            self._undo(trip, False, "the group did not form", iterated=False)
            return True
        self.orders = dict(trip.membership(0).orders)
        trip.report(state="REFORMED", pause_s=trip.seconds())
        if trip.request.moves:
            local = self.identity.update_is_local
            self._probation = Probation(trip, arrived=False, update_is_local=local)
        else:
            trip.report(state="RELEASED")
        return True

    def _end_probation(self, probation: Probation) -> None:
        """The first iteration is over; a destination settles it now."""
        if not probation.arrived:  # a loop without before_update: too late to take anything back
            log.warning("boundary() came without before_update() in the first iteration after a move")
            self.before_update()
            return
        try:
            probation.finished()
        except Undone as error:
            self._undo(probation.trip, True, str(error))
        self._kept(probation.trip)

    def _kept(self, trip: Trip) -> None:
        self._probation = None
        state = "ABORTED" if trip.keys.attempt else "RELEASED"  # who came home is where the move began
        trip.report(state=state, figures={"first_iteration_s": trip.seconds()})
        self._tell("released")

    def _undo(self, trip: Trip, arrived: bool, why: str, *, iterated: bool = True) -> None:
        self._probation = None
        self.orders = dict(trip.orders)
        if arrived:
            if trip.keys.attempt == 0:
                trip.report(state="ABORTED", decision="undo", error=_error("undone", why))
            self._tell("undone")  # one that came home says no more: another one may yet come
            self._link.leave()
            raise NotNeeded(0)
        if iterated:
            self._restore_fn(trip.extras)
        if trip.keys.attempt == 0:
            trip.report(decision="undo")
        self._take_back(trip, "returned" if trip.keys.attempt else "undone", why)

    def _take_back(self, trip: Trip, code: str, message: str) -> None:
        back = pausing.take_back(trip, self._rebind_fn, code=code, message=message)
        if back is not None:
            self._probation = Probation(back, arrived=False, update_is_local=self.identity.update_is_local)

    def _reporter(self, epoch: int) -> Callable[..., None]:
        def report(**told: Any) -> None:
            self._link.report(epoch, at=time.time(), **told)

        return report


def _error(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}
