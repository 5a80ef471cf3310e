"""An agent tells the service where it is; a service that is away harms nothing."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

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
