"""The agent's HTTP API, in docs/agents.md. A handler parses, makes one call, and formats."""

from __future__ import annotations

import contextlib
import math
import threading
from dataclasses import asdict
from typing import Any, TypeVar

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from monkeytree.errors import InvalidDocument
from monkeytree.wire.agent_schemas import read_document
from monkeytree.wire.agents import Command, MoveRequest, PauseRequest, RouteTable, dump

from .auth import Doorkeeper
from .logs import logger
from .node import Node
from .problems import NotFound, Refused

MAX_WAIT_S = 30.0
MAX_BODY_BYTES = 8 * 2**20
MAX_WAITERS = 16
OPEN = frozenset({"/healthz", "/metrics"})

Model = TypeVar("Model")
log = logger(__name__)


def make_app(node: Node, doorkeeper: Doorkeeper) -> Flask:
    """The application; it holds no state of its own."""
    app = Flask("monkeytree.agent")
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    waiters = threading.BoundedSemaphore(MAX_WAITERS)

    @app.before_request
    def authenticate() -> None:
        if request.path not in OPEN:
            target = str(request.environ["REQUEST_URI"])  # as it was sent: `path` has its escapes undone
            doorkeeper.check(
                request.headers.get("Authorization", ""), request.method, target, request.get_data()
            )

    app.register_error_handler(Refused, lambda error: _refusal(node, error))
    app.register_error_handler(InvalidDocument, lambda error: _invalid(node, error))
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _unexpected)
    _moves(app, node, waiters)
    _pauses(app, node, waiters)
    _rest(app, node)
    return app


def _moves(app: Flask, node: Node, waiters: threading.BoundedSemaphore) -> None:
    moves = node.moves

    @app.put("/v1/moves/<path:move_id>")
    def put_move(move_id: str) -> Response:
        with node.changed:
            status, fresh = moves.put(move_id, _body(MoveRequest))
        return _json(dump(status), 201 if fresh else 200)

    @app.get("/v1/moves/<path:move_id>")
    def get_move(move_id: str) -> Response:
        return _json(dump(_waited(node, moves.ledger, move_id, waiters)))

    @app.post("/v1/moves/<path:move_id>/<any(prepare, start, commit, abort):verb>")
    def command_move(move_id: str, verb: str) -> Response:
        calls = {"prepare": moves.prepare, "start": moves.start, "commit": moves.commit, "abort": moves.abort}
        with node.changed:
            status = calls[verb](move_id, _body(Command))
        return _json(dump(status), 202)


def _pauses(app: Flask, node: Node, waiters: threading.BoundedSemaphore) -> None:
    pauses = node.pauses

    @app.put("/v1/pauses/<path:pause_id>")
    def put_pause(pause_id: str) -> Response:
        with node.changed:
            status, fresh = pauses.put(pause_id, _body(PauseRequest))
        return _json(dump(status), 201 if fresh else 200)

    @app.get("/v1/pauses/<path:pause_id>")
    def get_pause(pause_id: str) -> Response:
        return _json(dump(_waited(node, pauses.ledger, pause_id, waiters)))

    @app.post("/v1/pauses/<path:pause_id>/<any(start, abort):verb>")
    def command_pause(pause_id: str, verb: str) -> Response:
        calls = {"start": pauses.start, "abort": pauses.abort}
        with node.changed:
            status = calls[verb](pause_id, _body(Command))
        return _json(dump(status), 202)


def _rest(app: Flask, node: Node) -> None:
    @app.get("/v1/workers")
    def get_workers() -> Response:
        return _json(dump(node.workers()))

    @app.put("/v1/routes")
    def put_routes() -> Response:
        with node.changed:
            return _json(dump(node.routes.put(_body(RouteTable))))

    @app.get("/v1/routes")
    def get_routes() -> Response:
        return _json(dump(node.routes.table))

    @app.get("/v1/routes/proof")
    def get_proof() -> Response:
        return _json(asdict(node.routes.proof(_number("since", 0.0))))

    @app.get("/healthz")
    def healthz() -> Response:
        return _json({"status": "ok", "node": node.options.node, "epoch": node.epoch})

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(node.metrics.page(), content_type="text/plain; version=0.0.4; charset=utf-8")


def _body(model: type[Model]) -> Model:
    return read_document(model, request.get_data())


def _waited(node: Node, ledger: Any, its_id: str, waiters: threading.BoundedSemaphore) -> Any:
    """The status; with ``wait`` and ``since`` the next one. With too many waiters, at once."""
    wait_s = min(max(_number("wait", 0.0), 0.0), MAX_WAIT_S)
    since = int(_number("since", -1.0))
    patient = wait_s > 0 and waiters.acquire(blocking=False)
    try:
        with node.changed:
            return ledger.wait(its_id, since, wait_s if patient else 0.0)
    finally:
        if patient:
            waiters.release()


def _number(name: str, default: float) -> float:
    text = request.args.get(name)
    if text is None:
        return default
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    raise Refused(f"query parameter {name} must be a number, got {text[:80]!r}")


def _json(document: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(document), status, content_type="application/json")


def _problem(status: int, code: str, title: str, detail: str, more: dict[str, Any] | None = None) -> Response:
    body = {
        "type": f"/problems/{code}", "title": title, "status": status, "detail": detail, "code": code,
        **(more or {}),
    }  # fmt: skip
    return Response(orjson.dumps(body, default=repr), status, content_type="application/problem+json")


def _refusal(node: Node, error: Refused) -> Response:
    node.metrics.refusals.labels(error.code).inc()
    log.info("refused", code=error.code, detail=str(error), path=request.path)
    answer = _problem(error.status, error.code, error.title, str(error), error.more)
    if error.retry_after_s is not None:
        answer.headers["Retry-After"] = str(error.retry_after_s)
    return answer


def _invalid(node: Node, error: InvalidDocument) -> Response:
    node.metrics.refusals.labels("invalid_request").inc()
    errors = [{"pointer": o.pointer, "detail": o.message, "value": o.value} for o in error.offences]
    return _problem(422, "invalid_request", "The request is invalid", str(error), {"errors": errors})


def _http(error: HTTPException) -> Response:
    if error.code == 404:
        return _problem(404, NotFound.code, NotFound.title, f"no call {request.method} {request.path}")
    status = error.code or 500
    codes = {405: "method_not_allowed", 413: "body_too_large"}
    return _problem(status, codes.get(status, "bad_request"), error.name, error.description or "")


def _unexpected(error: Exception) -> Response:
    log.error("failed", path=request.path, exc_info=error)
    return _problem(
        500, "internal", "The agent failed", "it is not your fault: the agent's log has the cause"
    )
