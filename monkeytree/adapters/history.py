"""The part of the store that looks back: lists of plans, figures for /metrics, heartbeats."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, func, or_, select

from .rows import Page, Part, page_of, plan_row
from .tables import heartbeats, plans, solves


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The queue as the store sees it; ages in seconds, 0 when there is none."""

    by_state: dict[str, int]
    oldest_queued_s: float


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
        at = plans.c.created_at
        query = select(plans).order_by(at.desc(), plans.c.id.desc()).limit(limit + 1)
        if clusters is not None:
            query = query.where(plans.c.cluster.in_(clusters))
        for column, wanted in ((plans.c.state, state), (plans.c.status, status)):
            if wanted is not None:
                query = query.where(column == wanted)
        if min_moves is not None:
            query = query.where(plans.c.moves_needed >= min_moves)
        if since is not None:
            query = query.where(at >= since)
        if until is not None:
            query = query.where(at < until)
        if after is not None:
            query = query.where(or_(at < after[0], (at == after[0]) & (plans.c.id < after[1])))
        with self.reading() as connection:
            rows = [plan_row(row) for row in connection.execute(query)]
        return page_of(rows, limit, "created_at")

    def queue_figures(self) -> QueueFigures:
        """Plans by state, and how long the oldest queued one has waited."""
        with self.reading() as connection:
            counts = connection.execute(select(plans.c.state, func.count()).group_by(plans.c.state))
            by_state = {str(state): int(count) for state, count in counts}
            oldest = connection.execute(
                select(func.min(plans.c.created_at)).where(plans.c.state == "queued")
            ).scalar()
        return QueueFigures(by_state, max(0.0, self.now() - oldest) if oldest is not None else 0.0)

    def solve_counts(self) -> list[tuple[str, str, int, int, float]]:
        """The histogram of solve seconds: solver, status, bucket, count, summed seconds."""
        with self.reading() as connection:
            return [tuple(row) for row in connection.execute(select(solves).order_by(*solves.primary_key))]

    def beat(self, name: str) -> None:
        """Note that the process ``name`` is alive."""
        values = {"name": name, "beat_at": self.now()}
        statement = self.insert(heartbeats).values(**values)
        with self.writing(durable=False) as connection:
            connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=values))

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
