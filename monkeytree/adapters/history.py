"""The part of the store that looks back: lists of plans, figures for /metrics, heartbeats."""

from __future__ import annotations

from sqlalchemy import delete, func, select

from .paging import newest_first
from .rows import Page, Part, page_of, plan_row
from .tables import heartbeats, plans, solves


class History(Part):
    """Reads over many plans."""

    def list_plans(
        self,
        *,
        clusters: frozenset[str] | None = None,
        since: float | None = None,
        until: float | None = None,
        state: str | None = None,
        status: str | None = None,
        min_moves: int | None = None,
        after: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> Page:
        """Plans by ``created_at``, newest first; ``clusters`` None means all."""
        query = newest_first(plans, "created_at", clusters, since, until, after, limit)
        for column, wanted in ((plans.c.state, state), (plans.c.status, status)):
            if wanted is not None:
                query = query.where(column == wanted)
        if min_moves is not None:
            query = query.where(plans.c.moves_needed >= min_moves)
        with self.reading() as connection:
            rows = [plan_row(row) for row in connection.execute(query)]
        return page_of(rows, limit, "created_at")

    def solve_counts(self) -> list[tuple[str, str, int, int, float]]:
        """The histogram of solve seconds: solver, status, bucket, count, summed seconds."""
        with self.reading() as connection:
            return [tuple(row) for row in connection.execute(select(solves).order_by(*solves.primary_key))]

    def beat(self, name: str, note: str | None = None) -> None:
        """Note that the process ``name`` is alive; ``note`` says what it cannot do, and the cure."""
        values = {"name": name, "beat_at": self.now(), "note": note}
        statement = self.insert(heartbeats).values(**values)
        with self.writing(durable=False) as connection:
            connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=values))

    def notes(self, kind: str, within_s: float) -> list[str | None]:
        """What processes named ``kind:...`` said at beats of the last ``within_s``, newest first."""
        recent = heartbeats.c.name.startswith(f"{kind}:") & (heartbeats.c.beat_at > self.now() - within_s)
        query = select(heartbeats.c.note).where(recent).order_by(heartbeats.c.beat_at.desc())
        with self.reading() as connection:
            return list(connection.execute(query).scalars())

    def beat_age_s(self, kind: str) -> float | None:
        """Seconds since the newest beat of a process whose name starts with ``kind:``; None if none ever."""
        query = select(func.max(heartbeats.c.beat_at)).where(heartbeats.c.name.startswith(f"{kind}:"))
        with self.reading() as connection:
            newest = connection.execute(query).scalar()
        return None if newest is None else max(0.0, self.now() - newest)

    def prune_beats(self, older_than_s: float) -> None:
        """Forget processes that have not beaten for this long."""
        with self.writing(durable=False) as connection:
            connection.execute(delete(heartbeats).where(heartbeats.c.beat_at < self.now() - older_than_s))
