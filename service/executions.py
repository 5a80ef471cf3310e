"""Executions: plans that agents carry out, under /v1/executions."""

from __future__ import annotations

from typing import Any

from flask import Response, g, request, url_for

from monkeytree.adapters.executions_documents import execution_document, execution_summary
from monkeytree.adapters.executions_errors import UnknownExecution
from monkeytree.adapters.executions_rows import ExecutionRow
from monkeytree.limits import is_name
from monkeytree.wire.reading import parse_json

from .answers import RETRY_AFTER_S, json_answer, with_etag
from .auth import clusters_to_list, see
from .blueprint import IDEMPOTENCY_KEY, ApiBlueprint
from .body import read_body, readable
from .cursors import read_cursor, write_cursor
from .desk import the_desk
from .documented import IF_NONE_MATCH
from .execution_desk import Request, cancel, dry_run, order
from .execution_schemas import (
    DryRunSchema,
    ExecutionListQuery,
    ExecutionPageSchema,
    ExecutionRequestSchema,
    ExecutionSchema,
)
from .execution_stream import STREAM, stream
from .schemas import WaitQuery

blueprint = ApiBlueprint("executions", __name__, description="Plans, carried out by agents.")

EXECUTION_ID = {"in": "path", "name": "execution_id", "schema": {"type": "string", "format": "uuid"}}
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
    see(_known(execution_id).cluster)
    desk = the_desk()
    if request.accept_mimetypes.best_match(["application/json", STREAM]) == STREAM:
        return stream(desk, execution_id, request.headers.get("Last-Event-ID"))
    waited = desk.wait(execution_id, query["wait"], desk.store.executions)
    headers = {} if waited.seated else {"Retry-After": str(RETRY_AFTER_S)}
    steps = desk.store.executions.steps(execution_id)
    answer = json_answer(execution_document(waited.row, steps), headers=headers)
    return with_etag(answer, waited.row.tag(steps))


@blueprint.call("listExecutions")
@blueprint.query(ExecutionListQuery)
@blueprint.gives(200, ExecutionPageSchema, "A page, newest first.")
def list_executions(query: dict[str, Any]) -> Response:
    """List executions by `created_at`, newest first, without their steps."""
    wanted = query.get("plan_id")
    page = the_desk().store.executions.list_executions(
        clusters=clusters_to_list(query.get("cluster")),
        since=query.get("since"),
        until=query.get("until"),
        state=query.get("state"),
        plan_id=None if wanted is None else str(wanted),
        after=read_cursor(query.get("cursor")),
        limit=query["limit"],
    )
    items = [execution_summary(row) for row in page.items]
    return json_answer({"items": items, "next": write_cursor(page.next)})


@blueprint.call("cancelExecution", parameters=[EXECUTION_ID])
@blueprint.header(IDEMPOTENCY_KEY)
@blueprint.gives(200, ExecutionSchema, "The execution as it is now.")
def cancel_execution(execution_id: str) -> Response:
    """Have an execution end before its next wave; a wave that has begun is finished."""
    see(_known(execution_id).cluster)
    row = cancel(the_desk(), execution_id)
    return json_answer(execution_document(row, the_desk().store.executions.steps(row.id)))


def _known(execution_id: str) -> ExecutionRow:
    """The execution's row; what can be no id does not reach the store."""
    if not is_name(execution_id):
        raise UnknownExecution(execution_id)
    return the_desk().store.executions.find(execution_id)
