"""Fields of Slurm's JSON in both of its shapes.

Up to OpenAPI v0.0.38 (Slurm 22.05) numbers are numbers and states are strings; the data_parser plugins
(v0.0.39 and newer) write numbers as ``{"set": true, "infinite": false, "number": 7}`` and states as lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from .errors import refuse_answer
from .hostlist import BadHostlist, expand

Row = Mapping[str, Any]


def number(row: Row, member: str, at: str, default: int | None = None) -> int | None:
    """A number, ``default`` where it is missing, null, not set or infinite.

    Raises:
        InvalidAnswer: it is something else.
    """
    value = row.get(member)
    if isinstance(value, Mapping):
        if value.get("set") is False or value.get("infinite") is True:
            return default
        value = value.get("number")
    if value is None:
        return default
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise refuse_answer(f"{at}/{member}", "must be a number", value)
    return value


def text(row: Row, member: str, at: str, default: str = "") -> str:
    """A string, ``default`` where it is missing or null; lone surrogates, which are no text, become ``?``.

    Raises:
        InvalidAnswer: it is something else.
    """
    value = row.get(member)
    if value is None:
        return default
    if not isinstance(value, str):
        raise refuse_answer(f"{at}/{member}", "must be a string", value)
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def states(row: Row, *members: str, at: str) -> frozenset[str]:
    """Base state and flags together, in capitals; each member may be a string or a list.

    Raises:
        InvalidAnswer: the first member is missing, or one is something else.
    """
    found: set[str] = set()
    for index, member in enumerate(members):
        value = row.get(member, None if index == 0 else [])
        listed = value.replace("+", " ").split() if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise refuse_answer(f"{at}/{member}", "must be a state or a list of states", value)
        found |= {item.upper() for item in listed}
    return frozenset(found)


def flag(row: Row, member: str, at: str, default: bool = False) -> bool:
    """True or false, ``default`` where it is missing or null.

    Raises:
        InvalidAnswer: it is something else.
    """
    value = row.get(member)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise refuse_answer(f"{at}/{member}", "must be true or false", value)
    return value


def names(row: Row, member: str, at: str) -> tuple[str, ...]:
    """A list of strings; a comma-separated string will do.

    Raises:
        InvalidAnswer: it is something else.
    """
    value = row.get(member)
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise refuse_answer(f"{at}/{member}", "must be a list of names", value)
    return tuple(value)


def hosts(row: Row, member: str, at: str) -> tuple[str, ...]:
    """A hostlist, expanded, in Slurm's order.

    Raises:
        InvalidAnswer: it is none.
    """
    value = text(row, member, at)
    try:
        return expand(value)
    except BadHostlist as error:
        raise refuse_answer(f"{at}/{member}", str(error), value) from None


def gres_count(gres: str, name: str) -> int:
    """How many of the generic resource ``name`` a text counts, whatever their types.

    ``gpu:h100:8(S:0-1)``, ``gpu:4,shard:8``, ``gpu:h100:8(IDX:0-7)``, ``gpu:h100:0(IDX:N/A)``.
    """
    return sum(_count(found[2] or "1") for found in _pattern(name).finditer(_plain(gres)))


def gres_types(gres: str, name: str) -> tuple[str, ...]:
    """The types of the generic resource ``name`` in ``gres``, sorted: ``("h100",)``."""
    return tuple(sorted({found[1] for found in _pattern(name).finditer(_plain(gres)) if found[1]}))


def tres_count(tres: str, name: str) -> int:
    """``gres/NAME`` of a TRES text such as ``cpu=96,node=6,gres/gpu=48``; 0 where it is not there."""
    found = re.search(rf"(?:^|,)gres/{re.escape(name)}=(\d+)(?:,|$)", tres)
    return _count(found[1]) if found else 0


def _count(digits: str) -> int:
    """The number; one too large for any node, and for Python to read, becomes the largest of nine digits."""
    return int(digits) if len(digits) < 10 else 999_999_999


def _plain(gres: str) -> str:
    """``gres`` without the parentheses that say which ones, and without the prefix of a request."""
    return re.sub(r"\([^()]*\)", "", gres)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """An entry of the generic resource ``name``: its type and count, where they are there."""
    return re.compile(rf"(?:^|,)(?:gres[:/])?{re.escape(name)}(?::([A-Za-z_][^:,=]*))?(?:[:=](\d+))?(?=,|$)")
