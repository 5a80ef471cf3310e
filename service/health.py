"""Health, readiness and metrics: for load balancers, supervisors and Prometheus."""

from __future__ import annotations

from flask import Response, current_app
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy.exc import SQLAlchemyError

from .answers import json_answer
from .blueprint import ApiBlueprint
from .desk import MISSED_BEATS, Desk, the_desk
from .schemas import HealthSchema, ReadinessSchema

blueprint = ApiBlueprint("health", __name__, description="Is it well?")
REGISTRY = "monkeytree-metrics"


@blueprint.call("getHealth")
@blueprint.gives(200, HealthSchema, "It answers.")
def get_health() -> Response:
    """Say that the process answers."""
    return json_answer({"status": "ok"})


@blueprint.call("getReadiness")
@blueprint.gives(200, ReadinessSchema, "Plans get made.")
@blueprint.gives(503, ReadinessSchema, "Plans are not being made; `checks` say why.")
def get_readiness() -> Response:
    """Say whether plans get made: store, broker, a worker's beat, and the age of the queue."""
    checks = readiness(the_desk())
    ready = all(ok for ok, _ in checks.values())
    document = {name: {"ok": ok, "detail": detail} for name, (ok, detail) in checks.items()}
    return json_answer({"ready": ready, "checks": document}, 200 if ready else 503)


@blueprint.call("getMetrics")
@blueprint.gives(200, {"type": "string"}, "Figures.", content_type="text/plain")
def get_metrics() -> Response:
    """Tell figures in the Prometheus text format."""
    return Response(generate_latest(current_app.extensions[REGISTRY]), content_type=CONTENT_TYPE_LATEST)


def readiness(desk: Desk) -> dict[str, tuple[bool, str]]:
    """Each check by name: whether it holds, and in words what was found."""
    broker = desk.queue.ping()
    checks = {"broker": (broker, "answers" if broker else "does not answer; plans wait in the store")}
    try:
        desk.store.beat("api:readyz")
        checks["store"] = (True, "takes writes")
        checks["worker"] = _worker(desk)
        checks["queue"] = _queue(desk)
    except SQLAlchemyError as error:
        checks["store"] = (False, f"refuses writes: {type(error).__name__}")
    return checks


def _worker(desk: Desk) -> tuple[bool, str]:
    age = desk.store.beat_age_s("worker")
    if age is None:
        return False, "no worker has ever beaten; start one"
    return age <= MISSED_BEATS * desk.settings.heartbeat_s, f"beat {age:.1f} s ago"


def _queue(desk: Desk) -> tuple[bool, str]:
    figures = desk.store.queue_figures()
    waiting = figures.by_state.get("queued", 0)
    ok = figures.oldest_queued_s <= desk.settings.ready_queue_age_s
    return ok, f"{waiting} queued, the oldest for {figures.oldest_queued_s:.1f} s"
