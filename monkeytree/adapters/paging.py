"""Lists, newest first, by keyset."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, Table, or_, select


def newest_first(
    table: Table,
    time_of: str,
    clusters: frozenset[str] | None,
    since: float | None,
    until: float | None,
    after: tuple[float, str] | None,
    limit: int,
) -> Select[Any]:
    """A page of ``table`` by its column ``time_of``, and one row more; ``clusters`` None means all."""
    at = table.c[time_of]
    query = select(table).order_by(at.desc(), table.c.id.desc()).limit(limit + 1)
    if clusters is not None:
        query = query.where(table.c.cluster.in_(clusters))
    if since is not None:
        query = query.where(at >= since)
    if until is not None:
        query = query.where(at < until)
    if after is not None:
        query = query.where(or_(at < after[0], (at == after[0]) & (table.c.id < after[1])))
    return query
