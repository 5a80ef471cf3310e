"""Idempotency-Key."""

from __future__ import annotations

import uuid
from typing import Any, NoReturn

import pytest
from sqlalchemy.exc import OperationalError

from monkeytree.adapters.store import Store
from tests.integration.documents import snapshot
from tests.integration.rig import Rig

from .client import Client
from .conftest import Clients


@pytest.fixture
def key() -> dict[str, str]:
    return {"Idempotency-Key": uuid.uuid4().hex}


def test_the_first_answer_is_replayed(api: Client, cluster: str, key: dict[str, str]) -> None:
    first = api.post("/v1/snapshots", json=snapshot(cluster), headers=key)
    again = api.post("/v1/snapshots", json=snapshot(cluster), headers=key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.data == first.data
    assert again.headers["Location"] == first.headers["Location"]
    assert "Idempotency-Replayed" in again.headers
    assert again.headers["X-Request-ID"] != first.headers["X-Request-ID"]


def test_refusals_are_replayed_too(api: Client, cluster: str, key: dict[str, str]) -> None:
    first = api.post("/v1/snapshots", json=snapshot(cluster, sequence=-1), headers=key)
    again = api.post("/v1/snapshots", json=snapshot(cluster, sequence=-1), headers=key)
    assert (first.status_code, again.status_code) == (422, 422)
    assert again.data == first.data
    assert again.content_type == "application/problem+json"


def test_another_body_or_call_is_refused(api: Client, cluster: str, key: dict[str, str]) -> None:
    api.post("/v1/snapshots", json=snapshot(cluster), headers=key)
    for answer in (
        api.post("/v1/snapshots", json=snapshot(cluster, mark="other"), headers=key),
        api.post("/v1/plans", json=snapshot(cluster), headers=key),
    ):
        assert (answer.status_code, answer.json["code"]) == (422, "idempotency_key_reused")


def test_keys_belong_to_tokens(api: Client, client_of: Clients, cluster: str, key: dict[str, str]) -> None:
    first = api.post("/v1/snapshots", json=snapshot(cluster), headers=key)
    other = client_of("scheduler").post("/v1/snapshots", json=snapshot(cluster), headers=key)
    assert (first.status_code, other.status_code) == (202, 200)


def test_while_the_first_runs_the_second_waits_its_turn(
    api: Client, parts: Rig, cluster: str, key: dict[str, str]
) -> None:
    import json
    from hashlib import sha256

    body = json.dumps(snapshot(cluster)).encode()
    token = parts.store.find_token(parts.token)
    assert token is not None
    parts.store.reserve_key(
        token.hash, key["Idempotency-Key"], sha256(b"POST /v1/snapshots\n" + body).hexdigest()
    )
    answer = api.post("/v1/snapshots", data=body, headers={**key, "Content-Type": "application/json"})
    assert (answer.status_code, answer.json["code"]) == (409, "idempotency_in_progress")


def test_work_that_was_done_is_told_though_its_answer_cannot_be_kept(
    api: Client, cluster: str, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is not done again by a retry: the key stays taken."""

    def away(*_: Any) -> NoReturn:
        raise OperationalError("UPDATE idempotency", {}, OSError("disk I/O error"))

    with monkeypatch.context() as patch:
        patch.setattr(Store, "keep_answer", away)
        first = api.post("/v1/snapshots", json=snapshot(cluster), headers=key)
    assert (first.status_code, "plan_id" in first.json) == (202, True)
    again = api.post("/v1/snapshots", json=snapshot(cluster), headers=key)
    assert (again.status_code, again.json["code"]) == (409, "idempotency_in_progress")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "release_key", away)
        patch.setattr(Store, "submit", away)
        failed = api.post(
            "/v1/snapshots", json=snapshot(cluster), headers={"Idempotency-Key": uuid.uuid4().hex}
        )
    assert (failed.status_code, failed.json["code"]) == (503, "store_unavailable")


@pytest.mark.parametrize("bad", ["", "x" * 256, "a b", "schlüssel"])
def test_a_bad_key_is_refused(api: Client, cluster: str, bad: str) -> None:
    answer = api.post("/v1/snapshots", json=snapshot(cluster), headers={"Idempotency-Key": bad})
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_header")


def test_255_characters_are_not_too_many(api: Client, cluster: str) -> None:
    key = uuid.uuid4().hex.ljust(255, "x")
    answer = api.post("/v1/snapshots", json=snapshot(cluster), headers={"Idempotency-Key": key})
    assert answer.status_code == 202


def test_where_there_is_no_call_a_key_changes_nothing(api: Client, key: dict[str, str]) -> None:
    assert api.post("/v1/nothing", data=b"x", headers=key).json["code"] == "not_found"
    assert api.post("/healthz", data=b"x", headers=key).json["code"] == "method_not_allowed"
