"""Maintenance windows: the hours of the week at which plans may be carried out, in UTC.

Written like ``mon-fri 22:00-06:00, sat 00:00-24:00``; nothing means any time. A window that ends before it
starts ends on the next day.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MIN = 24 * 60
_WEEK_MIN = 7 * _DAY_MIN
_WINDOW = re.compile(r"([a-z]{3})(?:-([a-z]{3}))? ([0-2]\d):([0-5]\d)-([0-2]\d):([0-5]\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Windows:
    """Spans of minutes since Monday 00:00 UTC, each [start, end) with end maybe past the week's end."""

    spans: tuple[tuple[int, int], ...] = ()

    def open_at(self, at: float) -> bool:
        """Whether plans may be carried out at ``at``, seconds since the epoch."""
        minute = _minute_of_week(at)
        return not self.spans or any(
            start <= minute < end or start <= minute + _WEEK_MIN < end for start, end in self.spans
        )

    def next_opening(self, at: float) -> datetime:
        """When the next window opens after ``at``."""
        minute = _minute_of_week(at)
        wait = min((start - minute) % _WEEK_MIN for start, _ in self.spans)
        return datetime.fromtimestamp(at, UTC).replace(second=0, microsecond=0) + timedelta(minutes=wait)


def read_windows(text: str) -> Windows:
    """The windows in ``text``.

    Raises:
        ValueError: it cannot be read; the message shows the part and what is wanted.
    """
    spans: list[tuple[int, int]] = []
    for part in filter(None, (part.strip().lower() for part in text.split(","))):
        spans += _spans(part)
    return Windows(tuple(spans))


def _spans(part: str) -> list[tuple[int, int]]:
    found = _WINDOW.fullmatch(part)
    if found:
        first, last, *clock = found.groups()
        hours = [int(number) for number in clock]
        start, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
        known = first in DAYS and (last or first) in DAYS
        if known and start < _DAY_MIN and end <= _DAY_MIN and start != end:
            begin = DAYS.index(first)
            days = (DAYS.index(last or first) - begin) % 7 + 1
            end += _DAY_MIN if end < start else 0
            return [
                ((begin + day) % 7 * _DAY_MIN + start, (begin + day) % 7 * _DAY_MIN + end)
                for day in range(days)
            ]
    raise ValueError(f"must read like mon-fri 22:00-06:00, sat 00:00-24:00 (UTC); got {part!r}")


def _minute_of_week(at: float) -> int:
    moment = datetime.fromtimestamp(at, UTC)
    return moment.weekday() * _DAY_MIN + moment.hour * 60 + moment.minute
