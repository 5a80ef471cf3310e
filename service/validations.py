"""Validations: packet-level replays under /v1/validations."""

from __future__ import annotations

from typing import Any

from flask import Response, g, url_for

from monkeytree.adapters.documents import validation_summary
from monkeytree.wire.reading import parse_json

from .answers import come_back, validation_answer, with_etag
from .auth import see
from .blueprint import ApiBlueprint
from .body import read_body, readable
from .desk import the_desk
from .documented import IF_NONE_MATCH
from .schemas import WaitQuery
from .validation_desk import ask
from .validation_schemas import (
    ValidationListQuery,
    ValidationPageSchema,
    ValidationRequestSchema,
    ValidationSchema,
    read_request,
)
from .work import id_in_path, list_of_plan, page_answer, see_work

blueprint = ApiBlueprint("validations", __name__, description="Plans and placements, packet by packet.")

VALIDATION_ID = id_in_path("validation_id")
LOCATION = {"Location": {"description": "URL of the validation.", "schema": {"type": "string"}}}


@blueprint.call("submitValidation")
@blueprint.query(WaitQuery)
@blueprint.takes(ValidationRequestSchema)
@blueprint.gives(202, ValidationSchema, "The replay is on its way.", headers=LOCATION)
@blueprint.gives(
    200, ValidationSchema, "The same was asked before: its live or ready validation.", headers=LOCATION
)
@blueprint.gives(201, ValidationSchema, "The report got ready within `wait`.", headers=LOCATION)
def submit_validation(query: dict[str, Any]) -> Response:
    """Replay a plan, or a placement as it stands, packet by packet.

    The same of the same plan again gets the live or ready validation: replays are reproducible.
    """
    body = read_body()
    with readable():
        plan_id, snapshot_id, options = read_request(parse_json(body))
    desk = the_desk()
    asked = ask(
        desk, plan_id=plan_id, snapshot_id=snapshot_id, options=options, allow=see, request_id=g.request_id
    )
    waited = desk.wait(asked.row.id, query["wait"], desk.store.validations)
    location = url_for("validations.getValidation", validation_id=asked.row.id)
    headers = {"Location": location, **come_back(waited.seated)}
    status = (201 if waited.row.state == "ready" else 202) if asked.created else 200
    return validation_answer(waited.row, status, headers)


@blueprint.call("getValidation", parameters=[VALIDATION_ID])
@blueprint.query(WaitQuery)
@blueprint.header(IF_NONE_MATCH)
@blueprint.gives(200, ValidationSchema, "The validation; `progress` moves while it runs.")
@blueprint.gives(304, None, "Nothing has changed.")
def get_validation(query: dict[str, Any], validation_id: str) -> Response:
    """Read a validation, waiting for its end while it is queued or running.

    `Retry-After` says that too many others wait already.
    """
    desk = the_desk()
    see_work(desk.store.validations, validation_id)
    waited = desk.wait(validation_id, query["wait"], desk.store.validations)
    return with_etag(validation_answer(waited.row, headers=come_back(waited.seated)), waited.row.tag)


@blueprint.call("listValidations")
@blueprint.query(ValidationListQuery)
@blueprint.gives(200, ValidationPageSchema, "A page, newest first.")
def list_validations(query: dict[str, Any]) -> Response:
    """List validations by `created_at`, newest first, without their reports."""
    return page_answer(list_of_plan(the_desk().store.validations, query), validation_summary)


@blueprint.call("cancelValidation", parameters=[VALIDATION_ID])
@blueprint.gives(200, ValidationSchema, "The validation as it is now: cancelled.")
def cancel_validation(validation_id: str) -> Response:
    """Cancel a queued or running validation; its processes stop at once."""
    desk = the_desk()
    see_work(desk.store.validations, validation_id)
    return validation_answer(desk.cancel(validation_id, desk.store.validations, desk.validate_queue))
