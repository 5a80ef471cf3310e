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
from .hostlist import NOTHING, BadHostlist, expand

Row = Mapping[str, Any]
_MOST = 999_999_999
_ENTRY = re.compile(
    r"(?:gres[:/])?([A-Za-z][^:,=()]*)((?::(?![0-9.]+[KMGTP]?\Z)[A-Za-z0-9_][^:,=()]*)*)(?:[:=]([0-9]+)([KMGTP])?)?\Z"
)
"""One generic resource: its name, its types, its count."""


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


def gres_detail(row: Row, member: str, at: str) -> tuple[str, ...]:
    """What a job holds on each of its nodes; an entry may itself hold commas, so it is no text of names.

    Raises:
        InvalidAnswer: it is no list of texts, or a text is cut off.
    """
    value = row.get(member)
    if value is None or value == "":
        return ()
    if not isinstance(value, list):
        raise refuse_answer(f"{at}/{member}", "must be a list of generic resources", value)
    return tuple(gres({str(index): item}, str(index), f"{at}/{member}") for index, item in enumerate(value))


def gres(row: Row, member: str, at: str) -> str:
    """Generic resources as Slurm writes them, "" where there are none.

    Raises:
        InvalidAnswer: it is something else, or cut off: an unreadable count must not become none.
    """
    value = text(row, member, at)
    if value in NOTHING:
        return ""
    for entry in _plain(value).split(","):
        if entry and not _ENTRY.match(entry):
            raise refuse_answer(f"{at}/{member}", "is no generic resource such as gpu:h100:8", value)
    return value


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

    ``gpu:h100:8(S:0-1)``, ``gpu:4,shard:8``, ``gpu:1g.5gb:7``, ``gpu:(null):2(IDX:0-1)``.
    """
    return sum(count for found, _, count in _entries(gres) if found == name)


def gres_types(gres: str, name: str) -> tuple[str, ...]:
    """The types of the generic resource ``name`` in ``gres``, sorted: ``("h100",)``."""
    return tuple(sorted({kind for found, kind, _ in _entries(gres) if found == name and kind}))


@cache
def _entries(gres: str) -> tuple[tuple[str, str, int], ...]:
    """Name, type ("" for none) and count of each entry; those that cannot be read are left out."""
    found = (_ENTRY.match(entry) for entry in _plain(gres).split(","))
    return tuple((one[1], one[2][1:], _count(one[3], one[4])) for one in found if one)


def tres_count(tres: str, name: str) -> int:
    """``gres/NAME`` of a TRES text such as ``cpu=96,node=6,gres/gpu=48``; 0 where it is not there.

    A cluster that accounts for types only (``gres/gpu:h100=48``) tells no sum: then they are added up.
    """
    rows = re.findall(rf"(?:^|,)gres/{re.escape(name)}(:[^=,]+)?=(\d+)(?=,|$)", tres)
    whole = [_count(digits) for kind, digits in rows if not kind]
    return whole[0] if whole else sum(_count(digits) for _, digits in rows)


def _count(digits: str | None, unit: str | None = None) -> int:
    """The number, 1 where none is said; one that no node has, or Python cannot read, is cut short."""
    if digits is None:
        return 1
    return min(_MOST, int(digits) * 1024 ** " KMGTP".index(unit or " ")) if len(digits) < 10 else _MOST


def _plain(gres: str) -> str:
    """``gres`` without the parentheses that say which ones, or that there is no type."""
    return re.sub(r"\([^()]*\)", "", gres.replace(":(null)", ""))
