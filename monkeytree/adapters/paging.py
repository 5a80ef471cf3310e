"""Lists, newest first, by keyset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, Table, or_, select


@dataclass(frozen=True, slots=True)
class Span:
    """Which part of a list is wanted.

    Attributes:
        clusters: None means all.
        since, until: seconds since the epoch; rows from ``since`` on, before ``until``.
        after: key of the last row of the page before.
        limit: most rows of the page.
    """

    clusters: frozenset[str] | None = None
    since: float | None = None
    until: float | None = None
    after: tuple[float, str] | None = None
    limit: int = 50


def newest_first(table: Table, time_of: str, span: Span) -> Select[Any]:
    """A page of ``table`` by its column ``time_of``, and one row more."""
    at = table.c[time_of]
    query = select(table).order_by(at.desc(), table.c.id.desc()).limit(span.limit + 1)
    if span.clusters is not None:
        query = query.where(table.c.cluster.in_(span.clusters))
    if span.since is not None:
        query = query.where(at >= span.since)
    if span.until is not None:
        query = query.where(at < span.until)
    if span.after is not None:
        last_at, last_id = span.after
        query = query.where(or_(at < last_at, (at == last_at) & (table.c.id < last_id)))
    return query
