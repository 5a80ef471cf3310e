"""marshmallow fields that read in one pass and note every offence by its place.

A field is declared once. marshmallow loads it, apispec describes it (its metadata is JSON Schema),
and :meth:`OnePass.read` reads it inside the big arrays without a marshmallow call per item, which is
what makes a snapshot of 65,536 workers load in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from marshmallow import ValidationError, fields, missing

from monkeytree.limits import (
    LABEL_MESSAGE,
    MAX_LABEL,
    MAX_NAME,
    NAME_MESSAGE,
    NAME_PATTERN,
    Real,
    Whole,
    is_name,
    is_text,
)
from monkeytree.offence_log import MOST_COUNTED, OffenceLog, Path
from monkeytree.offences import TIME_MESSAGE, TIME_PATTERN, is_utc_time

Read = Callable[[Any, OffenceLog, Path], Any]

MESSAGES: Final = {"required": "is missing", "null": "must not be null"}
_AT_ONCE: Final = 4_096
NAME_SCHEMA: Final = {"type": "string", "minLength": 1, "maxLength": MAX_NAME, "pattern": NAME_PATTERN}


class OnePass:
    """Mixin, before a marshmallow field: reads a value from plain JSON data.

    Documents go out as they are: serialising hands the value through.
    """

    default_error_messages: Any = MESSAGES
    json_schema: Mapping[str, Any] = {}
    """What :func:`~monkeytree.wire.openapi.describe` adds to apispec's own description."""
    variants: Sequence[fields.Field[Any]] = ()
    """Alternatives the value may take, for the same reader."""

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        """The value as the model holds it; on an offence, which is logged, ``missing``."""
        raise NotImplementedError

    def reader(self) -> Read:
        """:meth:`read`, letting null through where the field allows it."""
        if not getattr(self, "allow_none", False):
            return self.read
        read = self.read
        return lambda value, log, at: None if value is None else read(value, log, at)

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Any:
        log = OffenceLog()
        result = self.read(value, log, ())
        if log.listed:
            raise ValidationError([log], valid_data=result)
        return result

    def _serialize(self, *args: Any, **_: Any) -> Any:
        return args[0]


def refuse(log: OffenceLog, at: Path, message: str, value: Any) -> Any:
    """Log an offence; returns ``missing``, for readers to hand back."""
    log.add(at, message, value)
    return missing


def read_all(read: Read, items: Sequence[Any], log: OffenceLog, at: Path) -> tuple[Any, ...]:
    """What ``read`` makes of each of ``items``; it stops where ``log`` holds too many offences already."""
    found: list[Any] = []
    for start in range(0, len(items), _AT_ONCE):
        if log.more >= MOST_COUNTED:
            break
        part = items[start : start + _AT_ONCE]
        found += [read(item, log, (*at, index)) for index, item in enumerate(part, start)]
    return tuple(found)


def as_int(value: Any) -> Any:
    """2.0 as 2, as JSON does not tell them apart; anything else as it is."""
    return int(value) if type(value) is float and value.is_integer() else value


