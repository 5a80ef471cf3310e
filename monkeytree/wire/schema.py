"""Schemas of documents and of their parts, and how their offences are gathered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as fields_of
from functools import cache
from typing import Any, ClassVar, NoReturn, cast

from marshmallow import EXCLUDE, RAISE, Schema, ValidationError, fields, missing

from monkeytree.errors import InvalidDocument, Offence
from monkeytree.offence_log import MOST_LISTED, OffenceLog, Path, cut_short, pointer_to, show

from .fields import MESSAGES, OnePass, Read, read_all, refuse

RESERVED = frozenset({"overlays", "planes"})
UNKNOWN = "is not a known member; remove it"
UNSUPPORTED = "is reserved and not supported by this release; remove it"
NOT_AN_OBJECT = "must be an object"


def default_of(model: type, member: str) -> Any:
    """The default of ``member`` of the dataclass ``model``, ``missing`` where it has none."""
    for field in fields_of(model) if is_dataclass(model) else ():
        if field.name == member:
            if field.default_factory is not MISSING:
                return field.default_factory()
            return missing if field.default is MISSING else field.default
    return missing


class PartSchema(Schema):
    """An object inside a document, read in one pass into ``model``."""

    model: ClassVar[type]
    placeholders: ClassVar[Mapping[str, Any]] = {}
    """Harmless values for members that were missing or wrong, so that the rest can be checked."""
    error_messages = {"unknown": UNKNOWN, "type": NOT_AN_OBJECT}  # noqa: RUF012

    class Meta:
        unknown = RAISE

    @classmethod
    def make(cls, values: dict[str, Any], log: OffenceLog, at: Path) -> Any:
        """The model object of ``values``; placeholders are filled in already."""
        return cls.model(**values)

    @classmethod
    def read(cls, raw: Any, log: OffenceLog, at: Path) -> Any:
        """The model object of ``raw``, whatever its state; offences are logged.

        None where ``log`` lists no more: what is wrong is only counted then, and nothing is made of it.
        """
        readers, required, tolerant = _compiled(cls)
        if not isinstance(raw, Mapping):
            log.add(at, NOT_AN_OBJECT, raw)
            return None if log.more else cls.make(dict(cls.placeholders), log, at)
        noted = len(log)
        values = {}
        for key, value in raw.items():
            known = readers.get(key)
            if known is not None:
                attribute, read = known
                got = read(value, log, (*at, key))
                if got is not missing:
                    values[attribute] = got
            elif not tolerant:
                _refuse_unknown(key, value, log, at)
        if not required <= raw.keys():
            for key in sorted(required - raw.keys()):
                log.add((*at, key), MESSAGES["required"])
        if log.more:
            return None
        if len(log) != noted:
            values = {**cls.placeholders, **values}
        return cls.make(values, log, at)


def _refuse_unknown(key: Any, value: Any, log: OffenceLog, at: Path) -> None:
    if key in RESERVED:
        log.add((*at, str(key)), UNSUPPORTED, value, "unsupported_member")
    else:
        log.add((*at, str(key)), UNKNOWN, value)


@cache
def _compiled(schema: type[PartSchema]) -> tuple[dict[str, tuple[str, Read]], frozenset[str], bool]:
    """Readers by member, members that must be there, and whether unknown ones are passed over."""
    declared = schema().fields
    readers: dict[str, tuple[str, Read]] = {}
    required: set[str] = set()
    for name, field in declared.items():
        member = field.data_key or name
        attribute = field.attribute or name
        readers[member] = (attribute, cast(Any, field).reader())
        if field.required and default_of(schema.model, attribute) is missing:
            required.add(member)
    return readers, frozenset(required), schema.Meta.unknown == EXCLUDE


class Part(OnePass, fields.Nested):
    """An object of the schema ``nested``."""

    def __init__(self, nested: type[PartSchema], **kwargs: Any) -> None:
        super().__init__(nested, **kwargs)
        self.read_part = nested.read

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        return self.read_part(value, log, at)


class Rows(OnePass, fields.List[Any]):
    """An array of objects of the schema ``nested``, read without a marshmallow call per item."""

    def __init__(self, nested: type[PartSchema], **kwargs: Any) -> None:
        super().__init__(fields.Nested(nested), **kwargs)
        self.read_part = nested.read

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if not isinstance(value, list | tuple):
            return refuse(log, at, "must be an array", value)
        most = self.metadata.get("maxItems")
        if most is not None and len(value) > most:
            return refuse(log, at, f"must have at most {most:,} items", value)
        return read_all(self.read_part, value, log, at)


class DocumentSchema(Schema):
    """A whole document: a failed load raises what ``refusal`` makes, never marshmallow's own error.

    Offences of all members come together, each by its JSON pointer and value. A service may derive
    schemas of its own request bodies from it.
    """

    error_messages = {"unknown": UNKNOWN, "type": NOT_AN_OBJECT}  # noqa: RUF012

    class Meta:
        unknown = RAISE

    @staticmethod
    def refusal(offences: Sequence[Offence]) -> InvalidDocument:
        """The error that carries ``offences``."""
        return InvalidDocument(offences)

    _left_out = 0
    """Unknown members of what is being loaded that are counted, and looked at no further."""

    def load(self, data: Any, **more: Any) -> Any:
        """As marshmallow's; of very many unknown members the first are listed, the rest are counted."""
        if isinstance(data, Mapping) and self.unknown == RAISE and len(data) > MOST_LISTED:
            data, self._left_out = self._without_excess(data)
        return super().load(data, **more)

    def _without_excess(self, data: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        known = {field.data_key or name for name, field in self.fields.items()} | RESERVED
        kept = {name: data[name] for name in known & data.keys()}
        for name in data:
            if len(kept) > MOST_LISTED + len(known):
                break
            kept[name] = data[name]
        return kept, len(data) - len(kept)

    def handle_error(self, error: ValidationError, data: Any, **_: Any) -> NoReturn:
        raise self.refusal(self.offences_of(error, data)) from None

    def offences_of(self, error: ValidationError, data: Any) -> list[Offence]:
        """All offences of a failed load of ``data``."""
        listed, more = flatten(error.messages, data)
        return cut_short(listed, more + self._left_out)


def flatten(messages: Any, data: Any) -> tuple[list[Offence], int]:
    """marshmallow's tree of messages as offences, and the number of those only counted.

    At most :data:`~monkeytree.offence_log.MOST_LISTED` are made, and those of every OffenceLog.
    """
    listed: list[Offence] = []
    more = 0
    for path, leaf in _leaves(messages, ()):
        if len(listed) >= MOST_LISTED:
            more += len(leaf) if isinstance(leaf, OffenceLog) else 1
        elif isinstance(leaf, OffenceLog):
            more += leaf.more
            listed += [
                Offence(pointer_to(path) + found.pointer, found.message, found.value, found.code)
                for found in leaf.listed
            ]
        else:
            listed.append(_offence(path, str(leaf), data))
    return listed, more


def _leaves(messages: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(messages, Mapping):
        for key in sorted(messages, key=str):
            whole = key == "_schema" and UNKNOWN not in messages[key]
            yield from _leaves(messages[key], path if whole else (*path, _step(key)))
    elif isinstance(messages, list):
        for leaf in messages:
            yield from _leaves(leaf, path)
    else:
        yield path, messages


def _step(key: Any) -> str | int:
    return key if isinstance(key, int) else str(key)


def _offence(path: Path, message: str, data: Any) -> Offence:
    if message == UNKNOWN and path[-1] in RESERVED:
        return Offence(pointer_to(path), UNSUPPORTED, show(_value_at(path, data)), "unsupported_member")
    return Offence(pointer_to(path), message, show(_value_at(path, data)))


def _value_at(path: Iterable[str | int], data: Any) -> Any:
    for step in path:
        if isinstance(data, Mapping):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data
