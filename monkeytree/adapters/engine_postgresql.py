"""What a connection to PostgreSQL must be like, whatever the defaults of server, role and environment."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL

from .errors import BadSetting

#: A process that halts in the midst of a transaction (suspended, swapped out) loses it, and so its locks.
STALLED_S = 30.0
#: Parameters of libpq; one that the URL gives itself stands. A host that vanished is noticed within a minute.
CONNECTION = {
    "client_encoding": "utf8",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "application_name": "monkeytree",
}


def postgresql_engine(url: URL, busy_s: float, **pool: Any) -> Engine:
    """An engine for ``url``; a statement waits at most ``busy_s`` for another transaction's lock.

    Raises:
        BadSetting: the driver is not installed.
    """
    if find_spec("psycopg") is None:
        raise BadSetting(
            "DATABASE_URL is one of PostgreSQL, whose driver is not installed: "
            "pip install 'monkeytree[postgresql]'"
        )
    engine = create_engine(
        url,
        # The store's statements re-read what they waited for. Where a snapshot is kept instead, a loop that
        # looks for what another transaction has just written never sees it.
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        connect_args={name: value for name, value in CONNECTION.items() if name not in url.query},
        **pool,
    )
    event.listen(engine, "connect", _on_connect(busy_s))
    return engine


def _on_connect(busy_s: float) -> Callable[[Any, object], None]:
    def prepare(connection: Any, _record: object) -> None:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise BadSetting(
                f"the database {connection.info.dbname!r} of DATABASE_URL has the encoding {encoding!r}: it "
                "cannot hold every name; make one with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
            )
        connection.autocommit = True
        connection.execute(f"SET lock_timeout = {int(busy_s * 1000)}")
        connection.execute(f"SET idle_in_transaction_session_timeout = {int(STALLED_S * 1000)}")
        connection.autocommit = False

    return prepare
