"""Where the service starts: ``gunicorn 'monkeytree.service.main:create_app()'``."""

from __future__ import annotations

import os
import sys

from flask import Flask
from prometheus_client import CollectorRegistry

import monkeytree
from monkeytree.adapters.logs import configure_logs
from monkeytree.adapters.settings import Settings
from monkeytree.adapters.store import Store
from monkeytree.errors import MonkeyTreeError

from . import agents, docs, executions, health, plans, reservations, snapshots, validations
from .auth import authorise, identify
from .blueprint import MonkeyTreeApi
from .desk import EXTENSION, Desk
from .idempotency import replay_answers
from .limits import limit_rates
from .metrics import StoreCollector, measure_requests
from .problems import handle_errors
from .tracing import trace_requests

#: gunicorn's exit code for an application that cannot be loaded: it then stops instead of retrying.
APP_LOAD_ERROR = 4
DESCRIPTION = (
    "POST a placement snapshot, GET the fewest moves that give every flow an uplink of its own. "
    "All calls but health need a bearer token; problems are RFC 9457 documents with a stable `code`."
)


def create_app(settings: Settings | None = None) -> Flask:
    """The application, with its store made where it is missing; settings default to the environment."""
    try:
        settings = settings or Settings.from_env(os.environ)
        configure_logs(settings.log_level)
        store = Store(settings.database_url)
        store.create()
        return build_app(Desk(settings, store))
    except MonkeyTreeError as error:
        sys.stderr.write(f"monkeytree service: {error}\n")
        raise SystemExit(APP_LOAD_ERROR) from None


def build_app(desk: Desk) -> Flask:
    """The application at ``desk``; touches neither store nor broker until the first request."""
    app = Flask("monkeytree.service", static_folder=None)
    app.url_map.merge_slashes = False  # a redirect would be no problem document, and trust the Host header
    app.extensions[EXTENSION] = desk
    app.config.update(
        API_TITLE="MonkeyTree",
        API_VERSION=monkeytree.__version__,
        OPENAPI_VERSION="3.1.0",
        OPENAPI_URL_PREFIX="/v1",
        API_SPEC_OPTIONS={
            "info": {"description": DESCRIPTION, "license": {"name": "MIT", "identifier": "MIT"}},
            "components": {"securitySchemes": {"bearerAuth": {"type": "http", "scheme": "bearer"}}},
        },
    )
    _hook(app, desk)
    api = MonkeyTreeApi(app)
    for room in (snapshots, plans, validations, executions, agents, reservations, health):
        api.register_blueprint(room.blueprint)
    app.register_blueprint(docs.blueprint)
    return app


def _hook(app: Flask, desk: Desk) -> None:
    """What happens around every request, in this order; afterwards in the opposite one."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(desk))
    app.extensions[health.REGISTRY] = registry
    handle_errors(app)
    trace_requests(app)
    measure_requests(app, registry)
    app.before_request(identify)
    limit_rates(app, desk.settings)
    app.before_request(authorise)
    replay_answers(app)
