"""How large each number and name of a snapshot may be, stated once.

The checks of :mod:`monkeytree.offences`, the fields of :mod:`monkeytree.wire` and, through them, the
OpenAPI document all read the rules here. The bounds are far above any real cluster; they keep a
small document from asking for a huge amount of memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

MAX_NAME: Final = 128
MAX_LABEL: Final = 4_096
MAX_RACKS: Final = 100_000
MAX_NODES: Final = 1_000_000
MAX_PODS: Final = 100_000
MAX_JOBS: Final = 1_000_000
MAX_PENDING: Final = 10_000
MAX_WORKERS: Final = 1_000_000
MAX_HOPS: Final = 10_000_000
"""Workers x rings, summed over groups: no plan can have more flows."""

# Control characters (C0, DEL, C1) would break tables and logs; lone surrogates are not UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
NAME_PATTERN: Final = r"^[^\u0000-\u001f\u007f-\u009f]+$"
NAME_MESSAGE: Final = f"must be a string of 1 to {MAX_NAME} characters without control characters"
LABEL_MESSAGE: Final = f"must be a string of at most {MAX_LABEL:,} characters"


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer from ``low`` to ``high``, both included."""

    low: int
    high: int

    def holds(self, value: Any) -> bool:
        """Whether ``value`` is an int (bool is not) within the bounds."""
        return type(value) is int and self.low <= value <= self.high

    @property
    def message(self) -> str:
        return f"must be an integer from {self.low:,} to {self.high:,}"


@dataclass(frozen=True, slots=True)
class Real:
    """A finite number from ``low`` to ``high``; ``open`` leaves ``low`` itself out."""

    low: float
    high: float
    open: bool = False

    def holds(self, value: Any) -> bool:
        """Whether ``value`` is an int or float (bool is not), finite and within the bounds."""
        if type(value) is not float and type(value) is not int:
            return False
        if type(value) is float and not isfinite(value):
            return False
        return (self.low < value if self.open else self.low <= value) and value <= self.high

    @property
    def message(self) -> str:
        start, to = ("above", "and at most") if self.open else ("from", "to")
        return f"must be a finite number {start} {self.low:g} {to} {self.high:,.0f}"


SEQUENCE: Final = Whole(0, 2**63 - 1)
RAILS: Final = Whole(1, 256)
GBPS: Final = Real(0.001, 1e6)
UPLINKS: Final = Whole(0, 4_096)
SPINE: Final = Whole(0, 1_000_000)
POD_UPLINKS: Final = Whole(0, 1_000_000)
SLOTS: Final = Whole(0, 1_000_000)
RINGS: Final = Whole(0, 4_096)
SLOTS_PER_WORKER: Final = Whole(1, 1_000_000)
STATE_GB: Final = Real(0.0, 1e9)
TRAFFIC_GB: Final = Real(0.0, 1e6, open=True)
ITERATION_S: Final = Real(1e-6, 1e6)
REMAINING_S: Final = Real(0.0, 1e9)
RANK: Final = Whole(0, MAX_WORKERS - 1)
TIME_LIMIT_S: Final = Real(0.0, 86_400.0, open=True)
MAX_MOVES: Final = Whole(0, 1_000_000_000)
PENDING_WORKERS: Final = Whole(1, 100_000)
PAUSE_S: Final = Real(0.0, 1e6)


def is_name(value: Any) -> bool:
    """Whether ``value`` may be an id: 1 to 128 characters, no control character, no lone surrogate."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME:
        return False
    return value.isprintable() or _UNPRINTABLE.search(value) is None


def is_text(value: Any, longest: int = MAX_LABEL) -> bool:
    """Whether ``value`` is a string that UTF-8 can carry, of at most ``longest`` characters."""
    return isinstance(value, str) and len(value) <= longest and _SURROGATE.search(value) is None
