"""What the calls take and answer, beside the snapshot and plan documents of monkeytree.wire."""

from __future__ import annotations

import re
from typing import Any, get_args

from marshmallow import RAISE, Schema, ValidationError, fields, validate

from monkeytree import limits
from monkeytree.adapters.documents import parse_utc
from monkeytree.errors import InvalidDocument
from monkeytree.plan import PlanState, PlanStatus
from monkeytree.wire.fields import Name
from monkeytree.wire.schema import DocumentSchema, Part
from monkeytree.wire.snapshot import PlanningSchema

from .cursors import MOST_CHARACTERS

MOST_ITEMS = 200
MOST_SECONDS = 999_999_999
STATES = list(get_args(PlanState))
STATUSES = list(get_args(PlanStatus))
SHA256 = "^[0-9a-f]{64}$"


class InvalidRequest(InvalidDocument):
    """A request's own document was refused."""

    code = "invalid_request"
    noun = "request"


class WholeNumber(fields.Integer):
    """An integer written in plain digits."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        if not re.fullmatch(r"-?[0-9]{1,18}", str(value), re.ASCII):
            raise ValidationError("must be a whole number of at most 18 digits")
        return int(value)


class Seconds(fields.Float):
    """A number of seconds, 0 to 999,999,999, written in plain digits."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        written = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?", str(value), re.ASCII)
        if not written or float(value) > MOST_SECONDS:
            raise ValidationError(f"must be a number of seconds from 0 to {MOST_SECONDS:,}, like 0.5")
        return float(value)


class UtcTime(fields.DateTime):
    """An RFC 3339 time, loaded as seconds since the epoch."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return parse_utc(str(value))
        except ValueError as error:
            raise ValidationError(str(error)) from None


class QuerySchema(Schema):
    """Base of query parameters: unknown ones are refused."""

    error_messages = {"unknown": "is no parameter of this call; see /docs for those it takes"}  # noqa: RUF012

    class Meta:
        unknown = RAISE


def _printable(name: str) -> None:
    if not limits.is_name(name):
        raise ValidationError("must hold no control characters")


class WaitQuery(QuerySchema):
    """How long the caller would wait."""

    wait = Seconds(
        load_default=0.0,
        metadata={"minimum": 0, "maximum": MOST_SECONDS, "description": "Seconds to wait while the plan is "
                  "queued or solving; cut to the service's own limit (30 by default)."},
    )  # fmt: skip


class ListQuery(QuerySchema):
    """What every list takes."""

    cluster = fields.String(
        validate=[validate.Length(min=1, max=limits.MAX_NAME), _printable],
        metadata={"description": "Only this one."},
    )
    since = UtcTime(metadata={"description": "Only from this time on."})
    until = UtcTime(metadata={"description": "Only before this time."})
    cursor = fields.String(
        validate=validate.Length(min=1, max=MOST_CHARACTERS),
        metadata={"description": "`next` of the page before."},
    )
    limit = WholeNumber(
        load_default=50,
        validate=validate.Range(min=1, max=MOST_ITEMS),
        metadata={"description": "Most items of the page."},
    )


class PlanListQuery(ListQuery):
    """What the list of plans takes."""

    state = fields.String(validate=validate.OneOf(STATES))
    status = fields.String(validate=validate.OneOf(STATUSES))
    min_moves = WholeNumber(
        validate=validate.Range(min=0, max=2**31 - 1),
        metadata={"description": "Only ready plans with at least so many moves."},
    )


class WhatIfSchema(DocumentSchema):
    """A what-if: a stored snapshot, planned with other options."""

    refusal = InvalidRequest

    snapshot_id = Name(required=True, metadata={"description": "A stored snapshot."})
    planning = Part(PlanningSchema, metadata={"description": "Left out: the snapshot's own options."})


#: Excess of each rack that is over its bound, as receipts and plans carry it.
OVER: dict[str, Any] = {
    "keys": fields.String(),
    "values": fields.Integer(metadata={"minimum": 1}),
    "required": True,
    "metadata": {"description": "Excess of each rack that is over its bound, by rack id."},
}


class ProblemErrorSchema(Schema):
    """One offence, by JSON pointer into the body or by name of the query parameter."""

    pointer = fields.String(metadata={"description": "JSON pointer (RFC 6901) into the body."})
    parameter = fields.String(metadata={"description": "Name of the query parameter."})
    detail = fields.String(required=True)
    value = fields.Raw(allow_none=True, metadata={"description": "The offending value, cut if long."})


class ProblemSchema(Schema):
    """A refusal (RFC 9457); programs switch on `code`."""

    type = fields.String(required=True, metadata={"description": "Page of the code."})
    title = fields.String(required=True)
    status = fields.Integer(required=True)
    detail = fields.String(required=True)
    code = fields.String(required=True)
    errors = fields.List(fields.Nested(ProblemErrorSchema))


class ReceiptSchema(Schema):
    """A plan is on its way."""

    snapshot_id = fields.String(required=True, metadata={"pattern": SHA256})
    plan_id = fields.UUID(required=True)
    over = fields.Dict(**OVER)


class PlanFailureSchema(Schema):
    """Why a plan failed."""

    code = fields.String(required=True)
    message = fields.String(required=True)


class WorkSummarySchema(Schema):
    """What lists show of queued work of every kind."""

    id = fields.UUID(required=True)
    snapshot_id = fields.String(required=True, metadata={"pattern": SHA256})
    cluster = fields.String(required=True)
    created_at = fields.DateTime(required=True)
    failure = fields.Nested(PlanFailureSchema, required=True, allow_none=True)
    attempt = fields.Integer(required=True, metadata={"description": "Times a worker took it."})
    started_at = fields.DateTime(required=True, allow_none=True)
    finished_at = fields.DateTime(required=True, allow_none=True)


class PlanSummarySchema(WorkSummarySchema):
    """A plan as lists show it."""

    state = fields.String(required=True, validate=validate.OneOf(STATES))
    status = fields.String(required=True, allow_none=True, metadata={"enum": [*STATUSES, None]})
    moves_needed = fields.Integer(required=True, allow_none=True)


class SnapshotSummarySchema(Schema):
    """A snapshot as lists show it; its times are those of its newest arrival."""

    id = fields.String(required=True, metadata={"pattern": SHA256})
    cluster = fields.String(required=True)
    taken_at = fields.DateTime(required=True)
    sequence = fields.Integer(required=True, allow_none=True)
    received_at = fields.DateTime(required=True)


class PageSchema(Schema):
    """Base of pages: pass `next` as `cursor` to get the one that follows."""

    next = fields.String(required=True, allow_none=True)


class PlanPageSchema(PageSchema):
    """A page of plans, newest first."""

    items = fields.List(fields.Nested(PlanSummarySchema), required=True)


class SnapshotPageSchema(PageSchema):
    """A page of snapshots, newest first."""

    items = fields.List(fields.Nested(SnapshotSummarySchema), required=True)


class CheckSchema(Schema):
    """One thing readiness looks at."""

    ok = fields.Boolean(required=True)
    detail = fields.String(required=True)


class HealthSchema(Schema):
    """The process answers."""

    status = fields.String(required=True, metadata={"enum": ["ok"]})


class ReadinessSchema(Schema):
    """Whether plans get made, and what was looked at."""

    ready = fields.Boolean(required=True)
    checks = fields.Dict(keys=fields.String(), values=fields.Nested(CheckSchema), required=True)
