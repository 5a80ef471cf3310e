"""What the service refuses, as RFC 9457 problem documents: one table of codes, one mapping.

An error class carries its ``code``; the code decides status and title here. ``type`` is
``/problems/<code>``, a page that says what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from flask import Flask, Response, request
from flask_limiter import RateLimitExceeded
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from monkeytree.adapters.executions_errors import ExecutionRefused
from monkeytree.adapters.logs import logger
from monkeytree.errors import InvalidDocument, MonkeyTreeError
from monkeytree.offence_log import show

from .execution_problems import EXECUTION_PROBLEMS
from .problem import Problem

PROBLEM_TYPE = "application/problem+json"

PROBLEMS: Mapping[str, Problem] = {
    "invalid_snapshot": Problem(
        422, "The snapshot is invalid", "`errors` lists every offence by JSON pointer; correct them all."
    ),
    "unsupported_member": Problem(
        422, "A reserved member is not supported yet", "Leave the members named in `errors` out."
    ),
    "invalid_document": Problem(422, "The document is invalid", "Correct what `errors` lists."),
    "invalid_plan": Problem(422, "The plan is invalid", "Correct what `errors` lists."),
    "invalid_request": Problem(422, "The request is invalid", "Correct what `errors` lists."),
    "unknown_solver": Problem(
        422, "There is no such solver", "Leave `planning.solver` at auto, or take one the detail names."
    ),
    "invalid_query": Problem(
        422, "A query parameter is invalid", "`errors` names the parameters; see /docs for what they take."
    ),
    "invalid_cursor": Problem(
        422, "The cursor is invalid", "Pass `next` of the page before unchanged, with the same filters."
    ),
    "invalid_header": Problem(400, "A header is invalid", "The detail names the header and what it takes."),
    "malformed_body": Problem(
        400, "The body cannot be read", "Send UTF-8 JSON with each key once; with gzip, a whole gzip stream."
    ),
    "bad_request": Problem(400, "The request is malformed", "See /docs for what the call takes."),
    "unauthenticated": Problem(
        401, "A valid token is needed", "Send `Authorization: Bearer mt_...`; make one: monkeytree token add."
    ),
    "forbidden": Problem(
        403, "The token lacks the role", "Use a token with a role the detail names, or add one."
    ),
    "forbidden_cluster": Problem(
        403, "The token is bound to other clusters", "Use a token of this cluster, or one bound to none."
    ),
    "not_found": Problem(404, "There is no such page", "See /docs for all calls."),
    "unknown_plan": Problem(404, "There is no such plan", "List plans: GET /v1/plans."),
    "unknown_snapshot": Problem(404, "There is no such snapshot", "List snapshots: GET /v1/snapshots."),
    "unknown_validation": Problem(404, "There is no such validation", "List them: GET /v1/validations."),
    "unknown_execution": Problem(404, "There is no such execution", "List them: GET /v1/executions."),
    "unknown_node": Problem(
        404, "No snapshot has that node", "Post a snapshot that has it, or correct the agent's node."
    ),
    "method_not_allowed": Problem(405, "The method is not allowed here", "The Allow header lists those."),
    "precondition_failed": Problem(
        412, "If-Match does not hold", "Leave If-Match out, or send the ETag of the newest answer."
    ),
    "stale_snapshot": Problem(
        409, "A newer snapshot was received before", "Take a fresh snapshot; number it above the newest."
    ),
    "not_cancellable": Problem(
        409,
        "It is at its end",
        "Only a queued or solving plan, or a queued or running validation or execution, can be cancelled.",
    ),
    "plan_not_ready": Problem(409, "The plan is not ready", "Wait for it: GET /v1/plans/{id}?wait=30."),
    **EXECUTION_PROBLEMS,
    "idempotency_in_progress": Problem(
        409, "The first request with this key is still running", "Retry after a second."
    ),
    "idempotency_key_reused": Problem(
        422, "The Idempotency-Key belongs to another request", "Send a fresh key with each new request."
    ),
    "body_too_large": Problem(
        413, "The body is too large", "Send racks as groups, or raise MONKEYTREE_MAX_BODY_BYTES."
    ),
    "unsupported_media_type": Problem(
        415, "The content type is not supported", "Send `Content-Type: application/json`."
    ),
    "unsupported_encoding": Problem(
        415, "The content encoding is not supported", "Send the body as it is or with gzip."
    ),
    "rate_limited": Problem(429, "Too many requests", "Wait as long as Retry-After says."),
    "store_unavailable": Problem(
        503,
        "The store cannot be used for the moment",
        "Retry as Retry-After says: a request that was taken gets the same plan. If it lasts, see the log.",
    ),
    "server_busy": Problem(
        503,
        "Too many clients are still sending",
        "Retry as Retry-After says; who sends a whole request at once is served. If it lasts, clients send "
        "requests and do not end them: see the log of connections, or put a proxy that buffers in front.",
    ),
    "validation_unavailable": Problem(
        503,
        "Packet-level replays cannot be run",
        "The detail names the cure, for the machine of the worker that consumes the queue `validate`.",
    ),
    "internal": Problem(
        500, "The service failed", "It is not your fault: report the X-Request-ID, the log has the cause."
    ),
}

_BY_STATUS = {
    400: "bad_request", 404: "not_found", 405: "method_not_allowed", 412: "precondition_failed",
    413: "body_too_large",
    415: "unsupported_media_type", 429: "rate_limited",
}  # fmt: skip

#: Headers of werkzeug's errors that belong to the answer.
_KEPT_HEADERS = ("Allow", "Retry-After", "Content-Range")

log = logger(__name__)


class RequestRefused(MonkeyTreeError):
    """Base of what only HTTP can refuse; ``errors`` and ``headers`` go into the answer."""

    code = "bad_request"

    def __init__(
        self,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.errors = tuple(errors)
        self.headers = dict(headers or {})


def problem_response(
    code: str,
    detail: str,
    *,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
    status: int | None = None,
) -> Response:
    """The problem document of ``code``; ``status`` where it is another than the code's own."""
    kind = PROBLEMS[code]
    status = status or kind.status
    body: dict[str, Any] = {
        "type": f"/problems/{code}",
        "title": kind.title,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if errors:
        body["errors"] = list(errors)
    text = orjson.dumps(body, default=repr)
    return Response(text, status, headers=dict(headers or {}), content_type=PROBLEM_TYPE)


def from_error(error: MonkeyTreeError) -> Response:
    """Map the error tree, once: its code decides, document errors bring their offences."""
    if error.code not in PROBLEMS or error.code == "internal":
        return from_unexpected(error)
    if isinstance(error, InvalidDocument):
        offences = [
            {"pointer": offence.pointer, "detail": offence.message, "value": show(offence.value)}
            for offence in error.offences
        ]
        return problem_response(error.code, str(error), errors=offences)
    if isinstance(error, ExecutionRefused):
        return problem_response(error.code, str(error), errors=error.errors)
    if isinstance(error, RequestRefused):
        return problem_response(error.code, str(error), errors=error.errors, headers=error.headers)
    return problem_response(error.code, str(error))


def from_http(error: HTTPException) -> Response:
    """Map what Flask, werkzeug and the rate limiter raise."""
    status = error.code or 500
    if status < 400:
        return Response(status=status)
    if status >= 500:
        return from_unexpected(error)
    kept = {name: value for name, value in error.get_headers() if name in _KEPT_HEADERS}
    code = _BY_STATUS.get(status, "bad_request")
    return problem_response(code, _detail(error), headers=kept, status=status)


def _detail(error: HTTPException) -> str:
    """What was asked for, and what to ask instead."""
    if isinstance(error, RateLimitExceeded):
        return f"the limit is {error.description}; wait as long as Retry-After says"
    if isinstance(error, MethodNotAllowed):
        allowed = ", ".join(sorted(error.valid_methods or ()))
        return f"{request.method} is not allowed on {request.path!r}; it takes {allowed}"
    if isinstance(error, NotFound) and error.description == NotFound.description:
        return f"there is no {request.path!r} here; /docs lists all calls"
    return error.description or error.name


def from_store(error: SQLAlchemyError) -> Response:
    """The store is locked, full, read-only or away: the caller may retry, the log has the cause."""
    log.error("store_unavailable", exc_info=error)
    return problem_response(
        "store_unavailable",
        f"the store refuses this for now ({type(error).__name__}); the log has it under this X-Request-ID",
        headers={"Retry-After": "5"},
    )


def from_unexpected(error: Exception) -> Response:
    """A failure of the service: the log gets the traceback, the caller the request's id."""
    log.error("internal_error", exc_info=error)
    return problem_response("internal", "unexpected failure; the log has it under this X-Request-ID")


def handle_errors(app: Flask) -> None:
    """Answer every error of ``app`` with a problem document."""
    app.register_error_handler(MonkeyTreeError, from_error)
    app.register_error_handler(HTTPException, from_http)
    app.register_error_handler(SQLAlchemyError, from_store)
    app.register_error_handler(Exception, from_unexpected)
