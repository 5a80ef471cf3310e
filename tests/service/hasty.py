"""What tests/service/test_server.py has gunicorn run: an application that reads bodies, a worker in haste."""

from __future__ import annotations

from time import sleep

from flask import Flask, Response, request

from monkeytree.service.problems import handle_errors
from monkeytree.service.server import Worker

application = Flask(__name__)
handle_errors(application)


@application.post("/")
def read() -> Response:
    """Say how much came."""
    return Response(f"{len(request.stream.read())}")


@application.post("/late")
def ponder() -> Response:
    """Read what came, after longer than a place is waited for."""
    sleep(1.5)
    return Response(f"{len(request.stream.read())}")


@application.get("/slow")
def think() -> Response:
    """Take longer than a client may take for its request."""
    sleep(1.5)
    return Response("done")


class Hasty(Worker):  # type: ignore[misc] # gunicorn has no types
    """Seconds, not minutes."""

    head_s, body_s, body_rate = 0.2, 0.2, 100.0


class Patient(Worker):  # type: ignore[misc] # gunicorn has no types
    """A worker that would wait long for bodies, were there no others."""

    head_s, body_s = 300.0, 300.0
    head_grace_s, body_grace_s = 0.2, 0.2
