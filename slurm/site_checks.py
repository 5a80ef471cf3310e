"""What members of a site file are read with: each check gives the value it becomes, or says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from monkeytree import limits
from monkeytree.limits import is_name

from .hostlist import BadHostlist, expand
from .layouts import LayoutError, read_layout
from .site import Layout

Check = Callable[[Any], Any]


class Wrong(ValueError):
    """A member is not what it must be; the message completes "PATH ..."."""


def name(value: Any) -> str:
    """An id of the snapshot."""
    if not is_name(value):
        raise Wrong(limits.NAME_MESSAGE)
    return str(value)


def string(value: Any) -> str:
    """Any string that says something."""
    if not isinstance(value, str) or not value:
        raise Wrong("must be a string")
    return value


def strings(value: Any) -> tuple[str, ...]:
    """A list of strings."""
    if not isinstance(value, list):
        raise Wrong("must be a list of strings")
    return tuple(string(item) for item in value)


def subset(value: Any, known: Iterable[str]) -> tuple[str, ...]:
    """A list of some of ``known``."""
    listed = strings(value)
    for item in listed:
        if item not in known:
            raise Wrong(f"may hold {', '.join(known)}")
    return listed


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Wrong("must be true or false")
    return value


def hostlist(value: Any) -> tuple[str, ...]:
    """A hostlist expression."""
    try:
        return expand(string(value))
    except BadHostlist as error:
        raise Wrong(f"is no hostlist: {error}") from None


def seconds(value: Any) -> float:
    """A time that a person would wait."""
    rule = limits.Real(0.0, 86_400.0, open=True)
    if not rule.holds(value):
        raise Wrong(rule.message + " seconds")
    return float(value)


def layout(value: Any) -> Layout:
    """A layout of workers."""
    if not isinstance(value, Mapping):
        raise Wrong("must be an object such as {tp: 8, pp: 2}")
    try:
        return read_layout(value)
    except LayoutError as error:
        raise Wrong(str(error)) from None


def whole(rule: limits.Whole) -> Check:
    """Reads an integer within ``rule``."""

    def read(value: Any) -> int:
        if not rule.holds(value):
            raise Wrong(rule.message)
        return int(value)

    return read


def real(rule: limits.Real) -> Check:
    """Reads a number within ``rule``."""

    def read(value: Any) -> float:
        if not rule.holds(value):
            raise Wrong(rule.message)
        return float(value)

    return read


def choice(known: Iterable[str]) -> Check:
    """Reads one of ``known``."""
    words = tuple(known)

    def read(value: Any) -> str:
        if value not in words:
            raise Wrong(f"must be one of {', '.join(words)}")
        return str(value)

    return read
