"""Executions, agents and reservations over HTTP, without a worker of their queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from monkeytree.adapters.tokens import ROLES
from monkeytree.service.main import create_app
from tests.service.client import Client, client_without_token

from .conftest import ROOMY, Site, move

Sites = Callable[..., Site]
MOVE = move("A", 1, "r2n0", "r1n2")


def client(site: Site, *roles: str, clusters: tuple[str, ...] = ()) -> Client:
    """A client of a new application on the site's store."""
    made = client_without_token(create_app(site.settings))
    name = f"t{len(site.store.list_tokens())}"
    token = site.store.add_token(name, roles or ROLES, clusters)
    made.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return made


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Name and document of the events in a stream."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in block.splitlines() if ": " in line)
        if "data" in lines:
            found.append((lines["event"], orjson.loads(lines["data"])))
    return found


def test_an_execution_is_taken_read_listed_and_cancelled(site_of: Sites) -> None:
    site = site_of()
    api, plan = client(site), site.plan(MOVE)
    asked = {"plan_id": plan, "expected_sequence": 7, "on_failure": "continue"}
    answer = api.post("/v1/executions", json=asked, headers={"Idempotency-Key": "k"})
    assert answer.status_code == 202, answer.text
    where, document = answer.headers["Location"], answer.json
    assert where == f"/v1/executions/{document['id']}"
    assert (document["state"], document["waves"], document["steps_done"]) == ("queued", 1, 0)
    assert document["steps"][0] | {"from": "r2n0", "to": "r1n2", "state": "waiting"} == document["steps"][0]
    again = api.post("/v1/executions", json=asked, headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.json["id"]) == (202, document["id"])
    refused = api.post("/v1/executions", json=asked)
    assert (refused.status_code, refused.json["code"]) == (409, "execution_overlaps")
    assert document["id"] in refused.json["detail"]
    read = api.get(where)
    assert api.get(where, headers={"If-None-Match": read.headers["ETag"]}).status_code == 304
    (listed,) = api.get("/v1/executions", query_string={"plan_id": plan}).json["items"]
    assert listed["id"] == document["id"]
    assert "steps" not in listed
    (held,) = api.get("/v1/reservations?cluster=east").json["items"]
    assert (held["node"], held["slots"], held["filled"]) == ("r1n2", 1, False)
    ended = api.post(f"{where}/cancel", headers={"Idempotency-Key": "c"})
    assert (ended.status_code, ended.json["state"], ended.json["steps"][0]["state"]) == (
        200,
        "cancelled",
        "skipped",
    )
    again = api.post(f"{where}/cancel", headers={"Idempotency-Key": "c"})
    assert (again.status_code, again.json["state"]) == (200, "cancelled")
    twice = api.post(f"{where}/cancel")
    assert (twice.status_code, twice.json["code"]) == (409, "not_cancellable")
    assert api.get("/v1/reservations").json["items"] == []
    for unknown in (api.get("/v1/executions/nowhere"), api.post("/v1/executions/%00/cancel")):
        assert (unknown.status_code, unknown.json["code"]) == (404, "unknown_execution")


def test_a_wrong_request_is_refused_by_pointer(site_of: Sites) -> None:
    api = client(site_of())
    for body, pointer in (
        ({}, "/plan_id"),
        ({"plan_id": "p", "on_failure": "retry"}, "/on_failure"),
        ({"plan_id": "p", "expected_sequence": -1}, "/expected_sequence"),
        ({"plan_id": "p", "dry_run": "yes"}, "/dry_run"),
        ({"plan_id": "p", "force": True}, "/force"),
    ):
        answer = api.post("/v1/executions", json=body)
        assert (answer.status_code, answer.json["code"]) == (422, "invalid_request")
        assert [error["pointer"] for error in answer.json["errors"]] == [pointer]
    assert api.post("/v1/executions", json={"plan_id": "p"}).json["code"] == "unknown_plan"


def test_a_refusal_has_its_name_and_its_differences(site_of: Sites) -> None:
    site = site_of()
    api, plan = client(site), site.plan(MOVE)
    site.send({**ROOMY, "sequence": 8, "jobs": [ROOMY["jobs"][0]]})
    answer = api.post("/v1/executions", json={"plan_id": plan})
    assert (answer.status_code, answer.json["code"]) == (409, "cluster_changed")
    assert answer.json["errors"][0]["value"] == {
        "subject": "group B/0", "expected": "2 workers", "found": "gone",
    }  # fmt: skip
    off = site_of(executions="")
    answer = client(off).post("/v1/executions", json={"plan_id": off.plan(MOVE)})
    assert (answer.status_code, answer.json["code"]) == (403, "executions_disabled")


def test_a_dry_run_tells_the_calls_that_a_run_then_makes(site_of: Sites) -> None:
    site = site_of()
    api = client(site)
    plan = site.plan(MOVE, move("B", 0, "r1n1", "r2n2", wave=1))
    answer = api.post("/v1/executions", json={"plan_id": plan, "dry_run": True})
    assert (answer.status_code, answer.json["refusals"]) == (200, [])
    assert site.nodes.memory.calls == []
    assert api.get("/v1/executions").json["items"] == []
    told = answer.json["calls"]
    assert told[0]["url"].startswith(site.nodes.url("r1n2") + "/v1/moves/00000000-")
    assert {call["wave"] for call in told} == {0, 1}
    assert told[0]["body"]["from"] == "r2n0"
    execution = site.order(plan)
    assert site.run(execution) == "done"
    verbs = {"PUT": "put"}
    wanted = sorted(
        (call["node"], verbs.get(call["method"]) or call["url"].rpartition("/")[2], noun_of(call["url"]))
        for call in told
        if call["method"] != "GET"
    )
    made = sorted(
        (node, name.partition("_")[0], name.partition("_")[2])
        for node, name, _ in site.nodes.memory.calls
        if "_" in name
    )
    assert made == wanted


