"""The tables of the store. Times are seconds since the epoch, UTC; bodies are zlib and stand apart.

A plan row is the truth about a plan: the queue only wakes workers up.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

#: Raised by one whenever a table changes; an older store is brought up to it, a newer one refused.
SCHEMA_VERSION = 2
#: What turns the tables of a version into those of the next. New tables need nothing: all that are
#: missing are made first.
MIGRATIONS: dict[int, tuple[str, ...]] = {1: ("ALTER TABLE heartbeats ADD COLUMN note TEXT",)}

metadata = MetaData()


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
        Column("failure_message", Text),
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
    Column("note", Text),
)
