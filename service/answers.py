"""Answers with a JSON body. A ready plan goes out as it was stored, never parsed again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from flask import Response, request, url_for
from werkzeug.exceptions import PreconditionFailed

from monkeytree.adapters.documents import plan_document, validation_summary
from monkeytree.adapters.rows import PlanRow
from monkeytree.adapters.validating import ValidationRow

from .desk import Filed, the_desk

#: What a caller that found no seat is told to wait.
RETRY_AFTER_S = 1


def come_back(seated: bool) -> dict[str, str]:
    """The headers that tell a caller who found no seat to come back."""
    return {} if seated else {"Retry-After": str(RETRY_AFTER_S)}


def json_answer(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """``document`` as JSON."""
    return _body(orjson.dumps(document), status, headers)


def plan_answer(plan: PlanRow, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The plan's document: whole when it is ready, else with nulls."""
    return _body(_plan_document(plan), status, headers)


def validation_answer(
    row: ValidationRow, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The validation's document, with the report as it was stored."""
    report = the_desk().store.validations.report(row.id) if row.state == "ready" else None
    members = orjson.dumps(validation_summary(row))
    return _body(members[:-1] + b',"report":' + (report or b"null") + b"}", status, headers)


def filed_answer(filed: Filed, wait_s: float) -> Response:
    """202 with a receipt; 201 with the plan if it gets ready within ``wait_s``; 200 if it was there."""
    plan, seated = filed.receipt.plan, True
    if wait_s > 0:
        waited = the_desk().wait(plan.id, wait_s, the_desk().store)
        plan, seated = waited.row, waited.seated
    headers = {"Location": url_for("plans.getPlan", plan_id=plan.id), **come_back(seated)}
    receipt = {"snapshot_id": plan.snapshot_id, "plan_id": plan.id, "over": dict(filed.over)}
    if filed.receipt.created and (plan.state != "ready" or not wait_s):
        return json_answer(receipt, 202, headers)
    del receipt["snapshot_id"]  # the plan has it
    return _body(_merged(receipt, _plan_document(plan)), 201 if filed.receipt.created else 200, headers)


def with_etag(response: Response, tag: str) -> Response:
    """``response``, or 304 without a body where the caller has it already.

    Raises:
        PreconditionFailed: If-Match names other tags.
    """
    response.set_etag(tag)
    response.make_conditional(request)
    if response.status_code == PreconditionFailed.code:
        sent = request.headers.get("If-Match", "")
        raise PreconditionFailed(f"If-Match names {sent[:100]!r}, the ETag is now {response.headers['ETag']}")
    return response


def _plan_document(plan: PlanRow) -> bytes:
    body = the_desk().store.plan_body(plan.id) if plan.state == "ready" else None
    return body if body is not None else orjson.dumps(plan_document(plan))


def _merged(members: Mapping[str, Any], document: bytes) -> bytes:
    """A JSON object with more members in front, without parsing it."""
    return orjson.dumps(members)[:-1] + b"," + document.lstrip()[1:]


def _body(body: bytes, status: int, headers: Mapping[str, str] | None) -> Response:
    return Response(body, status, headers=dict(headers or {}), content_type="application/json")
