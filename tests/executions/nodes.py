"""The agents of a small cluster over HTTP: the in-memory double behind a real socket, signatures checked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from monkeytree.adapters.agents import AgentRefused, AgentUnreachable
from monkeytree.adapters.agents_memory import MemoryAgent, MemoryCluster
from monkeytree.wire.agent_schemas import read_document
from monkeytree.wire.agents import Command, MoveRequest, PauseRequest, RouteTable, WorkerStatus, dump
from monkeytree.wire.signing import parse, signature

SECRET = "of the tests"


class Cluster(MemoryCluster):
    """As agents do, moves that are not staged travel while staged ones of their job wait.

    And of a parked worker no agent tells any more how its successor is started.
    """

    def _mark(self, node: str, job: str, group: str, rank: int, state: str) -> None:
        super()._mark(node, job, group, rank, state)
        self.workers[node] = [
            replace(worker, standby_command=() if worker.state == "parked" else ("successor", worker.job))
            for worker in self.workers[node]
        ]

    def _park_or_land(self, request: PauseRequest) -> bool:
        landed = super()._park_or_land(request)
        for one in request.moves:
            for node in (one.source, one.target):
                made, status = self.moves.get((node, one.id), (None, None))
                if made and status and not one.staged and status.state == "ARMED":
                    travelled = replace(status, state="VERIFIED", version=status.version + 1)
                    self.moves[node, one.id] = (made, travelled)
        return landed


class Nodes:
    """A memory cluster behind one server; each node has a loopback address of its own (127.0.0.0/8)."""

    def __init__(self, workers: Mapping[str, list[tuple[str, str, int]]]) -> None:
        self.memory = Cluster({node: [_worker(*who) for who in here] for node, here in workers.items()})
        self.before: Callable[[str, str, str], None] = lambda node, name, its_id: None
        self.said: Callable[[str, str, bytes], bytes] = lambda node, path, answer: answer
        """What goes out as the answer, by what would."""
        self.hosts = {node: f"127.0.1.{index}" for index, node in enumerate(workers, 1)}
        self._server = ThreadingHTTPServer(("", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, node: str) -> str:
        """Where the agent of ``node`` is."""
        return f"http://{self.hosts[node]}:{self._server.server_address[1]}"

    def where(self) -> dict[tuple[str, str, int], str]:
        """The node of every worker."""
        return {
            (worker.job, worker.group, worker.rank): node
            for node, here in self.memory.workers.items()
            for worker in here
        }

    def named(self, call: str) -> list[tuple[str, str]]:
        """Node and id of all calls of that name, in order."""
        return [(node, its_id) for node, name, its_id in self.memory.calls if name == call]

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def nodes_of(snapshot: Mapping[str, Any]) -> Iterator[Nodes]:
    """Agents for a snapshot document, each with the workers that it has there."""
    workers: dict[str, list[tuple[str, str, int]]] = {
        node: [] for rack in snapshot["racks"] for node in rack["nodes"]
    }
    for job in snapshot["jobs"]:
        for group in job["replica_groups"]:
            for rank, node in enumerate(group["workers"]):
                workers[node].append((job["id"], group["id"], rank))
    made = Nodes(workers)
    try:
        yield made
    finally:
        made.close()


def _worker(job: str, group: str, rank: int) -> WorkerStatus:
    return WorkerStatus(
        job, group, rank, "training", 1, 5, 2, state_bytes=1000, standby_command=("successor", job)
    )


def _handler(nodes: Nodes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """All agents: the address that was called says which."""

        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._answer(b"")

        def do_PUT(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def do_POST(self) -> None:
            self.do_PUT()

        def _answer(self, body: bytes) -> None:
            host = self.headers["Host"].partition(":")[0]
            (node,) = (name for name, address in nodes.hosts.items() if address == host)
            sent = parse(self.headers.get("Authorization", ""))
            said = (node, self.command, self.path, body)
            if sent is None or sent[2] != signature(SECRET, *said, sent[0], sent[1]):
                return self._send(401, {"code": "unauthenticated", "detail": "wrong signature"})
            try:
                status: Any = _dispatch(nodes, node, self.command, self.path, body)
            except AgentRefused as refusal:
                return self._send(refusal.status, {"code": refusal.reason, "detail": refusal.detail})
            except AgentUnreachable:
                self.close_connection = True
                return None
            return self._send(200, dump(status), node)

        def _send(self, status: int, document: Any, node: str = "") -> None:
            content = nodes.said(node, self.path, orjson.dumps(document))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


def _dispatch(nodes: Nodes, node: str, method: str, target: str, body: bytes) -> Any:
    parts = urlsplit(target)
    agent: MemoryAgent = nodes.memory.agent(node)
    _, noun, *rest = parts.path.strip("/").split("/")
    if noun == "workers":
        return agent.workers()
    if noun == "routes":
        nodes.before(node, "put_routes" if method == "PUT" else "routes", "")
        return agent.put_routes(read_document(RouteTable, body)) if method == "PUT" else agent.routes()
    its_id, singular = rest[0], noun[:-1]
    verb = {"PUT": "put", "GET": ""}.get(method) if len(rest) == 1 else rest[1]
    name = f"{verb}_{singular}" if verb else singular
    nodes.before(node, name, its_id)
    if not verb:
        query = parse_qs(parts.query)
        wait_s, since = float(query.get("wait", ["0"])[0]), int(query.get("since", ["-1"])[0])
        return getattr(agent, name)(its_id, wait_s=wait_s, since=since)
    model: Any = Command
    if verb == "put":
        model = MoveRequest if noun == "moves" else PauseRequest
    document = read_document(model, body)
    if isinstance(document, MoveRequest):
        assert document.standby_command, "a successor cannot be started without a command"
    return getattr(agent, name)(its_id, document)
