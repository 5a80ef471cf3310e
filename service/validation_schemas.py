"""What the calls of validations take and answer."""

from __future__ import annotations

from typing import Any, get_args

from marshmallow import Schema, fields, validate

from monkeytree.adapters import replay_options as rules
from monkeytree.adapters.replay_options import ReplayOptions
from monkeytree.adapters.validating import ValidationState
from monkeytree.errors import Offence
from monkeytree.limits import is_name
from monkeytree.offence_log import OffenceLog, Path
from monkeytree.wire.fields import Amount, Choice, Count, Listing, Name, refuse
from monkeytree.wire.schema import DocumentSchema

from .schemas import InvalidRequest, ListQuery, PageSchema, WorkSummarySchema

VALIDATION_STATES = list(get_args(ValidationState))
ONE_OF_BOTH = "give either plan_id (a ready plan) or snapshot_id (its placement as it stands)"
_DEFAULT = ReplayOptions().document()


class Uplink(Name):
    """An uplink by rack and spine."""

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        rack, _, spine = value.rpartition(":") if is_name(value) else ("", "", "")
        if rack and spine.isascii() and spine.isdigit():
            return value
        return refuse(log, at, "must read RACK:SPINE, such as r1:0", value)


class Links(Listing):
    """A bounded array of uplinks."""

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if isinstance(value, list) and len(value) > rules.MAX_FAILED_LINKS:
            return refuse(log, at, f"must have at most {rules.MAX_FAILED_LINKS} items", len(value))
        return super().read(value, log, at)


def _said(name: str, text: str) -> dict[str, Any]:
    return {"description": text, "default": _DEFAULT[name]}


class ValidationRequestSchema(DocumentSchema):
    """A packet-level replay of a plan, or of a placement as it stands."""

    refusal = InvalidRequest

    plan_id = Name(metadata={"description": "A ready plan; leave it out to replay a snapshot as it stands."})
    snapshot_id = Name(metadata={"description": "A stored snapshot; leave it out with `plan_id`."})
    profile = Choice(
        rules.PROFILES, metadata=_said("profile", "Parameters of switches and NICs (docs/validation.md).")
    )
    seed = Count(rules.SEED, metadata=_said("seed", "Of hashes and ECN marking."))
    flow_mb = Amount(
        rules.FLOW_MB, metadata=_said("flow_mb", "10^6 bytes a flow, where its group names no `traffic_gb`.")
    )
    scale = Amount(rules.SCALE, metadata=_said("scale", "Factor on the bytes of all flows."))
    ecmp_share = Amount(rules.SHARE, metadata=_said("ecmp_share", "Share of the flows left to hashes."))
    background = Amount(
        rules.SHARE, metadata=_said("background", "Share of the racks that send storage-like traffic.")
    )
    routing = Choice(
        rules.ROUTING,
        metadata=_said("routing", "`hash`: each flow goes where `fabric.hash` sends its source port."),
    )
    ports = Choice(
        rules.PORTS,
        metadata=_said("ports", "With `routing` `hash`: the plan's source ports, or the kernel's own."),
    )
    fail_link = Links(
        Uplink(metadata={"description": "RACK:SPINE"}),
        metadata={
            "maxItems": rules.MAX_FAILED_LINKS,
            **_said("fail_link", "Uplinks that fail after planning."),
        },
    )
    steps = Count(rules.STEPS, metadata=_said("steps", "Ring steps a flow is cut into."))
    timeout_s = Amount(rules.TIMEOUT_S, metadata=_said("timeout_s", "Seconds the replay may take."))


def read_request(raw: Any) -> tuple[str | None, str | None, ReplayOptions]:
    """Plan id, snapshot id (one of them None) and options of a request's body.

    Raises:
        InvalidRequest: every offence at once.
    """
    values = dict(ValidationRequestSchema().load(raw))
    plan_id, snapshot_id = values.pop("plan_id", None), values.pop("snapshot_id", None)
    if (plan_id is None) == (snapshot_id is None):
        raise InvalidRequest([Offence("", ONE_OF_BOTH, None)])
    return plan_id, snapshot_id, ReplayOptions(**values)


class ReplayOptionsSchema(Schema):
    """The options a replay runs with."""

    profile = fields.String(required=True)
    seed = fields.Integer(required=True)
    flow_mb = fields.Float(required=True)
    scale = fields.Float(required=True)
    ecmp_share = fields.Float(required=True)
    background = fields.Float(required=True)
    routing = fields.String(required=True)
    ports = fields.String(required=True)
    fail_link = fields.List(fields.String(), required=True)
    steps = fields.Integer(required=True)
    timeout_s = fields.Float(required=True)


class ProgressSchema(Schema):
    """How far a replay is."""

    stage = fields.String(required=True)
    done = fields.Float(
        required=True, allow_none=True, metadata={"description": "Part of the stage, 0 to 1; null: unknown."}
    )


class ValidationSummarySchema(WorkSummarySchema):
    """A validation as lists show it."""

    plan_id = fields.UUID(required=True, allow_none=True)
    options = fields.Nested(ReplayOptionsSchema, required=True)
    state = fields.String(required=True, validate=validate.OneOf(VALIDATION_STATES))
    progress = fields.Nested(ProgressSchema, required=True, allow_none=True)
    isolated = fields.Boolean(
        required=True, allow_none=True, metadata={"description": "The verdict, once ready."}
    )
    claims_hold = fields.Boolean(required=True, allow_none=True)


class ValidationSchema(ValidationSummarySchema):
    """A validation with its report."""

    report = fields.Dict(
        keys=fields.String(),
        required=True,
        allow_none=True,
        metadata={
            "description": "The validation report, format 1 (docs/contract.md, section 6); null until ready."
        },
    )


class ValidationPageSchema(PageSchema):
    """A page of validations, newest first."""

    items = fields.List(fields.Nested(ValidationSummarySchema), required=True)


class ValidationListQuery(ListQuery):
    """What the list of validations takes."""

    state = fields.String(validate=validate.OneOf(VALIDATION_STATES))
    plan_id = fields.UUID(metadata={"description": "Only those of this plan."})
