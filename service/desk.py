"""What the handlers call: takes snapshots and what-ifs in, waits, cancels.

Made once an application and passed, never global; :func:`the_desk` finds it from inside a request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from time import time
from typing import Generic

from flask import current_app

from monkeytree.adapters.documents import parse_utc
from monkeytree.adapters.errors import UnknownPlan
from monkeytree.adapters.leased import Leased, Row
from monkeytree.adapters.notify import Announcer, Notifier
from monkeytree.adapters.queue import ExecuteQueue, SolveQueue, TaskQueue, ValidateQueue
from monkeytree.adapters.rows import Receipt, SnapshotRow
from monkeytree.adapters.settings import Settings
from monkeytree.adapters.store import Store
from monkeytree.errors import InvalidSnapshot, Offence
from monkeytree.placement import over_bound
from monkeytree.snapshot import Planning, Snapshot
from monkeytree.solvers.choose import named
from monkeytree.wire.snapshot import parse_snapshot, snapshot_id

EXTENSION = "monkeytree"
#: What-ifs wait behind the plans a scheduler waits for (0 is served first).
WHAT_IF_PRIORITY = 5
#: A worker that missed this many beats is taken for gone.
MISSED_BEATS = 3

Allow = Callable[[str], None]
"""Refuses a cluster by raising."""


@dataclass(frozen=True, slots=True)
class Filed:
    """A request for a plan that was taken in, and the excess of each rack that is over."""

    receipt: Receipt
    over: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Waited(Generic[Row]):
    """A row after waiting; ``seated`` is False when too many others wait already."""

    row: Row
    seated: bool


class Desk:
    """The service without HTTP."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.store = store
        self.queue = SolveQueue(settings)
        self.validate_queue = ValidateQueue(settings)
        self.execute_queue = ExecuteQueue(settings)
        self._announcer = Announcer(settings.redis_url)
        self._notifier = Notifier(settings.redis_url, settings.max_waiters)

    def submit(self, body: bytes, allow: Allow, request_id: str) -> Filed:
        """Take a snapshot document in and queue a plan of it, unless one answers already.

        Raises:
            InvalidSnapshot: the document is wrong; UnsupportedMember where it is only too new.
            StaleSnapshot: a newer one came before.
            UnknownSolver: `planning.solver` names none of this release.
        """
        snapshot = parse_snapshot(body)
        allow(snapshot.cluster)
        self._check_planning(snapshot.cluster, snapshot.planning)
        arrival = SnapshotRow(
            id=snapshot_id(snapshot),
            cluster=snapshot.cluster,
            taken_at=parse_utc(snapshot.taken_at),
            sequence=snapshot.sequence,
            received_at=time(),
        )
        receipt = self.store.submit(arrival, body, snapshot.planning, request_id)
        for old in receipt.superseded:
            self.ended(old)
        return self._filed(receipt, snapshot, priority=0)

    def ask(self, stored_id: str, planning: Planning | None, allow: Allow, request_id: str) -> Filed:
        """Queue a what-if plan of a stored snapshot; no ``planning`` means the snapshot's own.

        Raises:
            UnknownSnapshot: no such snapshot.
            InvalidSnapshot: the planning options are wrong; UnknownSolver: they name none of ours.
        """
        allow(self.store.snapshot(stored_id).cluster)
        snapshot = parse_snapshot(self.store.snapshot_body(stored_id))
        if planning is not None:
            snapshot = replace(snapshot, planning=planning)
        self._check_planning(snapshot.cluster, snapshot.planning)
        receipt = self.store.ask(stored_id, snapshot.planning, request_id)
        return self._filed(receipt, snapshot, priority=WHAT_IF_PRIORITY)

    def wait(self, its_id: str, wait_s: float, rows: Leased[Row]) -> Waited[Row]:
        """A row as soon as it is at its end, or as it is after ``wait_s``.

        Raises:
            UnknownPlan, UnknownValidation: no such row.
        """
        row = rows.find(its_id)
        if not row.live or wait_s <= 0:
            return Waited(row, seated=True)
        with self._notifier.seat() as seated:
            if not seated:
                return Waited(row, seated=False)
            wait_s = min(wait_s, self.settings.max_wait_s)
            self._notifier.wait(its_id, wait_s, lambda: not rows.find(its_id).live)
        return Waited(rows.find(its_id), seated=True)

    def watch(self, its_id: str, wait_s: float, changed: Callable[[], bool]) -> bool:
        """Wait until ``changed()`` holds, or for ``wait_s``; whoever asks must have a seat."""
        return self._notifier.wait(its_id, wait_s, changed)

    def seat(self) -> AbstractContextManager[bool]:
        """A place among those who wait; False when all are taken."""
        return self._notifier.seat()

    def cancel(self, its_id: str, rows: Leased[Row], queue: TaskQueue | None = None) -> Row:
        """End queued work, or work that is being done; where ``queue`` is given, its processes too.

        Raises:
            UnknownPlan, UnknownValidation, UnknownExecution: no such row.
            NotCancellable: it is at its end.
        """
        row = rows.cancel(its_id)
        if queue is not None:
            queue.revoke(its_id)
        self.ended(its_id)
        return row

    def ended(self, its_id: str) -> None:
        """Wake who waits for a plan or validation, here and in other processes."""
        self._notifier.wake(its_id)
        self._announcer.announce(its_id)

    def _filed(self, receipt: Receipt, snapshot: Snapshot, *, priority: int) -> Filed:
        if receipt.created:
            self.queue.publish(receipt.plan, priority=priority)
        return Filed(receipt, over_bound(snapshot))

    def _check_planning(self, cluster: str, planning: Planning) -> None:
        """The solver must exist; a previous plan be one of this cluster, maybe still on its way."""
        named(planning.solver)
        wanted = planning.previous_plan_id
        if wanted is None:
            return
        with suppress(UnknownPlan):
            if self.store.plan(wanted).cluster == cluster:
                return
        message = f"is no plan of cluster {cluster!r}; give one that GET /v1/plans lists, or null"
        raise InvalidSnapshot([Offence("/planning/previous_plan_id", message, wanted)])


def the_desk() -> Desk:
    """The desk of the application that serves this request."""
    desk: Desk = current_app.extensions[EXTENSION]
    return desk
