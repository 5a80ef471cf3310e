"""The application on a real Valkey and store, without a socket and without workers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from monkeytree.adapters.notify import Announcer
from monkeytree.adapters.solving import Outcome
from monkeytree.service.main import create_app
from tests.integration.rig import Rig, rig

from .client import Client, client_without_token

Clients = Callable[..., Client]


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Valkey and store."""
    with rig(tmp_path_factory.mktemp("service"), max_wait_s=1.0, max_waiters=2) as made:
        yield made


@pytest.fixture(scope="session")
def app(parts: Rig) -> Flask:
    """The application under test."""
    made: Flask = create_app(parts.settings)
    return made


@pytest.fixture
def client_of(app: Flask, parts: Rig) -> Clients:
    """A client whose token has the roles given (and clusters)."""

    def make(*roles: str, clusters: tuple[str, ...] = (), token: str | None = None) -> Client:
        text = token or parts.store.add_token(uuid.uuid4().hex, roles, clusters)
        client = client_without_token(app)
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
        return client

    return make


@pytest.fixture
def api(client_of: Clients, parts: Rig) -> Client:
    """A client with all roles."""
    return client_of(token=parts.token)


@pytest.fixture
def cluster() -> str:
    """A cluster of the test's own."""
    return f"c-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def finish(parts: Rig) -> Callable[..., None]:
    """Stands in for a worker: makes a queued plan ready."""

    def make_ready(plan_id: str, *, status: str = "optimal", moves: int = 1) -> None:
        plan = parts.store.claim(plan_id, 30.0, 3)
        assert plan is not None
        document: Any = b'{"format":1,"id":"%s","state":"ready"}' % plan_id.encode()
        assert parts.store.finish(plan_id, plan.attempt, Outcome(document, status, moves, "cbc", 0.2))
        Announcer(parts.settings.redis_url).announce(plan_id)

    return make_ready
