"""The plan document, format 1 (docs/contract.md, section 2), to and from the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from os import PathLike
from typing import IO, Any, Final, cast, get_args

from marshmallow import EXCLUDE, fields, missing, post_load, pre_dump

from monkeytree.errors import InvalidDocument, InvalidPlan, Offence
from monkeytree.offence_log import OffenceLog, Path, cut_short, show
from monkeytree.plan import LimitedBy, Plan, PlanState, PlanStatus

from .fields import MESSAGES, Amount, Choice, Count, Flag, Format, Instant, Name, OnePass, refuse
from .parts import about
from .plan_dump import dump_plan
from .plan_parts import (
    INDEX,
    SECONDS,
    ConflictSchema,
    FlowSchema,
    Loads,
    LoadSchema,
    MoveSchema,
    ObjectiveSchema,
    PlacementSchema,
    PlanPart,
    PodLoadSchema,
    PredictedSchema,
    RingSchema,
    SharedUplinkSchema,
    SolverReportSchema,
    Text,
    TransientSchema,
    UndrainedSchema,
    UnguaranteedSchema,
    UnsteeredSchema,
)
from .reading import merge, read_json, read_source
from .schema import DocumentSchema, Part, Rows, default_of

__all__ = ["PlanSchema", "dump_plan", "dump_plan_in_work", "load_plan", "parse_plan"]

NULLABLE: Final = frozenset(
    {"lower_bound", "limited_by", "certificate", "conflict", "failure", "predicted", "worthwhile"}
)
"""Members that may be null in a ready plan; in others all that the solver answers is null."""
DEFAULTED: Final = tuple(f.name for f in fields_of(Plan) if default_of(Plan, f.name) is not missing)
"""Members a ready plan may lack on reading."""
_READY_ONLY: Final = (
    "status", "solver", "moves_needed", "lower_bound", "undrained", "excess", "excess_proved", "limited_by",
    "jobs_paused", "pause_s", "objective", "racks", "pods", "moves", "rings", "flows", "transients",
    "shared_uplinks", "unguaranteed", "certificate", "conflict", "predicted", "worthwhile",
    "unsteered", "placements",
)  # fmt: skip


class FailureSchema(PlanPart):
    """Why there is no plan."""

    model = dict

    code = Name(required=True, metadata=about("Stable; see docs/errors.md."))
    message = Text(65_536, required=True)


class FreeObject(OnePass, fields.Dict):
    """An object whose members are not fixed."""

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        return refuse(log, at, "must be an object", value)


class Reserved(OnePass, fields.Dict):
    """Slots by node."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(keys=fields.String(), values=fields.Integer(metadata={"minimum": 1}), **kwargs)

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if isinstance(value, Mapping) and all(type(slots) is int and slots > 0 for slots in value.values()):
            return dict(value)
        return refuse(log, at, "must be an object of node ids and integers from 1", value)