def noun_of(url: str) -> str:
    """``move`` or ``pause``."""
    return "move" if "/moves/" in url else "pause"


def test_a_dry_run_lists_all_that_is_against_it(site_of: Sites) -> None:
    site = site_of(executions="", moves_per_hour=1)
    plan = site.plan(MOVE, move("B", 0, "r1n1", "r2n2"))
    answer = client(site).post(
        "/v1/executions", json={"plan_id": plan, "expected_sequence": 3, "dry_run": True}
    )
    codes = [refusal["code"] for refusal in answer.json["refusals"]]
    assert codes == ["executions_disabled", "sequence_mismatch", "move_limit"]
    assert answer.json["calls"]


def test_progress_is_streamed_until_the_end(site_of: Sites) -> None:
    site = site_of()
    api, execution = client(site), site.order(site.plan(MOVE))
    threading.Timer(0.3, site.run, [execution]).start()
    answer = api.get(f"/v1/executions/{execution}", headers={"Accept": "text/event-stream"})
    assert answer.content_type.startswith("text/event-stream")
    told = events(answer.text)
    assert told[0][1]["state"] == "queued"
    name, last = told[-1]
    assert (name, last["state"], last["steps"][0]["state"]) == ("end", "done", "done")
    assert any(document["state"] == "running" for _, document in told)
    tag = [line for line in answer.text.splitlines() if line.startswith("id: ")][-1].removeprefix("id: ")
    seen = api.get(
        f"/v1/executions/{execution}", headers={"Accept": "text/event-stream", "Last-Event-ID": tag}
    )
    assert events(seen.text) == []


def test_agents_announce_themselves_and_beat(site_of: Sites) -> None:
    site = site_of()
    site.send(ROOMY)
    api = client(site, "agent")
    said = {"node": "r1n0", "url": "http://10.0.0.7:7000/", "epoch": 2, "capabilities": {"slots": 8}}
    first = api.post("/v1/agents", json=said)
    assert (first.status_code, first.json["url"], first.json["cluster"]) == (
        201,
        "http://10.0.0.7:7000",
        "east",
    )
    assert api.post("/v1/agents", json=said).status_code == 200
    for change in ({"epoch": 1}, {"url": "http://10.0.0.8:7000"}):
        refused = api.post("/v1/agents", json={**said, **change})
        assert (refused.status_code, refused.json["code"]) == (409, "stale_agent")
    moved = api.post("/v1/agents", json={**said, "epoch": 3, "url": "http://10.0.0.8:7000"})
    assert (moved.status_code, moved.json["epoch"]) == (201, 3)
    listed = api.get("/v1/agents?cluster=east").json["items"]
    (mine,) = [agent for agent in listed if agent["node"] == "r1n0"]
    assert (mine["alive"], mine["capabilities"]) == (True, {"slots": 8})


@pytest.mark.parametrize(
    "url",
    [
        "ftp://10.0.0.7", "http://", "http://me:secret@10.0.0.7", "http://10.0.0.7/elsewhere", "10.0.0.7:80",
        "http://10.0.0.7?x=1", "http://10.0.0.7#x", "http://169.254.169.254", "http://0.0.0.0:80",
        "http://10.0.0.7:99999", "http://ho st", "http://evil.example:80", "http://[::1",
    ],
)  # fmt: skip
def test_only_urls_of_agents_are_taken(site_of: Sites, url: str) -> None:
    site = site_of(agent_hosts="10.0.0.0/8, *.prod.example")
    api = client(site)
    answer = api.post("/v1/agents", json={"node": "r1n0", "url": url, "epoch": 9})
    assert (answer.status_code, answer.json["errors"][0]["pointer"]) == (422, "/url")


def test_only_nodes_of_the_snapshot_and_clusters_of_the_token(site_of: Sites) -> None:
    site = site_of()
    site.send(ROOMY)
    api = client(site)
    said = {"node": "r9n0", "url": "http://10.0.0.7:1", "epoch": 9}
    for body in (said, said | {"cluster": "east"}, said | {"cluster": "west"}):
        answer = api.post("/v1/agents", json=body)
        assert (answer.status_code, answer.json["code"]) == (404, "unknown_node")
    stranger = client(site, "agent", clusters=("west",))
    answer = stranger.post("/v1/agents", json=said | {"cluster": "east", "node": "r1n0"})
    assert (answer.status_code, answer.json["code"]) == (403, "forbidden_cluster")
    site.send({**ROOMY, "cluster": "west"})
    both = api.post("/v1/agents", json=said | {"node": "r1n0"})
    assert (both.status_code, both.json["errors"][0]["pointer"]) == (422, "/cluster")
    assert stranger.post("/v1/agents", json=said | {"node": "r1n0"}).json["cluster"] == "west"


def test_a_token_of_other_clusters_sees_nothing(site_of: Sites) -> None:
    site = site_of()
    execution, plan = site.order(site.plan(MOVE)), site.plan_again(MOVE)
    stranger = client(site, *ROLES, clusters=("west",))
    for answer in (
        stranger.get(f"/v1/executions/{execution}"),
        stranger.post(f"/v1/executions/{execution}/cancel"),
        stranger.post("/v1/executions", json={"plan_id": plan}),
        stranger.get("/v1/reservations?cluster=east"),
    ):
        assert (answer.status_code, answer.json["code"]) == (403, "forbidden_cluster")
    for path in ("/v1/executions", "/v1/agents", "/v1/reservations"):
        assert stranger.get(path).json["items"] == []
