"""Where a test's store is: in SQLite, or in a schema of its own on the server of TEST_DATABASE_URL."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, make_url, text

#: URL of a PostgreSQL server for the tests' own use; ``make test-postgres`` starts one and sets it.
SERVER = os.environ.get("TEST_DATABASE_URL")


@contextmanager
def own_database(folder: Path) -> Iterator[str]:
    """The URL of an empty database that is nobody else's: a file in ``folder``, or a schema of the server.

    The schema is dropped afterwards; the file goes with the folder.
    """
    if SERVER is None:
        yield f"sqlite:///{folder}/monkeytree.db"
        return
    name = f"t_{uuid.uuid4().hex}"
    run_on_server(f"CREATE SCHEMA {name}")
    try:
        url = make_url(SERVER).update_query_dict(
            {"options": f"-csearch_path={name}", "application_name": name}
        )
        yield url.render_as_string(hide_password=False)
    finally:
        run_on_server(f"DROP SCHEMA {name} CASCADE")


def run_on_server(statement: str, *, autocommit: bool = False, **values: object) -> list[tuple[object, ...]]:
    """Run one statement on the server, as an operator would beside the service; its rows."""
    assert SERVER is not None
    level = "AUTOCOMMIT" if autocommit else "READ COMMITTED"
    engine = create_engine(make_url(SERVER).set(drivername="postgresql+psycopg"), isolation_level=level)
    try:
        with engine.begin() as connection:
            found = connection.execute(text(statement), values)
            return [tuple(row) for row in found] if found.returns_rows else []
    finally:
        engine.dispose()
