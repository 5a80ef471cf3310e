"""The part of the store that looks back: figures for /metrics, heartbeats."""

from __future__ import annotations

from sqlalchemy import delete, func, select

from .again import again
from .rows import Part
from .tables import heartbeats, solves


class History(Part):
    """Solves that were counted, and who is alive."""

    def solve_counts(self) -> list[tuple[str, str, int, int, float]]:
        """The histogram of solve seconds: solver, status, bucket, count, summed seconds."""
        with self.reading() as connection:
            return [tuple(row) for row in connection.execute(select(solves).order_by(*solves.primary_key))]

    @again
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

    @again
    def prune_beats(self, older_than_s: float) -> None:
        """Forget processes that have not beaten for this long."""
        with self.writing(durable=False) as connection:
            connection.execute(delete(heartbeats).where(heartbeats.c.beat_at < self.now() - older_than_s))
