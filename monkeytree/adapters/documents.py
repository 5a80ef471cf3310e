"""Times as documents write them (RFC 3339, UTC), and documents that need only a row."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from monkeytree.wire.plan import dump_plan_in_work

from .rows import PlanRow, WorkRow
from .validating import ValidationRow

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


#: First and last moment a datetime holds; a float near the last one rounds into the year 10000.
_EARLIEST_S, _LATEST_S = -62135596800.0, 253402300799.9995


def utc_text(seconds: float) -> str:
    """Seconds since the epoch as ``2026-11-29T18:00:00.123Z``, cut to the years 1 to 9999."""
    seconds = min(max(seconds, _EARLIEST_S), _LATEST_S)
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_text(seconds: float | None) -> str | None:
    """:func:`utc_text` of a time that may be none."""
    return None if seconds is None else utc_text(seconds)


def parse_utc(text: str) -> float:
    """An RFC 3339 time with its zone, as seconds since the epoch.

    Raises:
        ValueError: it is not one; the message says what is wanted.
    """
    if _RFC3339.fullmatch(text):
        try:
            return datetime.fromisoformat(text.upper().replace("Z", "+00:00")).timestamp()
        except (ValueError, OverflowError):
            pass
    raise ValueError("must be an RFC 3339 time with its zone, like 2026-11-29T18:00:00Z")


def plan_document(row: PlanRow) -> dict[str, Any]:
    """The document of a plan that is not ready."""
    return dump_plan_in_work(
        row.id, row.snapshot_id, row.cluster, utc_text(row.created_at), row.state, failure_of(row)
    )


def plan_summary(row: PlanRow) -> dict[str, Any]:
    """A plan as lists show it."""
    return {
        "id": row.id,
        "snapshot_id": row.snapshot_id,
        "cluster": row.cluster,
        "created_at": utc_text(row.created_at),
        "state": row.state,
        "status": row.status,
        "failure": failure_of(row),
        "moves_needed": row.moves_needed,
        **life_of(row),
    }


def validation_summary(row: ValidationRow) -> dict[str, Any]:
    """A validation as lists show it: without its report."""
    return {
        "id": row.id,
        "snapshot_id": row.snapshot_id,
        "plan_id": row.plan_id,
        "cluster": row.cluster,
        "options": row.options.document(),
        "created_at": utc_text(row.created_at),
        "state": row.state,
        "progress": row.progress,
        "failure": failure_of(row),
        "isolated": row.isolated,
        "claims_hold": row.claims_hold,
        **life_of(row),
    }


def life_of(row: WorkRow) -> dict[str, Any]:
    """How often it was taken up, and when last."""
    return {
        "attempt": row.attempt,
        "started_at": time_text(row.started_at),
        "finished_at": time_text(row.finished_at),
    }


def failure_of(row: WorkRow) -> dict[str, str] | None:
    """Why it failed; None where it did not."""
    if row.failure_code is None:
        return None
    return {"code": row.failure_code, "message": row.failure_message or ""}