class Name(OnePass, fields.String):
    """An id: 1 to 128 characters, none of them a control character; ``empty`` allows ""."""

    def __init__(
        self, *, empty: bool = False, metadata: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        schema = {"maxLength": MAX_NAME, "pattern": NAME_PATTERN.replace("+$", "*$" if empty else "+$")}
        least = {} if empty else {"minLength": 1}
        super().__init__(metadata={**least, **schema, **(metadata or {})}, **kwargs)
        self.empty = empty

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if is_name(value) or (self.empty and value == ""):
            return value
        return refuse(log, at, NAME_MESSAGE, value)


class Instant(OnePass, fields.String):
    """A UTC time in ISO 8601."""

    def __init__(self, *, metadata: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        schema = {"format": "date-time", "pattern": TIME_PATTERN, "examples": ["2026-11-29T18:00:00Z"]}
        super().__init__(metadata={**schema, **(metadata or {})}, **kwargs)

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        return value if is_utc_time(value) else refuse(log, at, TIME_MESSAGE, value)


class Count(OnePass, fields.Integer):
    """An integer within the bounds of ``rule``; 2.0 is 2, true is not 1."""

    def __init__(self, rule: Whole, *, metadata: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        bounds = {"minimum": rule.low, "maximum": rule.high}
        super().__init__(metadata={**bounds, **(metadata or {})}, **kwargs)
        self.rule = rule

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        number = as_int(value)
        return number if self.rule.holds(number) else refuse(log, at, self.rule.message, value)


class Format(OnePass, fields.Integer):
    """The format of a document; there is one so far."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(metadata={"enum": [1], "description": "Format of the document."}, **kwargs)

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if type(value) is not bool and as_int(value) == 1:
            return 1
        return refuse(log, at, "must be 1, the format this release reads", value)


class Amount(OnePass, fields.Float):
    """A finite number within the bounds of ``rule``."""

    def __init__(self, rule: Real, *, metadata: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        bounds = {"exclusiveMinimum" if rule.open else "minimum": rule.low, "maximum": rule.high}
        super().__init__(metadata={**bounds, **(metadata or {})}, **kwargs)
        self.rule = rule

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        return float(value) if self.rule.holds(value) else refuse(log, at, self.rule.message, value)


class Flag(OnePass, fields.Boolean):
    """true or false, nothing else."""

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        return value if isinstance(value, bool) else refuse(log, at, "must be true or false", value)


class Choice(OnePass, fields.String):
    """One of a few words."""

    def __init__(
        self, options: tuple[str, ...], *, metadata: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(metadata=metadata, **kwargs)
        self.metadata = {"enum": [*options, *([None] if self.allow_none else [])], **self.metadata}
        self.options = options

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if isinstance(value, str) and value in self.options:
            return value
        return refuse(log, at, f"must be one of {', '.join(self.options)}", value)


class Labels(OnePass, fields.Dict):
    """String to string, handed through."""

    json_schema: Mapping[str, Any] = {"propertyNames": NAME_SCHEMA}

    def __init__(self, **kwargs: Any) -> None:
        text = fields.String(metadata={"maxLength": MAX_LABEL})
        description = "Free string-to-string pairs, handed through."
        super().__init__(values=text, metadata={"description": description}, **kwargs)

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if not isinstance(value, Mapping):
            return refuse(log, at, "must be an object of strings", value)
        for key, text in value.items():
            if not is_name(key):
                log.add((*at, str(key)), f"its name {NAME_MESSAGE}", key)
            elif not is_text(text):
                log.add((*at, key), LABEL_MESSAGE, text)
        return dict(value)


class Listing(OnePass, fields.List[Any]):
    """An array of small values, each read by the field ``inner``."""

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        """A tuple, or ``missing`` where any item is wrong."""
        if not isinstance(value, list | tuple):
            return refuse(log, at, "must be an array", value)
        noted = len(log)
        read = self.inner.read  # type: ignore[attr-defined]
        items = read_all(read, value, log, at)
        return items if len(log) == noted else missing


class Ranks(OnePass, fields.List[Any]):
    """An array of integers, checked at C speed; wrong ones are looked for only where there are any."""

    def __init__(self, rule: Whole, **kwargs: Any) -> None:
        super().__init__(Count(rule), **kwargs)
        self.rule = rule

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        """A tuple, or ``missing`` where any item is wrong."""
        if not isinstance(value, list | tuple):
            return refuse(log, at, "must be an array of integers", value)
        low, high = self.rule.low, self.rule.high
        if not value or (set(map(type, value)) == {int} and low <= min(value) and max(value) <= high):
            return tuple(value)
        noted = len(log)
        items = tuple([as_int(item) for item in value])
        for index, item in enumerate(items):
            if not self.rule.holds(item):
                log.add((*at, index), self.rule.message, item)
        return items if len(log) == noted else missing


class Either(OnePass, fields.Raw):
    """One of several forms of the same value; subclasses read it."""

    def __init__(self, *variants: fields.Field[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.variants = variants
