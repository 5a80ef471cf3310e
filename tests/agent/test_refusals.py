"""What an agent refuses: by its stable code, and without harm to the job."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from monkeytree.adapters.agents import AgentClient, AgentRefused, AgentUnreachable
from monkeytree.agent.channel import Channel
from monkeytree.agent.client import register_worker
from monkeytree.wire.agent_schemas import read_document
from monkeytree.wire.agents import (
    Command,
    MoveRequest,
    PauseMove,
    PauseRequest,
    Route,
    RouteTable,
    Seat,
    dump,
    restore_move,
    restore_pause,
)
from monkeytree.wire.signing import sign

from .rig import Job, Moving, Rig, eventually


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rig, Job]]:
    """Two agents, and a job of one rank that trains through all that is refused."""
    rig = Rig(tmp_path_factory.mktemp("refusals"))
    rig.agent("n1")
    rig.agent("n2", arena_bytes=3_000_000)
    job = rig.job(["n1"])
    job.ready()
    job.epoch = 10
    yield rig, job
    job.assert_unharmed(job.stop())
    rig.close()


def refusal(call: Any, *arguments: Any) -> AgentRefused:
    with pytest.raises(AgentRefused) as caught:
        call(*arguments)
    return caught.value


def test_a_wrong_token_and_none(placed: tuple[Rig, Job]) -> None:
    url = placed[0].agents["n1"].client.url
    assert refusal(AgentClient(url, "mta_wrong", "n1").workers).reason == "unauthenticated"
    answer = httpx.get(url + "/v1/workers")
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["Content-Type"] == "application/problem+json"
    answer = httpx.get(url + "/v1/workers", headers={"Authorization": "Bearer mta_wrong"})
    assert answer.status_code == 401
    assert httpx.get(url + "/healthz").json()["node"] == "n1"
    eventually(lambda: "monkeytree_agent_workers 1.0" in httpx.get(url + "/metrics").text)


def test_a_bearer_token_is_as_good(placed: tuple[Rig, Job]) -> None:
    agent = placed[0].agents["n1"]
    secret = (agent.folder / "token").read_text().strip()
    answer = httpx.get(agent.client.url + "/v1/workers", headers={"Authorization": f"Bearer {secret}"})
    assert [worker["job"] for worker in answer.json()["workers"]] == ["A"]


def test_a_replayed_command(placed: tuple[Rig, Job]) -> None:
    agent = placed[0].agents["n1"]
    secret = (agent.folder / "token").read_text().strip()
    body = json.dumps(dump(RouteTable(0))).encode()
    headers = {"Authorization": sign(secret, "n1", "PUT", "/v1/routes", body)}

    def send(**more: str) -> httpx.Response:
        url = agent.client.url + "/v1/routes"
        return httpx.put(url, content=body, headers={**headers, **more})

    assert send().status_code == 200
    assert send().json()["code"] == "replayed_request"
    old = sign(secret, "n1", "PUT", "/v1/routes", body, now=1.0)
    assert send(Authorization=old).json()["code"] == "replayed_request"
    other = sign(secret, "n1", "PUT", "/v1/moves/x", body)
    assert send(Authorization=other).json()["code"] == "unauthenticated"


def test_what_was_sent_to_one_agent_is_worth_nothing_at_another(placed: tuple[Rig, Job]) -> None:
    agent = placed[0].agents["n1"]
    secret = (agent.folder / "token").read_text().strip()
    headers = {"Authorization": sign(secret, "n2", "GET", "/v1/workers", b"")}
    answer = httpx.get(agent.client.url + "/v1/workers", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert "'n1'" in answer.json()["detail"]
    stranger = AgentClient(agent.client.url, secret, "n2")
    assert refusal(stranger.workers).reason == "unauthenticated"


def test_a_stale_epoch(placed: tuple[Rig, Job]) -> None:
    rig, job = placed
    moving = job.begin(0, "n2")
    here = rig.agents["n1"].client
    request = moving.request(0, "source")
    assert here.put_move("stale", request).state == "NEW"
    older = dataclasses.replace(request, epoch=request.epoch - 1)
    refused = refusal(here.put_move, "older", older)
    assert (refused.status, refused.reason, refused.problem["seen"]) == (409, "stale_epoch", request.epoch)
    assert refusal(here.abort_move, "stale", Command(request.epoch - 1)).reason == "stale_epoch"
    assert here.abort_move("stale", Command(request.epoch)).state == "ABORTED"
    assert here.abort_move("stale", Command(request.epoch)).state == "ABORTED"


def test_the_same_body_again_and_another(placed: tuple[Rig, Job]) -> None:
    rig, job = placed
    here = rig.agents["n1"].client
    request = job.begin(0, "n2").request(0, "source")
    first = here.put_move("twice", request)
    assert here.put_move("twice", request) == first
    assert refusal(here.put_move, "twice", dataclasses.replace(request, warm=False)).reason == "conflict"
    assert refusal(here.start_move, "twice", Command(request.epoch)).reason == "not_prepared"
    assert refusal(here.commit_move, "twice", Command(request.epoch)).reason == "not_decided"
    here.abort_move("twice", Command(request.epoch))


def test_a_node_takes_the_moves_of_one_execution_at_a_time(placed: tuple[Rig, Job]) -> None:
    rig, job = placed
    there = rig.agents["n2"].client
    request = dataclasses.replace(job.begin(0, "n2").request(0, "destination"), state_bytes=1_000)
    there.put_move("first", request)
    refused = refusal(there.put_move, "other", dataclasses.replace(request, job="B"))
    assert (refused.status, refused.reason) == (429, "moves_full")
    assert refused.retry_after_s
    there.abort_move("first", Command(request.epoch))


def test_a_full_arena(placed: tuple[Rig, Job]) -> None:
    rig, job = placed
    request = dataclasses.replace(job.begin(0, "n2").request(0, "destination"), state_bytes=4_000_000)
    refused = refusal(rig.agents["n2"].client.put_move, "large", request)
    assert (refused.status, refused.reason) == (429, "arena_full")
    assert refused.retry_after_s


def test_what_is_not_here(placed: tuple[Rig, Job]) -> None:
    rig, job = placed
    here = rig.agents["n1"].client
    request = job.begin(0, "n2").request(0, "source")
    assert refusal(here.move, "nothing").reason == "not_found"
    gone = dataclasses.replace(request, rank=7)
    assert refusal(here.put_move, "gone", gone).reason == "unknown_worker"
    assert refusal(rig.agents["n2"].client.put_move, "wrong", request).reason == "wrong_node"
    verbs = dataclasses.replace(request, transport="verbs")
    assert refusal(here.put_move, "verbs", verbs).reason == "transport_unavailable"
    pause = dataclasses.replace(Moving(job, job.epoch, {}).pause_request(), members=())
    refused = refusal(here.put_pause, "nobody", pause)
    assert (refused.reason, refused.problem["unexpected"]) == ("wrong_members", ["0/0"])


def test_one_epoch_is_one_pause_and_a_job_is_in_one_at_a_time(placed: tuple[Rig, Job]) -> None:
    rig, job = placed
    here = rig.agents["n1"].client
    job.epoch += 1
    request = Moving(job, job.epoch, {}).pause_request()
    elsewhere = Seat("0", 1, "n9")  # a rank that never comes: the pause stays armed
    request = dataclasses.replace(request, members=(*request.members, elsewhere))
    here.put_pause("first", request)
    assert refusal(here.put_pause, "again", request).reason == "conflict"
    here.start_pause("first", Command(job.epoch))
    later = dataclasses.replace(request, epoch=request.epoch + 1)
    assert refusal(here.put_pause, "later", later).reason == "busy"
    job.epoch += 1
    here.abort_pause("first", Command(job.epoch))
    assert eventually(lambda: (s := here.pause("first")).final and s).state == "ABORTED"
    assert here.put_pause("later", later).state == "NEW"
    assert here.abort_pause("later", Command(job.epoch)).state == "ABORTED"


def test_an_invalid_body_names_every_offence(placed: tuple[Rig, Job]) -> None:
    agent = placed[0].agents["n1"]
    secret = (agent.folder / "token").read_text().strip()
    answer = httpx.put(
        agent.client.url + "/v1/moves/bad",
        json={"epoch": 0, "job": "A", "role": "both", "extra": 1},
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert answer.status_code == 422
    pointers = {error["pointer"] for error in answer.json()["errors"]}
    assert {"/epoch", "/role", "/extra", "/group", "/rank", "/from", "/to"} <= pointers


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"standby_env": {"A=B": "c"}}, "/standby_env/A=B"),
        ({"standby_env": {"A\0": "c"}}, "/standby_env/A\0"),
        ({"standby_env": {"A": "c\0d"}}, "/standby_env/A"),
        ({"standby_command": ["python", "-c\0"]}, "/standby_command/1"),
    ],
)
def test_what_no_process_can_be_started_with_is_refused(
    placed: tuple[Rig, Job], more: dict[str, Any], pointer: str
) -> None:
    agent = placed[0].agents["n2"]
    secret = (agent.folder / "token").read_text().strip()
    request = MoveRequest(99, "B", "0", 0, "destination", "n1", "n2", standby_command=("true",))
    answer = httpx.put(
        agent.client.url + "/v1/moves/unstartable",
        json=dump(request) | more,
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    with pytest.raises(ValueError, match="standby"):
        register_worker(
            "B", 0, None, None, restore_fn=None, world_size=1, store=None, socket="",
            standby_command=more.get("standby_command", ()), standby_env=more.get("standby_env"),
        )  # fmt: skip


def test_a_standby_that_cannot_be_started_is_told_as_such(placed: tuple[Rig, Job]) -> None:
    there = placed[0].agents["n2"].client
    request = MoveRequest(100, "B", "0", 0, "destination", "n1", "n2", standby_command=("no/such/program",))
    there.put_move("unstarted", request)
    there.prepare_move("unstarted", Command(100))
    status = eventually(lambda: (s := there.move("unstarted")).final and s)
    assert (status.state, status.error["code"]) == ("ABORTED", "standby_failed")
    assert "no/such/program" in status.error["message"]


def test_a_port_that_no_flow_label_reaches_is_refused(placed: tuple[Rig, Job]) -> None:
    client = placed[0].agents["n1"].client
    refused = refusal(client.put_routes, RouteTable(5, (Route("10.0.0.1", "10.0.0.2", 1),)))
    assert refused.reason == "invalid_request"
    assert refused.problem["errors"][0]["pointer"] == "/routes/0/port"


def test_the_token_of_a_move_lets_one_in_once(placed: tuple[Rig, Job]) -> None:
    rig, job = placed
    there = rig.agents["n2"].client
    moving = job.begin(0, "n2")
    there.put_move("door", moving.request(0, "destination"))
    there.prepare_move("door", moving.command)
    descriptor = eventually(lambda: there.move("door").descriptor)
    told = [say(descriptor, token) for token in ("wrong", descriptor["token"], descriptor["token"])]
    assert told == ["failed", "welcome", "failed"]
    there.abort_move("door", moving.command)
    assert eventually(lambda: (s := there.move("door")).final and s).state == "ABORTED"


def say(descriptor: dict[str, Any], token: str) -> str:
    """What the destination's mover answers to a caller with that token."""
    channel = Channel(socket.create_connection((descriptor["host"], descriptor["port"]), 5))
    channel.send("hello", token=token, move="door", layout=None)
    answer = channel.receive(10)
    _KEPT.append(channel)
    return answer.kind if answer else "nothing"


