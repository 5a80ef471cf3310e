"""The reaper: ``python -m monkeytree.workers.reaper``. One a store is enough, several do no harm.

Each second it frees plans, validations and executions whose worker fell silent, sends lost messages
again, and now and then prunes idempotency keys and beats of workers long gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from monkeytree.adapters.holder import is_dead
from monkeytree.adapters.leased import Leased
from monkeytree.adapters.logs import configure_logs, logger
from monkeytree.adapters.notify import Announcer
from monkeytree.adapters.queue import ExecuteQueue, SolveQueue, TaskQueue, ValidateQueue
from monkeytree.adapters.settings import Settings
from monkeytree.adapters.store import Store
from monkeytree.errors import MonkeyTreeError

ROUND_S = 1.0
PRUNE_EVERY_S = 60.0

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of work, in the store and in its queue."""

    rows: Leased[Any]
    queue: TaskQueue


def lines(settings: Settings, store: Store) -> tuple[Line, ...]:
    """All kinds of work."""
    return (
        Line(store, SolveQueue(settings)),
        Line(store.validations, ValidateQueue(settings)),
        Line(store.executions, ExecuteQueue(settings)),
    )


class Reaper:
    """Brings the queues back in step with the store."""

    def __init__(self, settings: Settings, store: Store, announcer: Announcer) -> None:
        self._settings = settings
        self._store = store
        self._lines = lines(settings, store)
        self._announcer = announcer
        self._next_prune = 0.0

    def reap(self) -> None:
        """One round."""
        expire_dead(self._store)
        for line in self._lines:
            self._free_expired(line)
            self._resend_lost(line)
        if monotonic() >= self._next_prune:
            self._next_prune = monotonic() + PRUNE_EVERY_S
            self._store.prune_keys(self._settings.idempotency_s)
            self._store.prune_beats(older_than_s=86400.0)

    def _free_expired(self, line: Line) -> None:
        queued, failed = line.rows.requeue_expired(self._settings.max_attempts)
        noun = line.rows.kind.noun
        for work in queued:
            why = "its worker fell silent"
            log.warning("requeued", noun=noun, id=work.id, attempt=work.attempt, why=why)
            line.queue.publish(work)
        for work in failed:
            log.error("gave_up", noun=noun, id=work.id, attempt=work.attempt, code=work.failure_code)
            self._announcer.announce(work.id)

    def _resend_lost(self, line: Line) -> None:
        """Send again what was not picked up, unless as many messages wait as rows do.

        While a worker is busy its queue is long and all is well; a message is only lost when there
        are fewer of them than queued rows. Old messages (of cancelled work) drain at the next claim.
        """
        overdue = line.rows.overdue(self._settings.requeue_after_s)
        if not overdue:
            return
        depth = line.queue.depth()
        waiting = line.rows.queue_figures().by_state.get("queued", 0)
        if depth is None or depth >= waiting:
            return
        sent = []
        for work in overdue:
            if not line.queue.publish(work):
                break
            sent.append(work.id)
        if sent:
            log.warning("resent", count=len(sent), queue_depth=depth, queued=waiting, first=sent[0])
            line.rows.note_published(sent)


def expire_dead(store: Store) -> None:
    """End the leases of processes that died on this host, before they run out by themselves."""
    everything: tuple[Leased[Any], ...] = (store, store.validations, store.executions)
    for rows in everything:
        for its_id, attempt, holder in rows.holders():
            if is_dead(holder) and rows.expire(its_id, attempt):
                log.warning("worker_died", noun=rows.kind.noun, id=its_id, attempt=attempt)


def main(stop: threading.Event | None = None) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    try:
        settings = Settings.from_env(os.environ)
        store = Store(settings.database_url)
        store.create()
    except MonkeyTreeError as error:
        sys.stderr.write(f"monkeytree reaper: {error}\n")
        return 2
    configure_logs(settings.log_level)
    stop = stop or _stop_on_signals()
    reaper = Reaper(settings, store, Announcer(settings.redis_url))
    log.info("reaper_started")
    while not stop.wait(ROUND_S):
        _quietly(reaper.reap)
    return 0


def _quietly(work: Callable[[], None]) -> None:
    """A store that is busy or away for the moment is tried again in the next round."""
    try:
        work()
    except SQLAlchemyError as error:
        log.error("round_failed", error=repr(error))


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


if __name__ == "__main__":
    sys.exit(main())
