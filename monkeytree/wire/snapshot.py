"""The snapshot document, format 1 (docs/contract.md, section 1), to and from the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from os import PathLike
from typing import IO, Any, cast

from marshmallow import ValidationError, post_load, pre_dump

from monkeytree import limits
from monkeytree.errors import InvalidDocument, InvalidSnapshot, Offence, UnsupportedMember
from monkeytree.identity import dump_snapshot, snapshot_id
from monkeytree.offence_log import MOST_LISTED, cut_short
from monkeytree.offences import find_offences
from monkeytree.snapshot import Snapshot

from .fields import Count, Format, Instant, Labels, Name
from .parts import FabricSchema, JobSchema, PendingSchema, PlanningSchema, PodSchema, RackSchema, about
from .reading import merge, read_json, read_source
from .schema import DocumentSchema, Part, Rows, default_of

__all__ = [
    "PlanningSchema",
    "SnapshotSchema",
    "dump_snapshot",
    "load_snapshot",
    "parse_snapshot",
    "snapshot_id",
]

_HIDES_NODES = re.compile(r"/racks(/\d+(/nodes)?)?")
_SLOTS = re.compile(r"/racks/(?P<rack>\d+)/nodes/(?P<node>[^/]*)/slots")
_HIDES_PODS = re.compile(r"/pods(/\d+(/id)?)?")
_STAND_INS: Mapping[str, Any] = {"cluster": "-", "taken_at": "1970-01-01T00:00:00Z", "racks": (), "jobs": ()}


class SnapshotSchema(DocumentSchema):
    """A placement at one instant; loads to a :class:`~monkeytree.snapshot.Snapshot`.

    Raises:
        InvalidSnapshot: on load, with every offence; UnsupportedMember where all are reserved members.
    """

    format = Format(required=True)
    cluster = Name(required=True, metadata=about("The cluster's name.", examples=["prod-east"]))
    taken_at = Instant(required=True, metadata=about("When the placement stood so, UTC."))
    sequence = Count(
        limits.SEQUENCE, allow_none=True, metadata=about("Grows with each snapshot of a cluster.")
    )
    labels = Labels()
    fabric = Part(FabricSchema)
    racks = Rows(RackSchema, required=True, metadata={"minItems": 1, "maxItems": limits.MAX_RACKS})
    pods = Rows(PodSchema, metadata={"maxItems": limits.MAX_PODS})
    jobs = Rows(JobSchema, required=True, metadata={"maxItems": limits.MAX_JOBS})
    pending = Rows(
        PendingSchema,
        metadata={"maxItems": limits.MAX_PENDING, "description": "Jobs that wait for nodes, in order."},
    )
    planning = Part(PlanningSchema)

    @staticmethod
    def refusal(offences: Sequence[Offence]) -> InvalidSnapshot:
        """The error that carries ``offences``."""
        unsupported = all(offence.code == "unsupported_member" for offence in offences)
        return (UnsupportedMember if unsupported else InvalidSnapshot)(offences)

    @pre_dump
    def _document(self, value: Any, **_: Any) -> Any:
        return dump_snapshot(value) if isinstance(value, Snapshot) else value

    @post_load(pass_original=True)
    def _snapshot(self, values: dict[str, Any], raw: Mapping[str, Any], **_: Any) -> Snapshot:
        del values["format"]
        try:
            return Snapshot(**values)
        except InvalidSnapshot as error:
            raise self.refusal(_fit(error.offences, raw)) from None

    def offences_of(self, error: ValidationError, data: Any) -> list[Offence]:
        """Offences of shape, and those of meaning that can be told in spite of them."""
        shape = super().offences_of(error, data)
        if len(shape) > MOST_LISTED or not isinstance(data, Mapping):
            return shape
        return cut_short([*shape, *_meaning(cast(dict[str, Any], error.valid_data), data, shape)])


def _meaning(values: dict[str, Any], raw: Mapping[str, Any], shape: Sequence[Offence]) -> list[Offence]:
    """What is wrong with the parts that could be read, less what only follows from ``shape``."""
    values.pop("format", None)
    snapshot = object.__new__(Snapshot)  # not checked on construction: it is checked here
    defaults = {field.name: default_of(Snapshot, field.name) for field in fields_of(Snapshot)}
    snapshot.__dict__.update({**defaults, **_STAND_INS, **values})
    wrong = {offence.pointer for offence in shape}
    found = find_offences(
        snapshot,
        nodes_known=not any(map(_HIDES_NODES.fullmatch, wrong)),
        pods_known=not any(map(_HIDES_PODS.fullmatch, wrong)),
    )
    return [offence for offence in _fit(found, raw) if not _covered(offence.pointer, wrong)]


def _covered(pointer: str, wrong: set[str]) -> bool:
    """Whether ``pointer`` or a part that it lies in is among ``wrong``."""
    if not pointer:
        return False  # only the count of unlisted offences stands there
    while pointer not in wrong:
        if not pointer:
            return False
        pointer = pointer.rpartition("/")[0]
    return True


def _fit(offences: Sequence[Offence], raw: Mapping[str, Any]) -> list[Offence]:
    """Pointers into the long form of nodes turned into pointers into ``raw``."""
    return [replace(offence, pointer=_fit_pointer(offence.pointer, raw)) for offence in offences]


def _fit_pointer(pointer: str, raw: Mapping[str, Any]) -> str:
    match = _SLOTS.fullmatch(pointer)
    if match is None:
        return pointer
    name = match["node"].replace("~1", "/").replace("~0", "~")
    form = raw["racks"][int(match["rack"])]["nodes"].get(name)
    return pointer if isinstance(form, Mapping) else pointer.removesuffix("/slots")


def load_snapshot(source: str | PathLike[str] | Mapping[str, Any] | IO[bytes] | IO[str]) -> Snapshot:
    """Read a snapshot.

    Args:
        source: path of a JSON file, an open file, or the document as a mapping.

    Raises:
        InvalidSnapshot: every offence, by JSON pointer; UnsupportedMember where all are reserved
            members.
        OSError: the file cannot be read.
    """
    if isinstance(source, Mapping):
        return cast(Snapshot, SnapshotSchema().load(source))
    return parse_snapshot(read_source(source))


def parse_snapshot(data: bytes | bytearray | str) -> Snapshot:
    """Read a snapshot from JSON text.

    Raises:
        InvalidSnapshot: every offence of text, shape and meaning, by JSON pointer.
    """
    try:
        document, offences = read_json(data)
    except InvalidDocument as error:
        raise InvalidSnapshot(error.offences) from None
    try:
        snapshot = cast(Snapshot, SnapshotSchema().load(document))
    except InvalidSnapshot as error:
        raise SnapshotSchema.refusal(merge(offences, error.offences)) from None
    if offences:
        raise InvalidSnapshot(offences)
    return snapshot
