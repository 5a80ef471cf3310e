"""The part of the store that carries work from ``queued`` to its end: claim, lease, finish.

Plans, validations and executions live alike. A claim is a compare-and-set that raises ``attempt``; every
later write of that worker is guarded by the attempt (a fencing token), so that a worker thought dead
cannot overwrite its successor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import ColumnElement, Table, func, select, update

from monkeytree.errors import MonkeyTreeError

from .again import again
from .errors import NotCancellable
from .paging import Span, newest_first
from .rows import Page, Part, page_of


class Work(Protocol):
    """What rows of every kind tell."""

    @property
    def id(self) -> str: ...

    @property
    def state(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    @property
    def request_id(self) -> str | None: ...

    @property
    def failure_code(self) -> str | None: ...

    @property
    def live(self) -> bool: ...

    @property
    def limit_s(self) -> float: ...


Row = TypeVar("Row", bound=Work)


@dataclass(frozen=True, slots=True)
class Kind(Generic[Row]):
    """A kind of work.

    Attributes:
        noun: ``plan``.
        doing: its state while a worker is at it.
        read: a row of ``table`` as the store hands it out.
        unknown: the error for an id that is not there.
        crashed, overran: failure codes of work whose worker died, or that did not end in time.
        advice: what may help after a crash; cure: after an overrun.
    """

    noun: str
    doing: str
    table: Table
    read: Callable[[Any], Row]
    unknown: Callable[[str], MonkeyTreeError]
    crashed: str
    overran: str
    advice: str
    cure: str


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """A queue as the store sees it; ages in seconds, 0 when there is none."""

    by_state: dict[str, int]
    oldest_queued_s: float


class Leased(Part, Generic[Row]):
    """The life of one kind of work."""

    kind: Kind[Row]

    @again
    def find(self, its_id: str) -> Row:
        """One row.

        Raises:
            UnknownPlan, UnknownValidation: no such row.
        """
        table = self.kind.table
        with self.reading() as connection:
            row = connection.execute(select(table).where(table.c.id == its_id)).one_or_none()
        if row is None:
            raise self.kind.unknown(its_id)
        return self.kind.read(row)

    @again
    def list_rows(self, span: Span, *further: ColumnElement[bool], **equal: str | None) -> Page:
        """Rows by ``created_at``, newest first, with these values of columns (None: any)."""
        table = self.kind.table
        wanted = [table.c[name] == value for name, value in equal.items() if value is not None]
        query = newest_first(table, "created_at", span).where(*wanted, *further)
        with self.reading() as connection:
            rows = [self.kind.read(row) for row in connection.execute(query)]
        return page_of(rows, span.limit, "created_at")

    @again
    def claim(self, its_id: str, lease_s: float, max_attempts: int, holder: str | None = None) -> Row | None:
        """Take queued work, or work whose worker fell silent; None when there is nothing to take.

        ``holder`` names the process that takes it (:mod:`.holder`).
        """
        table, doing, now = self.kind.table, self.kind.doing, self.now()
        free = (table.c.state == "queued") | ((table.c.state == doing) & (table.c.lease_until < now))
        taken = {
            "state": doing,
            "attempt": table.c.attempt + 1,
            "lease_until": now + lease_s,
            "started_at": now,
            "holder": holder,
        }
        change = update(table).where((table.c.id == its_id) & free & (self._tries() < max_attempts))
        with self.writing(durable=False) as connection:
            row = connection.execute(change.values(**taken).returning(*table.c)).one_or_none()
        return None if row is None else self.kind.read(row)

    @again
    def holds(self, its_id: str, attempt: int) -> bool:
        """Whether ``attempt`` is still the one at work."""
        with self.reading() as connection:
            query = select(self.kind.table.c.id).where(self._held(its_id, attempt))
            return connection.execute(query).one_or_none() is not None

    def extend(self, its_id: str, attempt: int, lease_s: float) -> bool:
        """Prolong the lease; False when it is lost (cancelled, or taken by another)."""
        return self._guarded(its_id, attempt, durable=False, lease_until=self.now() + lease_s)

    def holders(self) -> list[tuple[str, int, str]]:
        """Id, attempt and holder of what is being worked on under a lease."""
        table = self.kind.table
        query = select(table.c.id, table.c.attempt, table.c.holder)
        query = query.where((table.c.state == self.kind.doing) & table.c.holder.is_not(None))
        query = query.where(table.c.lease_until > self.now())
        with self.reading() as connection:
            return [(row.id, row.attempt, row.holder) for row in connection.execute(query)]

    def expire(self, its_id: str, attempt: int) -> bool:
        """End the lease of a worker known to be dead, so that the work is freed in the next round."""
        return self._guarded(its_id, attempt, durable=False, lease_until=0.0)

    def fail(self, its_id: str, attempt: int, code: str, message: str) -> bool:
        """End work as ``failed``; False when the lease was lost meanwhile."""
        return self._guarded(
            its_id, attempt, state="failed", failure_code=code, failure_message=message,
            lease_until=None, finished_at=self.now(),
        )  # fmt: skip

    @again
    def cancel(self, its_id: str) -> Row:
        """End queued work, or work that is being done, as ``cancelled``; the row as it is after.

        Raises:
            UnknownPlan, UnknownValidation: no such row.
            NotCancellable: it is already at its end.
        """
        table, doing = self.kind.table, self.kind.doing
        change = update(table).where((table.c.id == its_id) & table.c.state.in_(("queued", doing)))
        ended = {"state": "cancelled", "lease_until": None, "finished_at": self.now()}
        with self.writing() as connection:
            row = connection.execute(change.values(**ended).returning(*table.c)).one_or_none()
        if row is None:
            raise NotCancellable(self.kind.noun, its_id, self.find(its_id).state, doing)
        return self.kind.read(row)

    @again
    def requeue_expired(self, max_attempts: int) -> tuple[list[Row], list[Row]]:
        """Free work whose worker fell silent: what is queued again, and what is out of attempts (failed)."""
        kind, table, now = self.kind, self.kind.table, self.now()
        expired = (table.c.state == kind.doing) & (table.c.lease_until < now)
        again = update(table).where(expired & (self._tries() < max_attempts))
        again = again.values(state="queued", lease_until=None, published_at=now)
        spent = update(table).where(expired & (self._tries() >= max_attempts)).values(
            state="failed", lease_until=None, finished_at=now, failure_code=kind.crashed,
            failure_message=f"the worker died while {kind.doing}, {max_attempts} times of {max_attempts}: "
            f"see its log; {kind.advice}",
        )  # fmt: skip
        with self.reading() as connection:  # mostly there is none: do not take the write lock to see it
            if connection.execute(select(table.c.id).where(expired).limit(1)).one_or_none() is None:
                return [], []
        with self.writing() as connection:
            failed = [kind.read(row) for row in connection.execute(spent.returning(*table.c))]
            queued = [kind.read(row) for row in connection.execute(again.returning(*table.c))]
        return queued, failed

    def overdue(self, requeue_after_s: float) -> list[Row]:
        """Queued work whose last message is older than ``requeue_after_s``, oldest first."""
        table = self.kind.table
        late = (table.c.state == "queued") & (table.c.published_at < self.now() - requeue_after_s)
        with self.reading() as connection:
            query = select(table).where(late).order_by(table.c.created_at).limit(1000)
            return [self.kind.read(row) for row in connection.execute(query)]

    @again
    def note_published(self, ids: Sequence[str]) -> None:
        """Remember that messages of these were sent just now."""
        table = self.kind.table
        with self.writing(durable=False) as connection:
            connection.execute(update(table).where(table.c.id.in_(ids)).values(published_at=self.now()))

    def queue_figures(self) -> QueueFigures:
        """How many by state, and how long the oldest queued one has waited."""
        table = self.kind.table
        with self.reading() as connection:
            counts = connection.execute(select(table.c.state, func.count()).group_by(table.c.state))
            by_state = {str(state): int(count) for state, count in counts}
            oldest = connection.execute(
                select(func.min(table.c.created_at)).where(table.c.state == "queued")
            ).scalar()
        return QueueFigures(by_state, max(0.0, self.now() - oldest) if oldest is not None else 0.0)

    def _tries(self) -> ColumnElement[int]:
        """Attempts that count against ``max_attempts``."""
        return self.kind.table.c.attempt

    def _held(self, its_id: str, attempt: int) -> ColumnElement[bool]:
        table = self.kind.table
        return (table.c.id == its_id) & (table.c.state == self.kind.doing) & (table.c.attempt == attempt)

    @again
    def _guarded(self, its_id: str, attempt: int, *, durable: bool = True, **values: Any) -> bool:
        change = update(self.kind.table).where(self._held(its_id, attempt)).values(**values)
        with self.writing(durable=durable) as connection:
            return bool(connection.execute(change).rowcount)
