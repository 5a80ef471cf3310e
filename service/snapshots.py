"""Snapshots: POST and GET /v1/snapshots."""

from __future__ import annotations

import re
from typing import Any

from flask import Response, g

from monkeytree.adapters.documents import utc_text
from monkeytree.adapters.errors import UnknownSnapshot
from monkeytree.adapters.rows import SnapshotRow
from monkeytree.wire.snapshot import SnapshotSchema

from .answers import filed_answer, with_etag
from .auth import see
from .blueprint import ApiBlueprint
from .body import read_body, readable
from .desk import the_desk
from .documented import IF_NONE_MATCH, LOCATION, SNAPSHOT, PlanAnswerSchema
from .schemas import SHA256, ListQuery, ReceiptSchema, SnapshotPageSchema, WaitQuery
from .work import page_answer, span_of

blueprint = ApiBlueprint("snapshots", __name__, description="Placements at one instant.")

SNAPSHOT_ID = {"in": "path", "name": "snapshot_id", "schema": {"type": "string", "pattern": SHA256}}


@blueprint.call("submitSnapshot")
@blueprint.query(WaitQuery)
@blueprint.takes(SnapshotSchema, example=SNAPSHOT)
@blueprint.gives(202, ReceiptSchema, "The plan is on its way.", headers=LOCATION)
@blueprint.gives(
    200,
    PlanAnswerSchema,
    "The same content and planning was sent before: its live or ready plan.",
    headers=LOCATION,
)
@blueprint.gives(201, PlanAnswerSchema, "The plan got ready within `wait`.", headers=LOCATION)
def submit_snapshot(query: dict[str, Any]) -> Response:
    """Submit a snapshot and have it planned.

    A newer snapshot of a cluster makes older queued plans `superseded`.
    """
    body = read_body()
    with readable():
        filed = the_desk().submit(body, see, g.request_id)
    return filed_answer(filed, query["wait"])


@blueprint.call("listSnapshots")
@blueprint.query(ListQuery)
@blueprint.gives(200, SnapshotPageSchema, "A page, newest first.")
def list_snapshots(query: dict[str, Any]) -> Response:
    """List snapshots by `taken_at`, newest first."""
    return page_answer(the_desk().store.list_snapshots(span_of(query)), _summary)


@blueprint.call("getSnapshot", parameters=[SNAPSHOT_ID])
@blueprint.header(IF_NONE_MATCH)
@blueprint.gives(200, SnapshotSchema, "The document as it was sent last.")
@blueprint.gives(304, None, "Nothing has changed.")
def get_snapshot(snapshot_id: str) -> Response:
    """Read a snapshot's document."""
    if not re.fullmatch(SHA256, snapshot_id):
        raise UnknownSnapshot(snapshot_id)
    store = the_desk().store
    row = store.snapshot(snapshot_id)
    see(row.cluster)
    body = store.snapshot_body(snapshot_id)
    answer = Response(body, content_type="application/json")
    return with_etag(answer, f"{row.id[:16]}.{row.received_at}")


def _summary(row: SnapshotRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "cluster": row.cluster,
        "taken_at": utc_text(row.taken_at),
        "sequence": row.sequence,
        "received_at": utc_text(row.received_at),
    }
