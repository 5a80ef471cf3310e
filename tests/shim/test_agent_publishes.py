"""A running agent: routes put to it reach queue pairs, and the proof comes back over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from monkeytree.agent.main import Agent
from monkeytree.agent.options import Options

from .harness import Bench

BODY = {
    "epoch": 1,
    "routes": [
        {"src_ip": "10.0.0.1", "dst_ip": "10.1.0.1", "port": 50_000},
        {"src_ip": "10.0.0.1", "dst_ip": "10.9.9.9", "port": 50_001},
        {"src_ip": "fd00::1", "dst_ip": "FD00:1:0::1", "port": 50_002},  # as valid, if not the shortest
    ],
}


def test_routes_put_over_http_are_carried_out_and_proved(bench: Bench, tmp_path: Path) -> None:
    public = tmp_path / "public"
    agent = Agent(Options(node="n1", data=tmp_path / "data", secret="s", public=public))
    agent.start()
    headers = {"Authorization": "Bearer s"}
    env = {"MONKEYTREE_VERBS_TABLE": str(public / "routes.txt")}

    def run(mode: str = "plain") -> None:
        bench.run("connect", "1", "2", "1", mode, env=env, drop=["MONKEYTREE_VERBS_LOG"])

    def proof() -> Any:
        return httpx.get(f"{agent.url}/v1/routes/proof", headers=headers, timeout=10).json()

    try:
        assert httpx.put(f"{agent.url}/v1/routes", headers=headers, json=BODY, timeout=10).status_code == 200
        assert proof() == {
            "steered": [],
            "unsteered": [],
            "unseen": [["10.0.0.1", "10.1.0.1"], ["10.0.0.1", "10.9.9.9"], ["fd00::1", "fd00:1::1"]],
        }
        run()
        assert proof()["steered"] == [["10.0.0.1", "10.1.0.1"]]
        for src, dst, name in (("n1", "10.0.0.2", "src_ip"), ("10.0.0.1", "fd00::2", "dst_ip")):
            wrong = {"epoch": 2, "routes": [{"src_ip": src, "dst_ip": dst, "port": 50_000}]}
            answer = httpx.put(f"{agent.url}/v1/routes", headers=headers, json=wrong, timeout=10)
            assert 400 <= answer.status_code < 500
            assert f"/routes/0/{name}" in answer.text  # published, it would void the whole table
        run("ipv6")
        assert proof()["steered"] == [["10.0.0.1", "10.1.0.1"], ["fd00::1", "fd00:1::1"]]
    finally:
        agent.stop()
    logged = sum(len(path.read_text().splitlines()) for path in (public / "log").iterdir())
    run()
    assert sum(len(path.read_text().splitlines()) for path in (public / "log").iterdir()) == logged == 2
