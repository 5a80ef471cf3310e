"""Health, documentation, problems, request ids, limits."""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from flask import Flask

from monkeytree.service.calls import CALLS
from monkeytree.service.main import create_app
from monkeytree.service.openapi import openapi_document, openapi_text
from monkeytree.service.problems import PROBLEMS
from tests.integration.rig import Rig

from .client import Client, client_without_token

ROOT = Path(__file__).parent.parent.parent


def test_openapi_yaml_is_in_step() -> None:
    committed = (ROOT / "openapi.yaml").read_text("utf-8")
    assert committed == openapi_text(), "write it anew: python -m monkeytree.service.openapi > openapi.yaml"


def test_the_document_is_valid_and_names_every_call() -> None:
    from openapi_spec_validator import validate

    document = openapi_document()
    validate(document)
    found = {
        operation["operationId"]: (method.upper(), path)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }
    assert found == {
        call.id: (call.method, re.sub(r"<string:(\w+)>", r"{\1}", call.path)) for call in CALLS.values()
    }


def test_the_example_can_be_sent(api: Client) -> None:
    operation = openapi_document()["paths"]["/v1/snapshots"]["post"]
    example = operation["requestBody"]["content"]["application/json"]["example"]
    answer = api.post("/v1/snapshots", json=example)
    assert answer.status_code in (200, 202)
    assert answer.json["over"] == {"r1": 1, "r2": 1}


def test_every_problem_is_a_problem_document() -> None:
    for path in openapi_document()["paths"].values():
        for name, operation in path.items():
            for status, answer in (operation["responses"] if name != "parameters" else {}).items():
                if str(status).startswith("4"):
                    assert list(answer["content"]) == ["application/problem+json"]


def test_the_spec_served_is_the_one_committed(api: Client) -> None:
    assert api.get("/v1/openapi.json").json == openapi_document()


def test_docs_need_nothing_from_elsewhere(app: Flask) -> None:
    client = client_without_token(app)
    page = client.get("/docs").text
    links = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert links
    for link in links:
        assert link.startswith("/docs/files/")
        assert client.get(link).status_code == 200
    assert "default-src 'none'" in client.get("/docs").headers["Content-Security-Policy"]
    assert client.get("/docs/files/../main.py").status_code == 404


@pytest.mark.parametrize("code", sorted(PROBLEMS))
def test_every_code_has_a_page(app: Flask, code: str) -> None:
    page = client_without_token(app).get(f"/problems/{code}")
    assert page.status_code == 200
    assert PROBLEMS[code].advice in page.text


def test_unknown_pages_and_methods_are_problems_too(api: Client) -> None:
    missing = api.get("/v1/nothing")
    assert (missing.status_code, missing.json["code"]) == (404, "not_found")
    assert "'/v1/nothing'" in missing.json["detail"]
    wrong = api.put("/v1/plans", json={})
    assert (wrong.status_code, wrong.json["code"]) == (405, "method_not_allowed")
    assert "POST" in wrong.headers["Allow"]
    assert "PUT is not allowed on '/v1/plans'; it takes GET, HEAD, OPTIONS, POST" in wrong.json["detail"]


def test_request_ids_go_in_and_out(api: Client) -> None:
    assert api.get("/healthz", headers={"X-Request-ID": "mine-1"}).headers["X-Request-ID"] == "mine-1"
    assert re.fullmatch("[0-9a-f]{32}", api.get("/healthz").headers["X-Request-ID"])
    for bad in ("a b", "x" * 129, '"'):
        answer = api.get("/healthz", headers={"X-Request-ID": bad})
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_header")
        assert answer.headers["X-Request-ID"] != bad


def test_without_a_worker_it_is_healthy_but_not_ready(api: Client) -> None:
    assert api.get("/healthz").json == {"status": "ok"}
    answer = api.get("/readyz")
    assert (answer.status_code, answer.json["ready"]) == (503, False)
    checks = answer.json["checks"]
    assert checks["broker"]["ok"] is True
    assert checks["store"]["ok"] is True
    assert checks["worker"] == {"ok": False, "detail": "no worker has ever beaten; start one"}


