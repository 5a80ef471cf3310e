"""A SQLAlchemy engine whose commits last: SQLite in WAL mode with synchronous FULL, or PostgreSQL."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from .engine_postgresql import postgresql_engine
from .errors import BadSetting
from .masking import masked

#: Execution option of a transaction that writes: SQLite then takes its write lock at once, so that two
#: writers queue up instead of failing when both try to upgrade a read lock. Its value says whether the
#: commit must outlive a power loss (``durable``) or only a crash of the process (``quick``).
WRITES = "monkeytree_writes"


def make_engine(database_url: str, *, busy_s: float = 10.0, pooled: bool = True) -> Engine:
    """An engine for ``database_url``; ``busy_s`` is how long a writer waits for the other one.

    Raises:
        BadSetting: the URL is no SQLite or PostgreSQL URL, or its driver is not installed.
    """
    url = _url(database_url)
    pool: dict[str, Any] = {"pool_size": 8, "max_overflow": 24} if pooled else {"poolclass": NullPool}
    if url.get_backend_name() == "postgresql":
        try:
            return postgresql_engine(url, busy_s, **pool)
        except ImportError as error:
            raise BadSetting(
                f"a DATABASE_URL of PostgreSQL needs psycopg: pip install 'monkeytree[postgresql]' ({error})"
            ) from None
    engine = create_engine(url, connect_args={"timeout": busy_s, "check_same_thread": False}, **pool)
    event.listen(engine, "connect", _on_connect(busy_s))
    event.listen(engine, "begin", _begin)
    return engine


def make_folder(engine: Engine) -> None:
    """Make the folder of a SQLite database."""
    if engine.dialect.name == "sqlite" and engine.url.database:
        Path(engine.url.database).parent.mkdir(parents=True, exist_ok=True)


def _url(database_url: str) -> URL:
    try:
        url = make_url(database_url)
    except ArgumentError:
        raise BadSetting(f"DATABASE_URL is no database URL: {masked(database_url)!r}") from None
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise BadSetting(
            f"DATABASE_URL must be sqlite:///... or postgresql://..., got {masked(database_url)!r}"
        )
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise BadSetting(f"DATABASE_URL must name a file, workers share it: got {masked(database_url)!r}")
    return url


def _on_connect(busy_s: float) -> Callable[[sqlite3.Connection, object], None]:
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun by _begin, not by the driver
        connection.execute(f"PRAGMA busy_timeout = {int(busy_s * 1000)}")
        _enter_wal(connection, busy_s)
        connection.execute("PRAGMA foreign_keys = ON")

    return prepare


def _enter_wal(connection: sqlite3.Connection, busy_s: float) -> None:
    """Turn WAL on; SQLite does not wait for other openers here, so this does."""
    deadline = time.monotonic() + busy_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES)
    if writes is None:
        connection.exec_driver_sql("BEGIN")
        return
    # in WAL mode NORMAL leaves out the sync of the commit: a quarter of the time on a common disk
    connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if writes == 'durable' else 'NORMAL'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")
