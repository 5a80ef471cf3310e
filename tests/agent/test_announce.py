"""An agent tells the service where it is; a service that is away harms nothing."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from monkeytree.agent.main import Agent
from monkeytree.agent.option_checks import BadOption
from monkeytree.agent.options import Options
from monkeytree.wire.agent_schemas import read_document
from monkeytree.wire.agents import Announcement

from .rig import Rig, eventually


class Service(BaseHTTPRequestHandler):
    heard: ClassVar[list[tuple[str, str, dict[str, Any]]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.heard.append((self.path, self.headers["Authorization"], body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def test_it_announces_itself_again_and_again(rig: Rig) -> None:
    server = HTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    agent = rig.agent("n1", service=url, service_token="mt_x", beat_s=0.05, slots=8)
    eventually(lambda: len(Service.heard) > 2)
    path, token, body = Service.heard[0]
    assert (path, token) == ("/v1/agents", "Bearer mt_x")
    told = read_document(Announcement, body)
    assert (told.node, told.url, told.epoch) == ("n1", agent.client.url, 1)
    assert told.capabilities["slots"] == 8
    assert "stream" in told.capabilities["transports"]
    server.shutdown()
    server.server_close()
    count = len(Service.heard)
    assert agent.client.workers().node == "n1"
    assert count == len(Service.heard)


class Refusing(Service):
    """As the service refuses: the words that help are in the document, not in the status."""

    answers: ClassVar[list[tuple[int, dict[str, str]]]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, problem = self.answers[0]
        said = json.dumps(problem).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)


def test_what_the_service_says_against_it_is_told(rig: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Refusing.answers[:] = [(404, {"code": "not_found", "detail": "no cluster has a node n1 yet"})]
    url = f"http://127.0.0.1:{server.server_port}"
    rig.agent("n1", apart=True, service=url, beat_s=0.05)
    log = rig.folder / "n1.log"
    eventually(lambda: "no cluster has a node n1 yet" in log.read_text())
    Refusing.answers[:] = [(403, {"code": "forbidden", "detail": "this token is bound to cluster east"})]
    eventually(lambda: "this token is bound to cluster east" in log.read_text())
    said = log.read_text()
    assert "mozilla" not in said
    assert "does not answer" not in said
    server.shutdown()
    server.server_close()
    eventually(lambda: "the service does not answer" in log.read_text())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"node": ""}, "--node must be a string"),
        ({"node": "a\nb"}, "--node must be a string"),
        ({"cluster": "\x07"}, "--cluster must be a string"),
        ({"listen": "8091"}, "--listen takes HOST:PORT, the port from 0 to 65535, got '8091'"),
        ({"listen": "127.0.0.1:99999"}, "got '127.0.0.1:99999'"),
        ({"listen": "127.0.0.1:\u00b2"}, "--listen takes HOST:PORT"),
        ({"listen": "0.0.0.0:0"}, "needs --advertise"),
        ({"advertise": "http://n1"}, "--advertise takes a host name or an address, got 'http://n1'"),
        ({"service": "monkeytree:8080"}, "--service takes http://HOST:PORT"),
        ({"service": "http://x:port"}, "--service takes http://HOST:PORT"),
        ({"device": "mlx5_77"}, "--device 'mlx5_77' is no RDMA device of this machine; there are: "),
        ({"chunk_timeout_s": float("nan")}, "--chunk-timeout must be a number"),
        ({"arena_bytes": -1}, "--arena-gb must be a number"),
        ({"faults": ("fall",)}, "--fault takes"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_at_the_start(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    options = replace(Options("n1", tmp_path / "data", secret="mta_x"), **changed)
    with pytest.raises(BadOption) as refused:
        Agent(options)
    assert words in str(refused.value)
    assert not (tmp_path / "data").exists()
