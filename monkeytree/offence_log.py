"""Collects offences: where each stands, and its value made fit for an error message."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final, TypeAlias

from .errors import Offence
from .limits import NAME_MESSAGE, Real, Whole, is_name

Path: TypeAlias = tuple[str | int, ...]
"""Members and indices that lead from the whole document to one of its parts."""

MOST_LISTED: Final = 1_000
#: Beyond so many that are only counted, arrays are read no further: whoever sent them knows enough.
MOST_COUNTED: Final = 100_000

_LONGEST: Final = 160
_MOST_ITEMS: Final = 8
_DEEPEST: Final = 2


class OffenceLog:
    """Collects offences; beyond :data:`MOST_LISTED` they are only counted."""

    __slots__ = ("listed", "more")

    def __init__(self) -> None:
        self.listed: list[Offence] = []
        self.more = 0

    def __len__(self) -> int:
        return len(self.listed) + self.more

    def add(self, at: Path, message: str, value: Any = None, code: str = "invalid") -> None:
        """Note that the member at path ``at`` is wrong."""
        if len(self.listed) < MOST_LISTED:
            self.listed.append(Offence(pointer_to(at), message, show(value), code))
        else:
            self.more += 1

    def check(self, rule: Whole | Real, value: Any, *at: str | int) -> bool:
        """Note ``value`` where it breaks ``rule``; returns whether it holds."""
        if rule.holds(value):
            return True
        self.add(at, rule.message, value)
        return False

    def name(self, value: Any, *at: str | int) -> None:
        """Note ``value`` where it cannot be an id."""
        if not is_name(value):
            self.add(at, NAME_MESSAGE, value)

    def choice(self, value: Any, options: tuple[str, ...], *at: str | int) -> None:
        """Note ``value`` where it is none of ``options``."""
        if value not in options:
            self.add(at, f"must be one of {', '.join(options)}", value)


def cut_short(offences: Sequence[Offence], more: int = 0) -> list[Offence]:
    """At most :data:`MOST_LISTED` offences, and one that counts the rest."""
    more += max(0, len(offences) - MOST_LISTED)
    listed = list(offences[:MOST_LISTED])
    if more:
        least = "at least " if more >= MOST_COUNTED else ""
        listed.append(Offence("", f"has {least}{more:,} more offences than the {len(listed):,} listed", more))
    return listed


def pointer_to(path: Path) -> str:
    """The JSON pointer (RFC 6901) of ``path``; "" is the whole document.

    A member name too long to print is shortened, and a lone surrogate written as an escape.
    """
    return "".join("/" + _shorten(str(part)).replace("~", "~0").replace("/", "~1") for part in path)


def show(value: Any, depth: int = 0) -> Any:
    """``value`` as something JSON can carry, cut short where it is large.

    Small scalars, lists and objects stay as they are; NaN and infinities become strings.
    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _shorten(value)
    if isinstance(value, int):
        fits = -(2**63) <= value < 2**64  # what JSON writers with 64-bit integers take
        return int(value) if fits else f"an integer of {value.bit_length():,} bits"
    if isinstance(value, float):
        return float(value) if isfinite(value) else _name_of(value)
    if isinstance(value, list | tuple):
        if len(value) <= _MOST_ITEMS and depth < _DEEPEST:
            return [show(item, depth + 1) for item in value]
        return f"an array of {len(value):,} items"
    if isinstance(value, Mapping):
        if len(value) <= _MOST_ITEMS and depth < _DEEPEST:
            return {_shorten(str(key)): show(item, depth + 1) for key, item in value.items()}
        return f"an object of {len(value):,} members"
    return _shorten(reprlib.repr(value))


def _name_of(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _shorten(text: str) -> str:
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}... ({len(text):,} characters)"
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
