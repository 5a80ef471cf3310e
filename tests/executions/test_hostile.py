"""What an execution meets that nobody planned: doubled workers, a store that goes away, agents that lie."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from monkeytree.adapters.agents import AgentClient, AgentUnreachable
from monkeytree.adapters.executions_journal import CallJournal
from monkeytree.adapters.executions_match import worker_differences
from monkeytree.wire.agents import WorkerStatus

from .conftest import ROOMY, Site, move
from .test_http import client

Sites = Callable[..., Site]
MOVE = move("A", 1, "r2n0", "r1n2")


def test_a_worker_that_two_nodes_have_stops_it(site_of: Sites) -> None:
    site = site_of()
    execution = site.order(site.plan(MOVE))
    (twin,) = site.nodes.memory.workers["r2n0"]
    site.nodes.memory.workers["r1n2"].append(twin)  # on the very node that the worker is to go to
    assert site.run(execution) == "failed"
    row = site.store.executions.find(execution)
    assert row.failure_code == "cluster_changed"
    assert [one["found"] for one in row.difference] == ["on r1n2 and on r2n0"]
    assert site.nodes.named("put_move") == []


def test_workers_on_their_way_are_right_wherever_they_are() -> None:
    def told(job: str) -> WorkerStatus:
        return WorkerStatus(job, "0", 0, "training", 1, 1, 1)

    places = {("A", "0", 0): "n1", ("B", "0", 0): "n2"}
    here = {"n1": [told("A"), told("B")]}  # B's move from n2 to n1 was begun by a worker that died
    assert worker_differences(places, ["A"], here, {("B", "0", 0)}) == []
    (found,) = worker_differences(places, ["A"], here)
    assert (found.expected, found.found) == ("on n2", "on n1")


def test_a_store_that_goes_away_does_not_end_it(site_of: Sites, monkeypatch: pytest.MonkeyPatch) -> None:
    site = site_of()
    execution = site.order(site.plan(MOVE))
    begin, seen = CallJournal.begin_call, []

    def fail_once(self: CallJournal, *arguments: Any) -> int:
        seen.append(arguments)
        if len(seen) == 8:
            raise OperationalError("INSERT", {}, Exception("database is locked"))
        return begin(self, *arguments)

    monkeypatch.setattr(CallJournal, "begin_call", fail_once)
    assert site.run(execution) == "running", "its moves may be under way: another worker takes it up"
    assert [one.node for one in site.store.reservations()] == ["r1n2"]
    row = site.store.executions.find(execution)
    assert site.store.executions.expire(execution, row.attempt)
    site.store.executions.requeue_expired(3)
    assert site.run(execution) == "done"
    assert site.nodes.where()["A", "0", 1] == "r1n2"


def test_a_node_that_lost_its_disk_gets_its_agent_back(site_of: Sites) -> None:
    site = site_of(agent_gone_s=0.3)
    site.send(ROOMY)
    api = client(site, "agent")
    said = {"node": "r1n0", "url": "http://10.0.0.7:7000", "epoch": 2**62}
    assert api.post("/v1/agents", json=said).status_code == 201
    anew = {**said, "url": "http://10.0.0.8:7000", "epoch": 1}
    assert api.post("/v1/agents", json=anew).json["code"] == "stale_agent"
    time.sleep(0.4)
    answer = api.post("/v1/agents", json=anew)
    assert (answer.status_code, answer.json["epoch"]) == (201, 1)


def test_the_beats_of_many_agents_pass_the_rate_limit(site_of: Sites) -> None:
    site = site_of(rate_limit="3 per minute")
    site.send(ROOMY)
    api, stranger = client(site, "agent"), client(site, "researcher")
    said = {"node": "r1n0", "url": "http://10.0.0.7:7000", "epoch": 9}
    assert {api.post("/v1/agents", json=said).status_code for _ in range(6)} == {200, 201}
    assert [api.get("/v1/agents").status_code for _ in range(5)][-1] == 429
    assert [stranger.post("/v1/agents", json=said).status_code for _ in range(5)] == [403] * 3 + [429] * 2


@pytest.mark.parametrize(
    "host",
    [
        "2852039166", "0xa9fea9fe", "169.254.43518", "0", "127.1", "0251.0376.0251.0376", "169.254.169.254.",
        "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[fe80::1]", "[::]", "[::ffff:0.0.0.0]",
    ],
)  # fmt: skip
def test_no_other_way_to_write_a_forbidden_address(site_of: Sites, host: str) -> None:
    site = site_of()
    site.send(ROOMY)
    answer = client(site).post("/v1/agents", json={"node": "r1n0", "url": f"http://{host}:80", "epoch": 9})
    assert (answer.status_code, answer.json["errors"][0]["pointer"]) == (422, "/url")


@pytest.mark.parametrize("host", ["[::1]", "[fd00::7]", "10.0.0.7", "node-7", "gpu.prod.example", "n1.rack2"])
def test_addresses_and_names_that_are_fine(site_of: Sites, host: str) -> None:
    site = site_of()
    site.send(ROOMY)
    said = {"node": "r1n0", "url": f"http://{host}:80", "epoch": 9}
    assert client(site).post("/v1/agents", json=said).status_code == 201


def test_networks_also_hold_for_mapped_addresses(site_of: Sites) -> None:
    site = site_of(agent_hosts="10.0.0.0/8")
    site.send(ROOMY)
    api = client(site)
    for host, status in (("[::ffff:10.0.0.7]", 201), ("[::ffff:192.168.0.7]", 422)):
        said = {"node": "r1n0", "url": f"http://{host}:80", "epoch": 9}
        assert api.post("/v1/agents", json=said).status_code == status


@contextmanager
def agent_that(answers: Callable[[socket.socket], None]) -> Iterator[AgentClient]:
    """A client of an agent that answers so."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(2**16)
                    answers(connection)

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with AgentClient(url, "x", "n1", timeout_s=0.5) as agent:
            yield agent


