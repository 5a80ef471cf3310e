"""What the calls of executions, agents and reservations take and answer."""

from __future__ import annotations

from typing import Any, get_args

from marshmallow import Schema, fields, validate

from monkeytree.adapters.agents_url import MAX_URL
from monkeytree.adapters.executions_rows import ExecutionState, OnFailure, StepKind, StepState
from monkeytree.limits import MAX_NAME, SEQUENCE, Whole
from monkeytree.offence_log import OffenceLog, Path
from monkeytree.wire.agent_schemas import MAX_CAPABILITIES
from monkeytree.wire.fields import Choice, Count, Flag, Name, OnePass, refuse
from monkeytree.wire.free import FreeJson
from monkeytree.wire.schema import DocumentSchema

from .schemas import SHA256, InvalidRequest, ListQuery, PageSchema, QuerySchema, WorkSummarySchema

EXECUTION_STATES = list(get_args(ExecutionState))
EPOCH = Whole(0, 2**63 - 1)


class Url(OnePass, fields.String):
    """Text that may be the URL of an agent."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(metadata={"maxLength": MAX_URL, "examples": ["http://10.0.0.7:7946"]}, **kwargs)

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if isinstance(value, str) and 0 < len(value) <= MAX_URL:
            return value
        return refuse(log, at, f"must be a string of 1 to {MAX_URL} characters", value)


class ExecutionRequestSchema(DocumentSchema):
    """A ready plan, to be carried out by agents."""

    refusal = InvalidRequest

    plan_id = Name(required=True, metadata={"description": "A ready plan."})
    expected_sequence = Count(
        SEQUENCE,
        allow_none=True,
        metadata={"description": "Of the newest snapshot of the cluster; refused when it is another one."},
    )
    dry_run = Flag(metadata={"description": "Only tell what would be called.", "default": False})
    on_failure = Choice(
        get_args(OnFailure),
        metadata={"description": "What to do when a move fails: end, or go on.", "default": "stop"},
    )


class AnnouncementSchema(DocumentSchema):
    """An agent announces itself, and beats."""

    refusal = InvalidRequest

    cluster = Name(
        metadata={"description": "May be left out where the token is bound to one, or one has the node."}
    )
    node = Name(required=True, metadata={"description": "As snapshots name it."})
    url = Url(required=True)
    epoch = Count(EPOCH, required=True, metadata={"description": "Grows at each start of the agent."})
    capabilities = FreeJson(
        members=MAX_CAPABILITIES, metadata={"description": "What it tells of itself, handed through."}
    )


class StepSchema(Schema):
    """A move, the new ring order of a group without one, or the table of source ports of node `from`."""

    number = fields.Integer(required=True)
    kind = fields.String(required=True, metadata={"enum": list(get_args(StepKind))})
    job = fields.String(required=True)
    group = fields.String(required=True)
    rank = fields.Integer(required=True, allow_none=True)
    source = fields.String(required=True, allow_none=True, data_key="from")
    target = fields.String(required=True, allow_none=True, data_key="to")
    wave = fields.Integer(required=True)
    staged = fields.Boolean(required=True)
    state = fields.String(required=True, metadata={"enum": list(get_args(StepState))})
    error = fields.String(required=True, allow_none=True)
    phases = fields.Dict(
        keys=fields.String(),
        required=True,
        allow_none=True,
        metadata={"description": "What the agents measured: pause, phases of each side, bytes, seconds."},
    )
    started_at = fields.DateTime(required=True, allow_none=True)
    finished_at = fields.DateTime(required=True, allow_none=True)


class DifferenceSchema(Schema):
    """One way in which the cluster is not as expected."""

    subject = fields.String(required=True, metadata={"examples": ["worker A/0/3", "node r1n1"]})
    expected = fields.String(required=True)
    found = fields.String(required=True)


class ExecutionSummarySchema(WorkSummarySchema):
    """An execution as lists show it."""

    plan_id = fields.UUID(required=True)
    expected_sequence = fields.Integer(required=True, allow_none=True)
    on_failure = fields.String(required=True, metadata={"enum": list(get_args(OnFailure))})
    state = fields.String(required=True, validate=validate.OneOf(EXECUTION_STATES))
    stage = fields.String(required=True, metadata={"description": "What goes on, in words."})
    cancel_requested = fields.Boolean(required=True)
    waves = fields.Integer(required=True)


class ExecutionSchema(ExecutionSummarySchema):
    """An execution with its steps."""

    waves_done = fields.Integer(required=True)
    steps_done = fields.Integer(required=True)
    steps = fields.List(fields.Nested(StepSchema), required=True)
    difference = fields.List(
        fields.Nested(DifferenceSchema),
        required=True,
        metadata={"description": "What stopped it, where that was a change of the cluster."},
    )
    oversubscribed = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "Nodes that hold more than their slots at its end."},
    )


class RefusalSchema(Schema):
    """A reason why it would not be carried out."""

    code = fields.String(required=True)
    detail = fields.String(required=True)


class AgentCallSchema(Schema):
    """A call that would be made to an agent."""

    wave = fields.Integer(required=True)
    round = fields.Integer(required=True)
    stage = fields.String(required=True)
    step = fields.Integer(required=True)
    node = fields.String(required=True)
    method = fields.String(required=True, metadata={"enum": ["GET", "PUT", "POST"]})
    url = fields.String(
        required=True, allow_none=True, metadata={"description": "Null where no agent is known."}
    )
    body = fields.Dict(keys=fields.String(), required=True, allow_none=True)
    until = fields.String(
        required=True, allow_none=True, metadata={"description": "State that is waited for by GET."}
    )


class DryRunSchema(Schema):
    """What an execution would do."""

    dry_run = fields.Boolean(required=True, metadata={"enum": [True]})
    plan_id = fields.UUID(required=True)
    snapshot_id = fields.String(required=True, metadata={"pattern": SHA256})
    cluster = fields.String(required=True)
    refusals = fields.List(fields.Nested(RefusalSchema), required=True)
    calls = fields.List(fields.Nested(AgentCallSchema), required=True)


class ExecutionPageSchema(PageSchema):
    """A page of executions, newest first."""

    items = fields.List(fields.Nested(ExecutionSummarySchema), required=True)


class ExecutionListQuery(ListQuery):
    """What the list of executions takes."""

    state = fields.String(validate=validate.OneOf(EXECUTION_STATES))
    plan_id = fields.UUID(metadata={"description": "Only those of this plan."})


class ClusterQuery(QuerySchema):
    """Which cluster to tell of."""

    cluster = fields.String(
        validate=validate.Length(min=1, max=MAX_NAME), metadata={"description": "Only this one."}
    )


class AgentSchema(Schema):
    """An agent."""

    cluster = fields.String(required=True)
    node = fields.String(required=True)
    url = fields.String(required=True)
    epoch = fields.Integer(required=True)
    capabilities = fields.Dict(keys=fields.String(), required=True)
    announced_at = fields.DateTime(required=True)
    beat_at = fields.DateTime(required=True)
    alive = fields.Boolean(required=True, metadata={"description": "Whether it beat of late."})


class AgentsSchema(Schema):
    """Agents, by cluster and node."""

    items = fields.List(fields.Nested(AgentSchema), required=True)


class ReservationSchema(Schema):
    """Slots promised to an execution until it ends."""

    execution_id = fields.UUID(required=True)
    cluster = fields.String(required=True)
    node = fields.String(required=True)
    slots = fields.Integer(required=True)
    job = fields.String(required=True)
    group = fields.String(required=True)
    rank = fields.Integer(required=True)
    filled = fields.Boolean(required=True, metadata={"description": "Whether the worker has arrived."})


class ReservationsSchema(Schema):
    """Reservations, by execution and step."""

    items = fields.List(fields.Nested(ReservationSchema), required=True)