def test_metrics_tell_of_queue_and_requests(api: Client) -> None:
    text = api.get("/metrics").text
    for name in ("queue_depth", "queue_oldest_seconds", "plans", "broker_up", "http_requests_total"):
        assert f"\nmonkeytree_{name}" in text


def test_a_failure_is_a_problem_without_a_traceback(parts: Rig) -> None:
    app = create_app(replace(parts.settings, rate_limit=""))
    app.extensions["monkeytree"].store.close()
    app.extensions["monkeytree"].store = None
    answer = client_without_token(app).get("/v1/plans", headers={"Authorization": "Bearer x"})
    assert (answer.status_code, answer.json["code"]) == (500, "internal")
    assert "Traceback" not in answer.text
    assert "NoneType" not in answer.text


def test_the_rate_limit(parts: Rig) -> None:
    app = create_app(replace(parts.settings, rate_limit="3 per minute"))
    token = parts.store.add_token("limited", ["researcher"])
    client = client_without_token(app)
    headers = {"Authorization": f"Bearer {token}"}
    answers = [client.get("/v1/plans", headers=headers) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[3].json["code"] == "rate_limited"
    assert int(answers[3].headers["Retry-After"]) > 0
    assert "Retry-After" not in answers[0].headers
    assert client.get("/v1/plans").status_code == 401, "another caller has a limit of its own"
    assert client.get("/healthz").status_code == 200


def test_the_rate_limit_holds_without_a_broker(parts: Rig) -> None:
    app = create_app(replace(parts.settings, rate_limit="2 per minute", redis_url="redis://127.0.0.1:1"))
    client = client_without_token(app)
    headers = {"Authorization": f"Bearer {parts.token}"}
    assert [client.get("/v1/plans", headers=headers).status_code for _ in range(3)] == [200, 200, 429]


def test_callers_who_meet_the_broker_silent_at_once_are_all_answered(parts: Rig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        app = create_app(replace(parts.settings, redis_url=url))
        headers = {"Authorization": f"Bearer {parts.token}"}
        start = Barrier(8)

        def call(_: int) -> int:
            client = client_without_token(app)
            start.wait(60)
            return client.get("/v1/plans", headers=headers).status_code

        with ThreadPoolExecutor(8) as threads:
            assert set(threads.map(call, range(8))) == {200}


def test_double_slashes_are_no_redirect(api: Client) -> None:
    answer = api.get("/v1//plans", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.json["code"]) == (404, "not_found")


def test_a_range_beyond_the_end_is_a_problem(app: Flask) -> None:
    client = client_without_token(app)
    answer = client.get("/docs/files/swagger-ui.css", headers={"Range": "bytes=99999999-"})
    assert (answer.status_code, answer.json["code"], answer.json["status"]) == (416, "bad_request", 416)
    assert answer.headers["Content-Range"].startswith("bytes */")


def test_methods_that_are_made_up_share_one_figure(app: Flask) -> None:
    client = client_without_token(app)
    for method in ("FOO", "BAR"):
        assert client.open("/healthz", method=method).status_code == 405
    text = client.get("/metrics").text
    assert 'method="other"' in text
    assert "FOO" not in text


def test_a_store_that_refuses_is_a_503_that_may_be_retried(parts: Rig, tmp_path: Path) -> None:
    settings = replace(parts.settings, database_url=f"sqlite:///{tmp_path}/gone.db", rate_limit="")
    app = create_app(settings)
    store = app.extensions["monkeytree"].store
    store.close()
    for file in tmp_path.iterdir():
        file.unlink()
    (tmp_path / "gone.db").mkdir()
    answer = client_without_token(app).get("/v1/plans", headers={"Authorization": "Bearer x"})
    assert (answer.status_code, answer.json["code"]) == (503, "store_unavailable")
    assert answer.headers["Retry-After"] == "5"
    assert "sqlite" not in answer.text
