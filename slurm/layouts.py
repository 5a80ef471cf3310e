"""Layouts of workers, as a site file, a job's comment or its environment say them.

In a comment: ``monkeytree:tp=8,pp=4,rings=8`` anywhere among other words; explicit groups are written
``groups=0-3/4-7`` and their ring orders ``orders=0.2.1.3/4.5.6.7``, workers being node indices of the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from monkeytree import limits
from monkeytree.snapshot import GroupKind, Mobility

from .site import Layout

MARK = re.compile(r"(?:^|\s|;)monkeytree:([^\s;]+)")
MOST_WORKERS = 100_000
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?\Z")
AMOUNTS: Mapping[str, limits.Real] = {
    "state_gb": limits.STATE_GB,
    "traffic_gb": limits.TRAFFIC_GB,
    "iteration_s": limits.ITERATION_S,
}


class LayoutError(ValueError):
    """No layout; the message says which member and why."""


def layout_of_comment(comment: str) -> Layout:
    """What the comment says, if it says anything.

    Raises:
        LayoutError: it means to, but cannot be read.
    """
    said = [found[1] for found in MARK.finditer(comment)]
    if len(said) > 1:
        raise LayoutError("'monkeytree:' stands in it twice")
    words: dict[str, str] = {}
    for word in said[0].split(",") if said else ():
        key, sign, value = word.partition("=")
        if not sign:
            raise LayoutError(f"{word[:40]!r} is no key=value (no spaces after commas)")
        if key in words:
            raise LayoutError(f"{key[:40]} is said twice")
        words[key] = value
    return layout_of_words(words)


def layout_of_words(words: Mapping[str, str]) -> Layout:
    """A layout whose members are all texts: numbers as digits, groups as ``0-3/4-7``.

    Raises:
        LayoutError: a member is unknown or wrong.
    """
    values: dict[str, Any] = {}
    for key, text in words.items():
        if key == "groups":
            values[key] = [_ranks(group, key, ".") for group in text.split("/")]
        elif key == "orders":
            values[key] = [_ranks(order, key, ".") for order in text.split("/")]
        elif key in AMOUNTS:
            values[key] = _number(text, key, float)
        elif key in ("mobility", "kind"):
            values[key] = text
        else:
            values[key] = _number(text, key, int)
    return read_layout(values)


def _number(text: str, key: str, kind: type[int] | type[float]) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise LayoutError(f"{key[:40]} is no number: {text[:40]!r}") from None


def _ranks(text: str, key: str, sign: str) -> list[int]:
    """``0-3`` and ``0.2.1.3`` as lists; ranges and single ranks may be mixed."""
    ranks: list[int] = []
    for piece in text.split(sign):
        found = _RANGE.match(piece)
        if found is None:
            raise LayoutError(f"{key}: {piece[:40]!r} is neither a worker nor a range of workers")
        first, last = int(found[1]), int(found[2] or found[1])
        if last - first >= MOST_WORKERS - len(ranks):
            raise LayoutError(f"{key} names more than {MOST_WORKERS:,} workers")
        ranks += range(first, last + 1)
    return ranks


def read_layout(values: Mapping[str, Any]) -> Layout:
    """A layout from plain data, as in a site file.

    Raises:
        LayoutError: a member is unknown or wrong.
    """
    unknown = [key for key in values if key not in Layout.__slots__]
    if unknown:
        raise LayoutError(f"{unknown[0]!r} is no member of a layout; known are {', '.join(Layout.__slots__)}")
    read: dict[str, Any] = {}
    for key, value in values.items():
        read[key] = _CHECKS[key](key, value) if value is not None else None
    if read.get("orders") is not None and len(read.get("groups") or ()) != len(read["orders"]):
        raise LayoutError("orders must list one order for each of groups")
    for group, order in zip(read.get("groups") or (), read.get("orders") or (), strict=False):
        if sorted(group) != sorted(order):
            raise LayoutError(f"order {list(order)} is not of the workers {list(group)}")
    return Layout(**read)


def _degree(key: str, value: Any) -> int:
    rule = limits.Whole(0 if key == "rings" else 1, limits.RINGS.high if key == "rings" else MOST_WORKERS)
    if not rule.holds(value):
        raise LayoutError(f"{key} {rule.message}, not {value!r}")
    return int(value)


def _amount(key: str, value: Any) -> float:
    rule = AMOUNTS[key]
    if not rule.holds(value):
        raise LayoutError(f"{key} {rule.message}, not {value!r}")
    return float(value)


def _lists(key: str, value: Any) -> tuple[tuple[int, ...], ...]:
    def good(row: Any) -> bool:
        return isinstance(row, list) and bool(row) and all(type(rank) is int and rank >= 0 for rank in row)

    if not isinstance(value, Sequence) or isinstance(value, str) or not value or not all(map(good, value)):
        raise LayoutError(f"{key} must be a list of lists of workers (node indices from 0), not {value!r}")
    ranks = [rank for row in value for rank in row]
    if len(set(ranks)) < len(ranks):
        raise LayoutError(f"{key} names a worker twice: {value!r}")
    return tuple(tuple(row) for row in value)


def _word(key: str, value: Any) -> str:
    words = get_args(Mobility) if key == "mobility" else get_args(GroupKind)
    if value not in words:
        raise LayoutError(f"{key} must be one of {', '.join(words)}, not {value!r}")
    return str(value)


_CHECKS: Mapping[str, Any] = {
    **dict.fromkeys(("tp", "pp", "dp", "rings"), _degree),
    **dict.fromkeys(AMOUNTS, _amount),
    **dict.fromkeys(("groups", "orders"), _lists),
    **dict.fromkeys(("mobility", "kind"), _word),
}
