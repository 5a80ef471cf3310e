"""JSON text to plain data: strict, quick, and exact about what is wrong.

Stricter than :func:`json.loads`: UTF-8 only (RFC 8259, section 8.1), no member twice in an object, no
NaN and no infinities. One fast pass reads good text; a second, slower one looks for the places of
offences, only where there are any.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path as FilePath
from typing import IO, Any

from monkeytree.errors import InvalidDocument, Offence
from monkeytree.offence_log import OffenceLog, Path, cut_short, show

NOT_A_NUMBER = "is no JSON number"
_LONGEST_INTEGER = 4_000  # digits; Python's own conversion refuses more than 4,300
_AROUND = 20


class _Suspect(Exception):
    """The text is JSON for Python, yet holds something to look for with care."""


class _Literal(float):
    """A NaN or infinity that stood in the text as a word."""


class _Members(list[tuple[str, Any]]):
    """The members of an object as they stand in the text, duplicates included."""


def read_json(data: bytes | bytearray | str) -> tuple[Any, list[Offence]]:
    """Parse ``data``.

    Returns:
        The document, and the offences of its text (duplicate members, NaN); of a duplicate member the
        last value counts.

    Raises:
        InvalidDocument: ``data`` is no JSON text at all.
    """
    text = _decode(data)
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_suspect), []
    except _Suspect:
        return _read_with_care(text)
    except json.JSONDecodeError as error:
        raise InvalidDocument([_syntax(error)]) from None
    except RecursionError:
        raise InvalidDocument([Offence("", "is nested too deeply", f"{len(text):,} characters")]) from None
    except ValueError:  # an integer of more digits than Python converts
        return _read_with_care(text)


def merge(text: Sequence[Offence], content: Sequence[Offence]) -> list[Offence]:
    """Offences of the text and of its content; a NaN is told once."""
    words = {offence.pointer for offence in text if offence.message == NOT_A_NUMBER}
    return [*text, *(offence for offence in content if not offence.pointer or offence.pointer not in words)]


def parse_json(data: bytes | bytearray | str) -> Any:
    """The document in ``data``.

    Raises:
        InvalidDocument: it is no JSON text, has a member twice in one object, or a NaN.
    """
    document, offences = read_json(data)
    if offences:
        raise InvalidDocument(offences)
    return document


def read_source(source: str | PathLike[str] | IO[bytes] | IO[str]) -> bytes | str:
    """The content of a file, given by path or open.

    Raises:
        OSError: it cannot be read.
    """
    if isinstance(source, str | PathLike):
        return FilePath(source).read_bytes()
    return source.read()


def _decode(data: bytes | bytearray | str) -> str:
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = data[error.start : error.start + 1].hex()
        message = f"is not UTF-8: byte 0x{found} at offset {error.start:,}"
        raise InvalidDocument([Offence("", message, f"0x{found}")]) from None


def _syntax(error: json.JSONDecodeError) -> Offence:
    message = f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    return Offence("", message, show(error.doc[error.pos : error.pos + _AROUND]))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Suspect
    return members


def _suspect(_: str) -> float:
    raise _Suspect


def _integer(digits: str) -> int:
    return int(digits[:_LONGEST_INTEGER])  # cut, it is still far out of any bounds


def _read_with_care(text: str) -> tuple[Any, list[Offence]]:
    try:
        raw = json.loads(text, object_pairs_hook=_Members, parse_constant=_Literal, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise InvalidDocument([_syntax(error)]) from None
    except RecursionError:
        raise InvalidDocument([Offence("", "is nested too deeply", f"{len(text):,} characters")]) from None
    holder, log = [raw], OffenceLog()
    _walk(holder, log)
    return holder[0], cut_short(log.listed, log.more)


def _walk(holder: list[Any], log: OffenceLog) -> None:
    """Turn the members below ``holder[0]`` into dicts, in place; logs what is wrong on the way."""
    todo: list[tuple[Any, Any, Path]] = [(holder, 0, ())]
    while todo:
        parent, step, path = todo.pop()
        value = parent[step]
        if isinstance(value, _Literal):
            log.add(path, NOT_A_NUMBER, float(value))
        elif isinstance(value, _Members):
            members = parent[step] = dict[str, Any]()
            for key, member in value:
                if key in members:
                    log.add((*path, key), "stands twice in one object", member)
                members[key] = member
            todo += [(members, key, (*path, key)) for key in reversed(members)]
        elif isinstance(value, list):
            todo += [(value, index, (*path, index)) for index in reversed(range(len(value)))]