class PlanSchema(DocumentSchema):
    """A plan in any state.

    Dumps a :class:`~monkeytree.plan.Plan` or a plan's document; loads ready ones. Every member but
    ``reserved`` is always there; until the plan is ready those that the solver answers are null.
    """

    class Meta:
        unknown = EXCLUDE

    format = Format(required=True)
    id = Name(required=True)
    snapshot_id = Name(required=True)
    cluster = Name(required=True)
    created_at = Instant(required=True)
    state = Choice(get_args(PlanState), required=True)
    status = Choice(get_args(PlanStatus), required=True, allow_none=True)
    failure = Part(FailureSchema, required=True, allow_none=True)
    solver = Part(SolverReportSchema, required=True, allow_none=True)
    moves_needed = Count(INDEX, required=True, allow_none=True)
    lower_bound = Count(
        INDEX,
        required=True,
        allow_none=True,
        metadata=about("Fewest moves of any plan with this `undrained` and `excess`; null if not proved."),
    )
    undrained = Rows(UndrainedSchema, required=True, allow_none=True)
    excess = Count(
        INDEX, required=True, allow_none=True, metadata=about("Sum of f_t - bound over what is over.")
    )
    excess_proved = Flag(required=True, allow_none=True)
    limited_by = Choice(get_args(LimitedBy), required=True, allow_none=True)
    jobs_paused = Count(INDEX, required=True, allow_none=True)
    pause_s = Amount(SECONDS, required=True, allow_none=True)
    objective = Part(ObjectiveSchema, required=True, allow_none=True)
    racks = Loads(LoadSchema, required=True, allow_none=True)
    pods = Loads(PodLoadSchema, required=True, allow_none=True)
    moves = Rows(MoveSchema, required=True, allow_none=True)
    rings = Rows(RingSchema, required=True, allow_none=True)
    flows = Rows(FlowSchema, required=True, allow_none=True)
    transients = Rows(TransientSchema, required=True, allow_none=True)
    shared_uplinks = Rows(SharedUplinkSchema, required=True, allow_none=True)
    unguaranteed = Rows(UnguaranteedSchema, required=True, allow_none=True)
    certificate = FreeObject(required=True, allow_none=True)
    conflict = Part(ConflictSchema, required=True, allow_none=True)
    predicted = Part(PredictedSchema, required=True, allow_none=True)
    worthwhile = Flag(
        required=True,
        allow_none=True,
        metadata=about("Saves more than it loses, or drains a node; null where that is not predicted."),
    )
    unsteered = Rows(UnsteeredSchema, required=True, allow_none=True)
    placements = Rows(
        PlacementSchema,
        required=True,
        allow_none=True,
        metadata=about("Advice for the snapshot's `pending`, in order, each after the ones before."),
    )

    reserved = Reserved(
        metadata=about(
            "Slots by node that were promised to executions under way, and held while planning; only where "
            "there were some. `certificate` and `conflict` are null then."
        )
    )

    @staticmethod
    def refusal(offences: Sequence[Offence]) -> InvalidPlan:
        """The error that carries ``offences``."""
        return InvalidPlan(offences)

    @pre_dump
    def _document(self, value: Any, **_: Any) -> Any:
        return dump_plan(value) if isinstance(value, Plan) else value

    @post_load
    def _plan(self, values: dict[str, Any], **_: Any) -> Plan:
        empty = [name for name, value in values.items() if value is None and name not in NULLABLE]
        if empty:
            raise InvalidPlan([Offence(f"/{name}", MESSAGES["null"]) for name in empty])
        del values["format"]
        values.pop("reserved", None)  # of the document: what was solved does not tell it
        return Plan(**values)


def dump_plan_in_work(
    plan_id: str,
    snapshot_id: str,
    cluster: str,
    created_at: str,
    state: PlanState,
    failure: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The document of a plan that is not ready: what the solver will answer is null.

    Args:
        plan_id: id of the plan.
        snapshot_id: id of its snapshot.
        cluster: name of the cluster.
        created_at: UTC, ISO 8601.
        state: any but ``ready``.
        failure: code and message, where it failed.
    """
    return {
        "format": 1,
        "id": plan_id,
        "snapshot_id": snapshot_id,
        "cluster": cluster,
        "created_at": created_at,
        "state": state,
        "failure": None if failure is None else dict(failure),
        **dict.fromkeys(_READY_ONLY),
    }


def load_plan(source: str | PathLike[str] | Mapping[str, Any] | IO[bytes] | IO[str]) -> Plan:
    """Read a ready plan; members that this release does not know are passed over.

    Args:
        source: path of a JSON file, an open file, or the document as a mapping.

    Raises:
        InvalidPlan: every offence, by JSON pointer; also where the plan is not ready.
        OSError: the file cannot be read.
    """
    if isinstance(source, Mapping):
        return _load(source)
    return parse_plan(read_source(source))


def parse_plan(data: bytes | bytearray | str) -> Plan:
    """Read a ready plan from JSON text.

    Raises:
        InvalidPlan: as :func:`load_plan`.
    """
    try:
        document, offences = read_json(data)
    except InvalidDocument as error:
        raise InvalidPlan(error.offences) from None
    try:
        plan = _load(document)
    except InvalidPlan as error:
        raise InvalidPlan(cut_short(merge(offences, error.offences))) from None
    if offences:
        raise InvalidPlan(offences)
    return plan


def _load(document: Any) -> Plan:
    if isinstance(document, Mapping):
        state = document.get("state")
        if state in get_args(PlanState) and state != "ready":
            message = "is not ready: only a ready plan can be read"
            raise InvalidPlan([Offence("/state", message, show(state))])
    return cast(Plan, PlanSchema().load(document, partial=DEFAULTED))
