"""Every call against every role: the table of docs/contract.md, section 3."""

from __future__ import annotations

import re
import uuid

import pytest
from flask import Flask

from monkeytree.adapters.tokens import ROLES
from monkeytree.service.calls import CALLS, PAGES
from tests.integration.documents import snapshot

from .client import client_without_token
from .conftest import Clients

ANY = {"scheduler", "researcher", "operator", "agent"}
ALLOWED = {
    "submitSnapshot": {"scheduler"},
    "listSnapshots": ANY,
    "getSnapshot": ANY,
    "submitPlan": {"scheduler", "researcher"},
    "getPlan": ANY,
    "listPlans": ANY,
    "cancelPlan": {"scheduler"},
    "submitValidation": {"scheduler", "researcher"},
    "listValidations": {"scheduler", "researcher"},
    "getValidation": {"scheduler", "researcher"},
    "cancelValidation": {"scheduler", "researcher"},
    "submitExecution": {"operator"},
    "listExecutions": ANY,
    "getExecution": ANY,
    "cancelExecution": {"operator"},
    "announceAgent": {"agent"},
    "listAgents": ANY,
    "listReservations": ANY,
}
OPEN = {"getHealth", "getReadiness", "getMetrics"}


def test_the_table_is_the_contract() -> None:
    assert {name: set(call.roles) for name, call in CALLS.items() if call.roles} == ALLOWED
    assert {name for name, call in CALLS.items() if not call.roles} == OPEN


def test_every_route_is_a_call_or_a_page(app: Flask) -> None:
    names = {rule.endpoint.rpartition(".")[2] for rule in app.url_map.iter_rules()}
    assert names == set(CALLS) | PAGES


def _status(client_of: Clients, call_id: str, **of: str) -> int:
    call = CALLS[call_id]
    client = client_of(of["role"]) if "role" in of else client_of(token=of["token"])
    path = call.path.replace("<string:snapshot_id>", "0" * 64)
    path = re.sub("<string:(plan_id|validation_id|execution_id)>", str(uuid.uuid4()), path)
    asked = {"snapshot_id": "0" * 64}
    body = {"submitSnapshot": snapshot(), "submitPlan": asked, "submitValidation": asked}.get(call_id)
    return client.open(path, method=call.method, json=body).status_code


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("call_id", ALLOWED)
def test_role_by_call(client_of: Clients, call_id: str, role: str) -> None:
    status = _status(client_of, call_id, role=role)
    assert (status != 403) == (role in ALLOWED[call_id])
    assert status != 401


@pytest.mark.parametrize("call_id", ALLOWED)
def test_no_token_and_an_unknown_one(app: Flask, client_of: Clients, call_id: str) -> None:
    assert _status(client_of, call_id, token="mt_nobody") == 401
    call = CALLS[call_id]
    path = re.sub("<string:(plan_id|validation_id|execution_id)>", "x", call.path)
    answer = client_without_token(app).open(path, method=call.method)
    assert answer.status_code == 401
    assert answer.json["code"] == "unauthenticated"
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("call_id", sorted(OPEN))
def test_health_needs_no_token(app: Flask, call_id: str) -> None:
    assert client_without_token(app).open(CALLS[call_id].path).status_code in (200, 503)


def test_other_schemes_are_no_token(app: Flask) -> None:
    for header in ("Basic bXQ6eA==", "Bearer", "Bearer  ", "mt_x"):
        answer = client_without_token(app).get("/v1/plans", headers={"Authorization": header})
        assert answer.status_code == 401, header


def test_a_revoked_token_is_refused_at_once(client_of: Clients, parts: object) -> None:
    from tests.integration.rig import Rig

    assert isinstance(parts, Rig)
    name = uuid.uuid4().hex
    client = client_of(token=parts.store.add_token(name, ["researcher"]))
    assert client.get("/v1/plans").status_code == 200
    parts.store.revoke_token(name)
    assert client.get("/v1/plans").status_code == 401
