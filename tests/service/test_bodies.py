"""What may be sent, and how."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any

import pytest

from tests.integration.documents import snapshot

from .client import Answer, Client
from .conftest import Clients

JSON = {"Content-Type": "application/json"}


def send(api: Client, body: bytes, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.post("/v1/snapshots", data=body, headers={**JSON, **named})


def raw(api: Client, stream: io.BytesIO, declared: int) -> Answer:
    """A body as gunicorn hands it over: the stream ends by itself, whatever was declared."""
    environ = {"wsgi.input": stream, "wsgi.input_terminated": True, "CONTENT_LENGTH": str(declared)}
    return api.post("/v1/snapshots", headers=JSON, environ_overrides=environ)


def encoded(cluster: str, **more: Any) -> bytes:
    return json.dumps(snapshot(cluster, **more)).encode()


def padded(cluster: str, size: int) -> bytes:
    """A valid snapshot of ``size`` bytes (blanks between members do not count)."""
    body = encoded(cluster)
    return body[:-1] + b" " * (size - len(body)) + b"}"


def test_gzip_is_the_same_snapshot(api: Client, cluster: str) -> None:
    plain = send(api, encoded(cluster))
    zipped = send(api, gzip.compress(encoded(cluster)), Content_Encoding="gzip")
    assert (plain.status_code, zipped.status_code) == (202, 200)
    assert plain.json["plan_id"] == zipped.json["plan_id"]


@pytest.mark.parametrize("size", [1_000_000, 16 * 2**20])
def test_up_to_16_mib_are_taken(api: Client, cluster: str, size: int) -> None:
    assert send(api, padded(cluster, size)).status_code == 202


def test_more_is_too_large(api: Client, cluster: str) -> None:
    for answer in (
        send(api, padded(cluster, 16 * 2**20 + 1)),
        send(api, gzip.compress(padded(cluster, 16 * 2**20 + 1), 1), Content_Encoding="gzip"),
        send(api, gzip.compress(bytes(2**29), 1), Content_Encoding="gzip"),
    ):
        assert (answer.status_code, answer.json["code"]) == (413, "body_too_large")
        assert "16777216" in answer.json["detail"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_what_is_no_json_is_malformed(api: Client, body: bytes, says: str) -> None:
    answer = send(api, body)
    assert (answer.status_code, answer.json["code"]) == (400, "malformed_body")
    assert says in answer.json["detail"]


@pytest.mark.parametrize(
    "body",
    [b"plain", gzip.compress(b"{}")[:-4], gzip.compress(b"{}") + b"more", b""],
    ids=["no-gzip", "cut", "followed", "empty"],
)
def test_broken_gzip_is_malformed(api: Client, body: bytes) -> None:
    answer = send(api, body, Content_Encoding="gzip")
    assert (answer.status_code, answer.json["code"]) == (400, "malformed_body")


def test_other_types_and_encodings_are_not_supported(api: Client, cluster: str) -> None:
    for headers in ({"Content_Type": "text/plain"}, {"Content_Type": "application/json; charset=latin-1"}):
        answer = send(api, encoded(cluster), **headers)
        assert (answer.status_code, answer.json["code"]) == (415, "unsupported_media_type")
    answer = send(api, encoded(cluster), Content_Encoding="br")
    assert (answer.status_code, answer.json["code"]) == (415, "unsupported_encoding")
    assert "'br'" in answer.json["detail"]


def test_all_offences_come_at_once_by_pointer_and_value(api: Client, cluster: str) -> None:
    document = snapshot(cluster, sequence=-1) | {"extra": 1}
    document["jobs"][0]["replica_groups"][0]["workers"][1] = "nowhere"
    answer = api.post("/v1/snapshots", json=document)
    assert (answer.status_code, answer.json["code"]) == (422, "invalid_snapshot")
    found = {error["pointer"]: error["value"] for error in answer.json["errors"]}
    assert found["/sequence"] == -1
    assert found["/extra"] == 1
    assert found["/jobs/0/replica_groups/0/workers/1"] == "nowhere"
    assert answer.content_type == "application/problem+json"
    assert answer.json["type"] == "/problems/invalid_snapshot"


def test_reserved_members_have_a_code_of_their_own(api: Client, cluster: str) -> None:
    answer = api.post("/v1/snapshots", json=snapshot(cluster, planes=[]))
    assert (answer.status_code, answer.json["code"]) == (422, "unsupported_member")


def test_a_key_twice_is_an_offence(api: Client, cluster: str) -> None:
    body = encoded(cluster)[:-1] + b', "format": 1}'
    answer = send(api, body)
    assert answer.status_code == 422
    assert answer.json["errors"][0]["pointer"] == "/format"


def test_an_unknown_previous_plan_is_an_offence(api: Client, cluster: str) -> None:
    document = snapshot(cluster, planning={"previous_plan_id": "nowhere"})
    answer = api.post("/v1/snapshots", json=document)
    assert answer.status_code == 422
    assert answer.json["errors"][0]["pointer"] == "/planning/previous_plan_id"
    assert answer.json["errors"][0]["value"] == "nowhere"


@pytest.mark.parametrize("solver", ["guess", "Gurobi"])
def test_an_unknown_solver_is_refused_by_name(api: Client, cluster: str, solver: str) -> None:
    answer = api.post("/v1/snapshots", json=snapshot(cluster, planning={"solver": solver}))
    assert (answer.status_code, answer.json["code"]) == (422, "unknown_solver")
    assert repr(solver) in answer.json["detail"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/snapshot_id"),
        ({"snapshot_id": 3}, "/snapshot_id"),
        ({"snapshot_id": "x", "plan": 1}, "/plan"),
        ({"snapshot_id": "x", "planning": {"max_moves": -1}}, "/planning/max_moves"),
        ([], ""),
    ],
)
def test_what_ifs_are_checked_too(api: Client, body: Any, pointer: str) -> None:
    answer = api.post("/v1/plans", json=body)
    assert (answer.status_code, answer.json["code"]) == (422, "invalid_request")
    assert pointer in [error["pointer"] for error in answer.json["errors"]]


@pytest.mark.parametrize("error", [OSError("the peer is gone"), ValueError("Invalid chunk size: 'zz'")])
def test_a_sender_that_breaks_off_is_told_so(api: Client, error: Exception) -> None:
    class Broken(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise error

    answer = raw(api, Broken(), 9)
    assert (answer.status_code, answer.json["code"]) == (400, "malformed_body")
    assert str(error) in answer.json["detail"]


def test_a_body_shorter_than_declared_is_malformed(api: Client, cluster: str) -> None:
    body = encoded(cluster)
    answer = raw(api, io.BytesIO(body[:20]), len(body))
    assert (answer.status_code, answer.json["code"]) == (400, "malformed_body")
    assert f"20 of {len(body)}" in answer.json["detail"]


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("capabilities", "pointer"),
    [
        (json.dumps(nested(253)), "/capabilities" + "/a" * 32),
        (json.dumps(nested(900)), "/capabilities" + "/a" * 32),
        (f'{{"a": {2**70}}}', "/capabilities/a"),
        ('{"a": ["\\ud800"]}', "/capabilities/a/0"),
        ('{"\\ud800": 1}', "/capabilities/\\ud800"),
        ('{"a": 1e400}', "/capabilities/a"),
        ('{"a": "%s"}' % ("x" * 15_000_000), "/capabilities"),
        (json.dumps({str(index): 1 for index in range(33)}), "/capabilities"),
    ],
    ids=["deep", "deeper", "integer", "surrogate", "surrogate-name", "infinite", "large", "many"],
)
def test_what_an_agent_tells_of_itself_is_bounded(
    api: Client, cluster: str, capabilities: str, pointer: str
) -> None:
    node = next(iter(snapshot(cluster)["racks"][0]["nodes"]))
    api.post("/v1/snapshots", json=snapshot(cluster))
    said = {"node": node, "cluster": cluster, "url": "http://10.0.0.7:7000", "epoch": 1}
    body = json.dumps(said)[:-1] + f', "capabilities": {capabilities}}}'
    answer = api.post("/v1/agents", data=body.encode(), headers=JSON)
    assert (answer.status_code, answer.json["code"]) == (422, "invalid_request")
    assert [error["pointer"] for error in answer.json["errors"]] == [pointer]
    listed = api.get("/v1/agents")
    assert listed.status_code == 200
    assert node not in [agent["node"] for agent in listed.json["items"] if agent["cluster"] == cluster]


def test_what_an_agent_tells_of_itself_comes_back(api: Client, cluster: str) -> None:
    node = next(iter(snapshot(cluster)["racks"][0]["nodes"]))
    api.post("/v1/snapshots", json=snapshot(cluster))
    capabilities = {"a": [2**64 - 1, -(2**63), 1.5, None, "\U0001f600"], "b": nested(31)}
    said = {"node": node, "cluster": cluster, "url": "http://10.0.0.7:7000", "epoch": 1}
    made = api.post("/v1/agents", json={**said, "capabilities": capabilities})
    assert (made.status_code, made.json["capabilities"]) == (201, capabilities)


@pytest.mark.parametrize("url", ["http://\ud800:1", "http://h:1/\ud800"])
def test_a_url_that_no_utf8_can_carry_is_refused(api: Client, cluster: str, url: str) -> None:
    node = next(iter(snapshot(cluster)["racks"][0]["nodes"]))
    api.post("/v1/snapshots", json=snapshot(cluster))
    answer = api.post("/v1/agents", json={"node": node, "cluster": cluster, "url": url, "epoch": 1})
    assert (answer.status_code, answer.json["errors"][0]["pointer"]) == (422, "/url")


@pytest.mark.parametrize("number", [-(2**64) + 1, -(2**63) - 1, 2**70])
@pytest.mark.parametrize(
    "path", ["/v1/snapshots", "/v1/plans", "/v1/validations", "/v1/executions", "/v1/agents"]
)
def test_a_number_that_is_too_large_is_refused_everywhere(api: Client, path: str, number: int) -> None:
    answer = api.post(path, json={"sequence": number, "seed": number, "epoch": number, "x": number})
    assert answer.status_code == 422


@pytest.mark.parametrize("path", ["/v1/snapshots", "/v1/validations", "/v1/executions", "/v1/agents"])
def test_very_many_wrong_members_are_counted_and_not_all_listed(api: Client, path: str) -> None:
    body = b"{" + b",".join(b'"u%07d":1' % index for index in range(200_000)) + b"}"
    answer = api.post(path, data=body, headers=JSON)
    assert answer.status_code == 422
    *listed, last = answer.json["errors"]
    assert len(listed) == 1_000
    missing = {"/v1/snapshots": 5, "/v1/validations": 0, "/v1/executions": 1, "/v1/agents": 3}[path]
    assert last["detail"] == f"has at least {199_000 + missing:,} more offences than the 1,000 listed"


@pytest.mark.parametrize("path", ["/v1/agents?cluster=a&cluster=b", "/v1/plans?limit=1&limit=1"])
def test_a_parameter_that_is_given_twice_is_refused(api: Client, path: str) -> None:
    answer = api.get(path)
    assert (answer.status_code, answer.json["code"]) == (422, "invalid_query")
    (error,) = answer.json["errors"]
    assert error["parameter"] in path
    assert "given 2 times" in error["detail"]


def test_two_agents_of_one_epoch_are_told_from_an_older_one(api: Client, cluster: str) -> None:
    node = next(iter(snapshot(cluster)["racks"][0]["nodes"]))
    api.post("/v1/snapshots", json=snapshot(cluster))
    said = {"node": node, "cluster": cluster, "url": "http://10.0.0.7:7000", "epoch": 5}
    assert api.post("/v1/agents", json=said).status_code == 201
    twin = api.post("/v1/agents", json={**said, "url": "http://10.0.0.8:7000"})
    assert (twin.status_code, twin.json["code"]) == (409, "stale_agent")
    assert "http://10.0.0.7:7000 with the same epoch 5" in twin.json["detail"]
    assert "is older" not in twin.json["detail"]
    older = api.post("/v1/agents", json={**said, "epoch": 4})
    assert "epoch 4 is older" in older.json["detail"]


def test_who_has_no_token_is_told_how_to_make_one(client_of: Clients) -> None:
    answer = client_of(token="mt_unknown").get("/v1/plans")
    assert answer.status_code == 401
    assert "monkeytree token add NAME --role ROLE" in answer.json["detail"]
