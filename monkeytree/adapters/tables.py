"""The tables of the store. Times are seconds since the epoch, UTC; bodies are zlib and stand apart.

A plan row is the truth about a plan: the queue only wakes workers up.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

#: Raised by one whenever a table changes; an older store is brought up to it, a newer one refused.
SCHEMA_VERSION = 3
#: What turns the tables of a version into those of the next. New tables need nothing: all that are
#: missing are made first.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    1: ("ALTER TABLE heartbeats ADD COLUMN note TEXT",),
    2: (),  # tables of executions and agents only
}

metadata = MetaData()

#: What PostgreSQL takes in no text: NUL, and surrogates, which are not UTF-8.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Prose(TypeDecorator[str]):
    """Text that others worded (an agent, an exception): each character that cannot be stored is U+FFFD.

    A failure must be written down whatever it says.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """On its way in."""
        return None if value is None else _UNSTORABLE.sub("\ufffd", value)


class ShortProse(TypeDecorator[str]):
    """As :class:`Prose`, of at most so many characters."""

    impl = String
    cache_ok = True
    process_bind_param = Prose.process_bind_param


def _life() -> list[Column[Any]]:
    """Columns of what is queued, claimed under a lease and carried to its end (:mod:`.leased`)."""
    return [
        Column("state", String(16), nullable=False),
        Column("attempt", Integer, nullable=False, default=0),
        Column("lease_until", Double),
        Column("holder", String(400)),
        Column("created_at", Double, nullable=False),
        Column("published_at", Double, nullable=False),
        Column("started_at", Double),
        Column("finished_at", Double),
        Column("failure_code", String(64)),
        Column("failure_message", Prose),
        Column("request_id", String(128)),
    ]


schema_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

#: One row a cluster: locked while a snapshot of it is taken in, so that arrival is in one order.
clusters = Table(
    "clusters",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("newest_sequence", BigInteger),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("cluster", String(128), nullable=False),
    Column("taken_at", Double, nullable=False),
    Column("sequence", BigInteger),
    Column("received_at", Double, nullable=False),
    Index("snapshots_by_time", "taken_at", "id"),
    Index("snapshots_by_cluster", "cluster", "taken_at", "id"),
)

