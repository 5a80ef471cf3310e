"""JSON objects whose members are not fixed: handed through, yet bounded.

What is handed through is stored, and written again by others. So it may hold only what every writer and
reader of JSON takes (RFC 8259, sections 4, 6 and 9): no deep nesting, no integer of more than 64 bits, no
infinity (``1e400`` reads as one), no lone surrogate; and it may not be large.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from marshmallow import fields, missing

from monkeytree.errors import InvalidDocument
from monkeytree.limits import Real, Whole, is_text
from monkeytree.offence_log import OffenceLog, Path, cut_short

from .fields import OnePass, refuse
from .reading import parse_json

#: Objects and arrays within one another, the outermost counted.
DEEPEST: Final = 32
#: The range of integers that orjson, and any reader with 64-bit integers, takes.
INTEGER: Final = Whole(-(2**63), 2**64 - 1)
#: Bytes of an object written as compact JSON in UTF-8, where the field says no other number.
MOST_BYTES: Final = 65_536
FIGURE: Final = Real(-1e300, 1e300)
NO_TEXT: Final = "must hold no lone surrogate (no UTF-8 can carry it)"


class FreeJson(OnePass, fields.Dict):
    """A JSON object handed through, of bounded depth, size and numbers.

    Args:
        most_bytes: of the object as compact JSON in UTF-8.
        members: at most so many at the top; None: any number that fits.
    """

    def __init__(
        self,
        most_bytes: int = MOST_BYTES,
        members: int | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        bounds = {} if members is None else {"maxProperties": members}
        said = {"description": "Handed through.", **(metadata or {})}
        rule = f"At most {most_bytes:,} bytes of JSON, {DEEPEST} levels deep, integers of 64 bits."
        super().__init__(
            metadata={**bounds, **said, "description": f"{said['description']} {rule}"}, **kwargs
        )
        self.most_bytes = most_bytes
        self.members = members

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if not isinstance(value, Mapping):
            return refuse(log, at, "must be an object", value)
        if self.members is not None and len(value) > self.members:
            return refuse(log, at, f"must be an object of at most {self.members} members", value)
        noted = len(log)
        found = dict(value)
        walk = _Walk(log, self.most_bytes)
        walk.look(found, at, 1)
        if walk.left < 0 or (len(log) == noted and _bytes(found) > self.most_bytes):
            return refuse(log, at, f"must be at most {self.most_bytes:,} bytes of JSON", value)
        return found if len(log) == noted else missing


class Fault(FreeJson):
    """Why an agent gave something up: `code` and `message` are strings."""

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        found = super().read(value, log, at)
        if found is missing:
            return found
        wrong = [name for name in ("code", "message") if not isinstance(found.get(name, ""), str)]
        for name in wrong:
            log.add((*at, name), "must be a string", found[name])
        return missing if wrong else found


class Figures(FreeJson):
    """Measures by name."""

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        found = super().read(value, log, at)
        if found is missing:
            return found
        wrong = [name for name, figure in found.items() if not FIGURE.holds(figure)]
        for name in wrong:
            log.add((*at, name), "must be a finite number", found[name])
        return missing if wrong else found


def read_free(data: bytes, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The bounded object in the JSON text ``data``.

    Raises:
        InvalidDocument: with every offence, by JSON pointer.
    """
    log = OffenceLog()
    found = FreeJson(most_bytes).read(parse_json(data), log, ())
    if log.listed:
        raise InvalidDocument(cut_short(log.listed, log.more))
    members: dict[str, Any] = found
    return members


class _Walk:
    """Looks at all values once; ends as soon as they cannot fit any more."""

    def __init__(self, log: OffenceLog, most_bytes: int) -> None:
        self.log = log
        self.left = most_bytes
        """Bytes that the values seen so far have left, counting no escapes."""

    def look(self, value: Any, at: Path, depth: int) -> None:
        if value is None or isinstance(value, bool):
            self.left -= 4
        elif isinstance(value, str):
            self.left -= len(value) + 2
            if not is_text(value, len(value)):
                self.log.add(at, NO_TEXT, value)
        elif isinstance(value, int):
            self.left -= 1
            self.log.check(INTEGER, value, *at)
        elif isinstance(value, float):
            self.left -= 3
            if not isfinite(value):
                self.log.add(at, "must be a finite number", value)
        elif isinstance(value, dict | list | tuple):
            self.left -= 2
            if depth > DEEPEST:
                self.log.add(at, f"must be nested at most {DEEPEST} levels deep", value)
            else:
                self._look_inside(value, at, depth + 1)
        else:
            self.log.add(at, "must be JSON", value)

    def _look_inside(self, value: Any, at: Path, depth: int) -> None:
        if not isinstance(value, dict):
            for index, item in enumerate(value):
                if self.left < 0:
                    return
                self.left -= 1
                self.look(item, (*at, index), depth)
            return
        for key, member in value.items():
            if self.left < 0:
                return
            if not is_text(key, len(str(key))):
                self.log.add((*at, str(key)), f"its name {NO_TEXT}", key)
                continue
            self.left -= len(key) + 4
            self.look(member, (*at, key), depth)


def _bytes(value: dict[str, Any]) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
