"""What the store hands out: frozen rows, and the base of its parts."""

from __future__ import annotations

import time
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from monkeytree.plan import PlanState
from monkeytree.snapshot import Planning

from .engine import WRITES

LIVE_STATES = ("queued", "solving")


@dataclass(frozen=True, slots=True)
class WorkRow:
    """What is known of queued work of every kind; times are seconds since the epoch, UTC."""

    id: str
    snapshot_id: str
    cluster: str
    attempt: int
    created_at: float
    started_at: float | None
    finished_at: float | None
    failure_code: str | None
    failure_message: str | None
    request_id: str | None


@dataclass(frozen=True, slots=True)
class PlanRow(WorkRow):
    """A plan as the store knows it."""

    planning: Planning
    state: PlanState
    status: str | None
    moves_needed: int | None
    lease_until: float | None

    @property
    def live(self) -> bool:
        """Whether the plan is still to come."""
        return self.state in LIVE_STATES

    @property
    def limit_s(self) -> float:
        """Seconds the work on it may take, by its own options."""
        return self.planning.time_limit_s

    @property
    def tag(self) -> str:
        """Changes whenever the plan's document does (an entity tag)."""
        return f"{self.id}.{self.state}.{self.attempt}"


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """A stored snapshot without its body; ``taken_at`` is that of its newest arrival."""

    id: str
    cluster: str
    taken_at: float
    sequence: int | None
    received_at: float


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a request for a plan.

    ``created``: a new plan was queued, else an old one answers. ``superseded``: ids of queued plans
    that the snapshot made old.
    """

    plan: PlanRow
    created: bool
    superseded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, newest first; ``next`` is the key of its last row if more follow."""

    items: tuple[Any, ...]
    next: tuple[float, str] | None


def planning_text(planning: Planning) -> str:
    """The canonical JSON of planning options."""
    return orjson.dumps(asdict(planning), option=orjson.OPT_SORT_KEYS).decode()


def planning_hash(planning: Planning) -> str:
    """SHA-256 of the canonical planning options, hex."""
    return sha256(planning_text(planning).encode()).hexdigest()


def plan_row(row: Any) -> PlanRow:
    """The row of table ``plans`` as a :class:`PlanRow`."""
    values = values_of(PlanRow, row)
    values["planning"] = Planning(**orjson.loads(row.planning))
    return PlanRow(**values)


def values_of(kind: type[WorkRow], row: Any) -> dict[str, Any]:
    """What the row of a table holds of the fields of ``kind``, as it stands there."""
    return {field.name: getattr(row, field.name) for field in fields(kind)}


def page_of(rows: Sequence[Any], limit: int, time_of: str) -> Page:
    """The first ``limit`` of ``rows`` (one more was asked for, to see whether more follow)."""
    items = tuple(rows[:limit])
    more = len(rows) > limit
    return Page(items, (getattr(items[-1], time_of), items[-1].id) if more else None)


def pack(body: bytes) -> bytes:
    """A body as it is stored."""
    return zlib.compress(body, 3)


def unpack(body: bytes) -> bytes:
    """The inverse of :func:`pack`."""
    return zlib.decompress(body)


def new_id() -> str:
    """A random id of a plan or a validation."""
    return str(uuid.uuid4())


class Part:
    """Base of the store's parts: transactions and portable upserts."""

    engine: Engine

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads; what was read counts, though the connection is lost at its end."""
        read = False
        try:
            with self.engine.begin() as connection:
                yield connection
                read = True
        except DBAPIError as error:
            if not (read and error.connection_invalidated):
                raise

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Connection]:
        """A transaction that writes; it commits whole or not at all.

        ``durable=False`` is for what may be done again after a power loss (claims, leases, beats); it
        concerns SQLite only, where all who could tell the difference lose power together.
        """
        options = {WRITES: "durable" if durable else "quick"}
        with self.engine.execution_options(**options).begin() as connection:
            yield connection

    def insert(self, table: Table) -> Any:
        """An INSERT with ``on_conflict_do_...`` for this database."""
        return (postgresql if self.engine.dialect.name == "postgresql" else sqlite).insert(table)

    def add(self, connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
        """Insert ``row``; False where one stands in its way."""
        statement = self.insert(table).values(**row).on_conflict_do_nothing()
        # not by rowcount: it is -1 for inserts on PostgreSQL
        return connection.execute(statement.returning(*table.primary_key)).first() is not None

    @staticmethod
    def now() -> float:
        """Seconds since the epoch; hosts that share a PostgreSQL store must keep time (NTP)."""
        return time.time()
