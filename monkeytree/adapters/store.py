"""The store: everything that must last, in SQLite or PostgreSQL.

One class, written in parts: :mod:`.intake` (snapshots in), :mod:`.solving` (the life of plans, with
:mod:`.leased`), :mod:`.history` (figures and beats), :mod:`.reservations`, :mod:`.tokens` and
:mod:`.replays`; validations have a life of their own in :mod:`.validating`, executions in :mod:`.executions`.
"""

from __future__ import annotations

from sqlalchemy import Connection, select, text, update
from sqlalchemy.exc import DBAPIError

from .again import again
from .agents_store import Agents
from .engine import make_engine, make_folder
from .errors import BadSetting, StoreVersionMismatch
from .executions import Executions
from .history import History
from .intake import Intake
from .replays import Replays
from .reservations import Reservations
from .solving import Solving
from .tables import MIGRATIONS, SCHEMA_VERSION, metadata, schema_version
from .tokens import Tokens
from .validating import Validations

__all__ = ["Store"]


class Store(Intake, Solving, History, Tokens, Replays, Reservations):
    """The store at ``url``; make one per process, after any fork.

    ``busy_s`` is how long a writer waits for another; ``pooled=False`` opens a connection per call.
    """

    def __init__(self, url: str, *, busy_s: float = 10.0, pooled: bool = True) -> None:
        self.engine = make_engine(url, busy_s=busy_s, pooled=pooled)
        self.validations = Validations(self.engine)
        self.executions = Executions(self.engine)
        self.agents = Agents(self.engine)

    def create(self) -> None:
        """Make the tables if they are missing, or bring older ones up; may run in several processes at once.

        Raises:
            BadSetting: the database cannot be reached, or refuses it.
            StoreVersionMismatch: they are those of a newer release.
        """
        make_folder(self.engine)
        try:
            self._create()
        except DBAPIError as error:
            why = str(error.orig).strip().partition("\n")[0]
            where = self.engine.url.set(query={}).render_as_string()
            raise BadSetting(
                f"the database of DATABASE_URL, {where!r}, cannot be used: {why}; it must run, and let this "
                "user make tables"
            ) from error

    @again
    def _create(self) -> None:
        with self.writing() as connection:
            if self.engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(7246139)"))
            metadata.create_all(connection)
            versions = connection.execute(select(schema_version.c.version)).scalars().all()
            if not versions:
                connection.execute(self.insert(schema_version).values(version=SCHEMA_VERSION))
            else:
                self._migrate(connection, max(versions))

    def _migrate(self, connection: Connection, version: int) -> None:
        if version > SCHEMA_VERSION:
            raise StoreVersionMismatch(
                f"the store {self.engine.url!r} has version {version}, this release needs "
                f"{SCHEMA_VERSION}: use another DATABASE_URL or the matching release"
            )
        for older in range(version, SCHEMA_VERSION):
            for statement in MIGRATIONS[older]:
                connection.exec_driver_sql(statement)
        if version < SCHEMA_VERSION:
            connection.execute(update(schema_version).values(version=SCHEMA_VERSION))

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()