def test_an_agent_whose_answer_never_ends_is_given_up() -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(100):
            connection.sendall(b" ")
            time.sleep(0.1)

    with agent_that(drip) as agent, pytest.raises(AgentUnreachable, match="not all there within"):
        agent.workers()


def test_an_agent_that_says_too_much_is_given_up() -> None:
    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        while True:
            connection.sendall(bytes(2**20))

    with agent_that(flood) as agent, pytest.raises(AgentUnreachable, match=r"longer than|not all there"):
        agent.workers()


@pytest.mark.parametrize(
    "worse",
    [
        b'{"token":%d}' % 2**90,
        b'{"token":"\\ud800"}',
        b'{"a":' * 300 + b"{}" + b"}" * 300,
        b'{"a":' * 20_000 + b"{}" + b"}" * 20_000,
        b'{"token":1e400}',
    ],
    ids=["integer", "surrogate", "deep", "deeper", "infinite"],
)
def test_an_answer_that_cannot_be_taken_gives_the_move_up(site_of: Sites, worse: bytes) -> None:
    site = site_of()
    execution = site.order(site.plan(MOVE))

    def lie(node: str, path: str, answer: bytes) -> bytes:
        if node == "r1n2" and "/moves/" in path and "PREPARED" in answer.decode():
            return answer.replace(b'"descriptor":', b'"descriptor":%s,"x":' % worse)
        return answer

    site.nodes.said = lie
    assert site.run(execution) == "failed"
    row = site.store.executions.find(execution)
    assert row.failure_code == "move_failed"
    (step,) = site.store.executions.steps(execution)
    assert step.error is not None
    assert step.error.startswith("agent_unreachable")
    assert "cannot be taken" in step.error
    assert {node for node, _ in site.nodes.named("abort_move")} == {"r1n2", "r2n0"}


def test_a_refusal_that_is_nested_too_deeply_is_no_answer(site_of: Sites) -> None:
    def refuse(connection: socket.socket) -> None:
        body = b"[" * 100_000
        connection.sendall(b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    with agent_that(refuse) as agent, pytest.raises(AgentUnreachable, match="no problem document"):
        agent.workers()


@pytest.mark.parametrize("call", ["prepare_move", "start_pause"])
def test_what_nobody_foresaw_gives_the_move_up(
    site_of: Sites, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    site = site_of()
    execution = site.order(site.plan(MOVE))

    def break_down(*_: Any) -> Any:
        raise TypeError("nobody foresaw this")

    monkeypatch.setattr(AgentClient, call, break_down)
    assert site.run(execution) == "failed"
    (step,) = site.store.executions.steps(execution)
    assert step.error is not None
    assert step.error.startswith("internal: unexpected TypeError")
    assert {node for node, _ in site.nodes.named("abort_move")} == {"r1n2", "r2n0"}
    assert site.store.reservations() == ()


@pytest.mark.parametrize("agents", ["away", "on their way"])
def test_one_that_is_cancelled_while_no_agent_answers_ends_as_cancelled(site_of: Sites, agents: str) -> None:
    site = site_of(agent_patience_s=300.0)
    execution = site.order(site.plan(MOVE))
    asked = threading.Event()
    look = AgentClient.workers

    def cancelled_meanwhile(self: AgentClient) -> Any:
        if not asked.is_set():
            site.store.executions.cancel(execution)
            asked.set()
        if agents == "away":
            raise AgentUnreachable(self.url, "it is away")
        return look(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AgentClient, "workers", cancelled_meanwhile)
        assert site.run(execution) == "cancelled"
    assert site.store.executions.find(execution).failure_code is None
    assert {step.state for step in site.store.executions.steps(execution)} == {"skipped"}
    assert site.nodes.named("put_move") == []
