"""Executions: plans that agents carry out, under /v1/executions."""

from __future__ import annotations

from typing import Any

from flask import Response, g, request, url_for

from monkeytree.adapters.executions_documents import execution_document, execution_summary
from monkeytree.wire.reading import parse_json

from .answers import come_back, json_answer, with_etag
from .auth import see
from .blueprint import IDEMPOTENCY_KEY, ApiBlueprint
from .body import read_body, readable
from .desk import the_desk
from .documented import IF_NONE_MATCH
from .execution_desk import Request, dry_run, order
from .execution_schemas import (
    DryRunSchema,
    ExecutionListQuery,
    ExecutionPageSchema,
    ExecutionRequestSchema,
    ExecutionSchema,
)
from .execution_stream import STREAM, stream
from .schemas import WaitQuery
from .work import id_in_path, list_of_plan, page_answer, see_work

blueprint = ApiBlueprint("executions", __name__, description="Plans, carried out by agents.")

EXECUTION_ID = id_in_path("execution_id")
LOCATION = {"Location": {"description": "URL of the execution.", "schema": {"type": "string"}}}
LAST_EVENT_ID = {
    "in": "header",
    "name": "Last-Event-ID",
    "required": False,
    "description": "With Accept: text/event-stream: the last event seen; unchanged, it is not sent again.",
    "schema": {"type": "string"},
}


@blueprint.call("submitExecution")
@blueprint.takes(ExecutionRequestSchema)
@blueprint.gives(202, ExecutionSchema, "The execution is on its way.", headers=LOCATION)
@blueprint.gives(200, DryRunSchema, "With `dry_run`: what would be called. Nothing is.")
def submit_execution() -> Response:
    """Have agents carry a ready plan out, wave by wave.

    Refused by name where the service only recommends, the cluster has changed, or a limit of the site
    says no.
    """
    body = read_body()
    with readable():
        asked = ExecutionRequestSchema().load(parse_json(body))
    wanted = Request(asked["plan_id"], asked.get("expected_sequence"), asked.get("on_failure", "stop"))
    desk = the_desk()
    if asked.get("dry_run", False):
        return json_answer(dry_run(desk, wanted, see))
    row = order(desk, wanted, see, g.request_id)
    headers = {"Location": url_for("executions.getExecution", execution_id=row.id)}
    return json_answer(execution_document(row, desk.store.executions.steps(row.id)), 202, headers)


@blueprint.call("getExecution", parameters=[EXECUTION_ID])
@blueprint.query(WaitQuery)
@blueprint.header(IF_NONE_MATCH)
@blueprint.header(LAST_EVENT_ID)
@blueprint.gives(
    200, ExecutionSchema, "The execution; with `Accept: text/event-stream` each change of it, as an event."
)
@blueprint.gives(304, None, "Nothing has changed.")
def get_execution(query: dict[str, Any], execution_id: str) -> Response:
    """Read an execution, waiting for its end while it is queued or running; or follow it as it goes.

    `Retry-After` says that too many others wait already.
    """
    desk = the_desk()
    see_work(desk.store.executions, execution_id)
    if request.accept_mimetypes.best_match(["application/json", STREAM]) == STREAM:
        return stream(desk, execution_id, request.headers.get("Last-Event-ID"))
    waited = desk.wait(execution_id, query["wait"], desk.store.executions)
    steps = desk.store.executions.steps(execution_id)
    answer = json_answer(execution_document(waited.row, steps), headers=come_back(waited.seated))
    return with_etag(answer, waited.row.tag(steps))


@blueprint.call("listExecutions")
@blueprint.query(ExecutionListQuery)
@blueprint.gives(200, ExecutionPageSchema, "A page, newest first.")
def list_executions(query: dict[str, Any]) -> Response:
    """List executions by `created_at`, newest first, without their steps."""
    return page_answer(list_of_plan(the_desk().store.executions, query), execution_summary)


@blueprint.call("cancelExecution", parameters=[EXECUTION_ID])
@blueprint.header(IDEMPOTENCY_KEY)
@blueprint.gives(200, ExecutionSchema, "The execution as it is now.")
def cancel_execution(execution_id: str) -> Response:
    """Have an execution end before its next wave; a wave that has begun is finished."""
    desk = the_desk()
    rows = desk.store.executions
    see_work(rows, execution_id)
    row = desk.cancel(execution_id, rows)
    return json_answer(execution_document(row, rows.steps(row.id)))
