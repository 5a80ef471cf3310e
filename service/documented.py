"""Parts of the OpenAPI document that several calls share."""

from __future__ import annotations

from marshmallow import fields

from monkeytree.wire.plan import PlanSchema

from .schemas import OVER

IF_NONE_MATCH = {
    "in": "header",
    "name": "If-None-Match",
    "required": False,
    "description": "An ETag from before: 304 where nothing has changed.",
    "schema": {"type": "string"},
}
LOCATION = {"Location": {"description": "URL of the plan.", "schema": {"type": "string"}}}

#: Two racks with one uplink each, two jobs across them: one move is needed.
SNAPSHOT = {
    "format": 1,
    "cluster": "prod-east",
    "taken_at": "2026-11-29T18:00:00Z",
    "racks": [
        {"id": "r1", "uplinks": 1, "nodes": {"r1n1": 1, "r1n2": 1, "r1n3": 1}},
        {"id": "r2", "uplinks": 1, "nodes": {"r2n1": 1, "r2n2": 1, "r2n3": 1}},
    ],
    "jobs": [
        {"id": "A", "replica_groups": [{"id": "0", "workers": ["r1n1", "r2n1"]}]},
        {"id": "B", "replica_groups": [{"id": "0", "workers": ["r1n2", "r2n2"]}]},
    ],
}


class PlanAnswerSchema(PlanSchema):
    """A plan, with what a receipt says."""

    plan_id = fields.UUID(required=True)
    over = fields.Dict(**OVER)
