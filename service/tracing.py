"""Every request has an id: taken from X-Request-ID or made, logged, passed on, and sent back."""

from __future__ import annotations

import re
import uuid
from time import perf_counter

import structlog
from flask import Flask, Response, g, request

from monkeytree.adapters.logs import logger

from .idempotency import InvalidHeader

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)

log = logger(__name__)


def trace_requests(app: Flask) -> None:
    """Give the requests of ``app`` ids and a log line each; register first."""
    app.before_request(_begin)
    app.after_request(_end)


def _begin() -> None:
    g.started = perf_counter()
    sent = request.headers.get("X-Request-ID")
    valid = sent is not None and _ID.fullmatch(sent)
    g.request_id = sent if valid else uuid.uuid4().hex
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=g.request_id)
    for name in ("plan_id", "validation_id", "execution_id"):
        if request.view_args and name in request.view_args:
            structlog.contextvars.bind_contextvars(**{name: request.view_args[name]})
    if sent is not None and not valid:
        raise InvalidHeader(
            f"X-Request-ID takes 1 to 128 letters, digits and any of . _ : -, got {sent[:40]!r}"
        )


def _end(response: Response) -> Response:
    response.headers["X-Request-ID"] = g.get("request_id", "")
    who = g.get("token")
    log.info(
        "request",
        method=request.method,
        path=request.path,
        status=response.status_code,
        ms=round((perf_counter() - g.started) * 1000, 1),
        token=who.prefix if who is not None else None,
    )
    return response