_KEPT: list[Channel] = []


def test_routes_are_a_table_and_a_file_for_shims(placed: tuple[Rig, Job]) -> None:
    agent = placed[0].agents["n1"]
    routes = (
        Route("10.0.0.1", "10.0.0.2", 49_153, 1, "A", 0),
        Route("10.0.0.1", "10.0.0.2", 49_160),
        Route("10.0.0.1", "10.0.0.3", 50_000),
    )
    table = RouteTable(5, routes)
    assert agent.client.put_routes(table) == table
    assert agent.client.put_routes(table) == agent.client.routes()
    assert refusal(agent.client.put_routes, RouteTable(4)).reason == "stale_epoch"
    lines = (agent.folder / "routes.txt").read_text()
    assert lines == "10.0.0.1,10.0.0.2=49153,49160\n10.0.0.1,10.0.0.3=50000\n"


def test_nobody_there_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(AgentUnreachable):
        AgentClient(f"http://127.0.0.1:{port}", "x", "n1").workers()


def test_documents_survive_the_trip() -> None:
    move = MoveRequest(1, "A", "0", 1, "source", "n1", "n2", standby_command=("x",), standby_env={"a": "b"})
    pause = PauseRequest(
        1, "A", (Seat("0", 0, "n1"),), (PauseMove("m", "0", 0, "n1", "n2"),), {"0": (0,)}, plan_id="p"
    )
    for request, restore in ((move, restore_move), (pause, restore_pause)):
        document = json.loads(json.dumps(dump(request)))
        assert restore(document) == read_document(type(request), document) == request