snapshot_bodies = Table(
    "snapshot_bodies",
    metadata,
    Column("id", String(64), ForeignKey("snapshots.id", ondelete="CASCADE"), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

#: ``sequence`` and ``taken_at`` are the newest snapshot that asked for the plan; ``supersedable`` is
#: false for what-ifs: they ask about a stored snapshot on purpose, however old.
plans = Table(
    "plans",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("snapshot_id", String(64), ForeignKey("snapshots.id"), nullable=False),
    Column("cluster", String(128), nullable=False),
    Column("sequence", BigInteger),
    Column("taken_at", Double, nullable=False),
    Column("supersedable", Boolean, nullable=False),
    Column("planning", Text, nullable=False),
    Column("planning_hash", String(64), nullable=False),
    Column("status", String(16)),
    Column("moves_needed", Integer),
    *_life(),
    Index("plans_by_time", "created_at", "id"),
    Index("plans_by_cluster", "cluster", "created_at", "id"),
    Index("plans_by_state", "state", "created_at"),
)

Index(
    "plans_live_once",
    plans.c.snapshot_id,
    plans.c.planning_hash,
    unique=True,
    sqlite_where=plans.c.state.in_(("queued", "solving", "ready")),
    postgresql_where=plans.c.state.in_(("queued", "solving", "ready")),
)

plan_bodies = Table(
    "plan_bodies",
    metadata,
    Column("id", String(36), ForeignKey("plans.id", ondelete="CASCADE"), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

#: ``digest`` says what is replayed: the same again finds the live or ready one. ``progress`` is JSON.
validations = Table(
    "validations",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("snapshot_id", String(64), ForeignKey("snapshots.id"), nullable=False),
    Column("plan_id", String(36), ForeignKey("plans.id")),
    Column("cluster", String(128), nullable=False),
    Column("options", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("progress", Text),
    Column("isolated", Boolean),
    Column("claims_hold", Boolean),
    *_life(),
    Index("validations_by_time", "created_at", "id"),
    Index("validations_by_cluster", "cluster", "created_at", "id"),
    Index("validations_by_state", "state", "created_at"),
)

Index(
    "validations_live_once",
    validations.c.digest,
    unique=True,
    sqlite_where=validations.c.state.in_(("queued", "running", "ready")),
    postgresql_where=validations.c.state.in_(("queued", "running", "ready")),
)

validation_bodies = Table(
    "validation_bodies",
    metadata,
    Column("id", String(36), ForeignKey("validations.id", ondelete="CASCADE"), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

#: ``settled`` is the attempt in which the last step came to its end: a worker's deaths count from there.
#: ``difference`` is what stopped it, JSON.
executions = Table(
    "executions",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("plan_id", String(36), ForeignKey("plans.id"), nullable=False),
    Column("snapshot_id", String(64), ForeignKey("snapshots.id"), nullable=False),
    Column("cluster", String(128), nullable=False),
    Column("expected_sequence", BigInteger),
    Column("on_failure", String(16), nullable=False),
    Column("waves", Integer, nullable=False),
    Column("timeout_s", Double, nullable=False),
    Column("settled", Integer, nullable=False, default=0),
    Column("cancel_requested", Boolean, nullable=False, default=False),
    Column("stage", String(128), nullable=False, default=""),
    Column("difference", Text),
    *_life(),
    Index("executions_by_time", "created_at", "id"),
    Index("executions_by_cluster", "cluster", "created_at", "id"),
    Index("executions_by_state", "state", "created_at"),
)

#: A move, or the new ring order of a job without one (then ``rank``, ``source`` and ``target`` are null).
#: While the execution lives, ``slots`` of ``target`` are promised to it. ``epoch`` fences the job's pause
#: that carries it out: given once, when it is begun, so that a successor makes the same calls again.
execution_steps = Table(
    "execution_steps",
    metadata,
    Column("execution_id", String(36), ForeignKey("executions.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("job", String(128), nullable=False),
    Column("group", String(128)),
    Column("rank", Integer),
    Column("source", String(128)),
    Column("target", String(128)),
    Column("source_rack", String(128)),
    Column("target_rack", String(128)),
    Column("wave", Integer, nullable=False),
    Column("staged", Boolean, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("state_gb", Double, nullable=False),
    Column("state", String(16), nullable=False),
    Column("epoch", BigInteger),
    Column("error", Prose),
    Column("phases", Text),
    Column("started_at", Double),
    Column("finished_at", Double),
    Index("execution_steps_by_job", "job", "finished_at"),
)

#: Every call to an agent, written before it is made; ``outcome`` is null until it is answered. ``fill`` is
#: what of its body only agents could tell, JSON: sent again, it must be the same.
execution_calls = Table(
    "execution_calls",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("execution_id", String(36), ForeignKey("executions.id", ondelete="CASCADE"), nullable=False),
    Column("step", Integer, nullable=False),
    Column("node", String(128), nullable=False),
    Column("name", String(200), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("fill", Text),
    Column("began_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("outcome", ShortProse(256)),
    Index("execution_calls_by_execution", "execution_id", "number"),
)

#: What nodes are run by which agent, as these announced themselves; ``epoch`` grows at each start of one.
agents = Table(
    "agents",
    metadata,
    Column("cluster", String(128), primary_key=True),
    Column("node", String(128), primary_key=True),
    Column("url", String(512), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("capabilities", Text, nullable=False, default="{}"),
    Column("announced_at", Double, nullable=False),
    Column("beat_at", Double, nullable=False),
)

#: The newest fencing epoch of each cluster: every pause of a job takes the next.
fences = Table(
    "fences",
    metadata,
    Column("cluster", String(128), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
)

#: Solve seconds as a histogram: one row a bucket, counted where the solve ends, read by /metrics.
solves = Table(
    "solves",
    metadata,
    Column("solver", String(32), primary_key=True),
    Column("status", String(16), primary_key=True),
    Column("bucket", Integer, primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("prefix", String(16), nullable=False),
    Column("name", String(128), nullable=False, unique=True),
    Column("roles", Text, nullable=False),
    Column("clusters", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("token", String(64), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("request_hash", String(64), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("status", Integer),
    Column("headers", Text),
    Column("body", LargeBinary),
    Index("idempotency_by_time", "created_at"),
)

#: ``note`` says what the process cannot do, and the cure; null where it can do its work.
heartbeats = Table(
    "heartbeats",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("beat_at", Double, nullable=False),
    Column("note", Prose),
)
