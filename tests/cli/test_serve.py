"""``monkeytree serve``: one process tree that starts, mends itself, stops, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from .running import hard
from .serving import PATIENCE_S, ROOT, Served, environment, eventually, serving

SNAPSHOT = json.loads((ROOT / "examples" / "hand-02-seed-C.json").read_text("utf-8"))


def serve(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "monkeytree.cli", "serve", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def submit(served: Served, token: str | None, sequence: int) -> dict[str, Any]:
    """The plan of the example, made anew for each ``sequence``."""
    document = {**SNAPSHOT, "cluster": f"{SNAPSHOT['cluster']}-{sequence}", "sequence": sequence}
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=served.url, headers=headers, timeout=PATIENCE_S, trust_env=False) as http:
        where = http.post("/v1/snapshots", json=document).raise_for_status().headers["Location"]
        plan: dict[str, Any] = {}

        def ready() -> bool:
            plan.update(http.get(where, params={"wait": 10}).raise_for_status().json())
            return plan["state"] not in ("queued", "solving")

        assert eventually(ready), plan
    return plan


def solve_for_long(served: Served, token: str | None) -> None:
    """Submit a plan that takes minutes, and wait until a solver process works on it."""
    idle = len(served.family())
    headers = {"Authorization": f"Bearer {token}"}
    document = hard(solver="highs", time_limit_s=100)
    url = f"{served.url}/v1/snapshots"
    httpx.post(url, json=document, headers=headers, trust_env=False).raise_for_status()
    assert eventually(lambda: len(served.family()) > idle)


def all_gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=20)
    return alive == []


@pytest.mark.slow
def test_a_life_of_serve(tmp_path: Path) -> None:
    data, log = tmp_path / "data", tmp_path / "log"
    with serving(data, log) as served:
        token = served.token
        assert token is not None
        assert submit(served, token, 1)["status"] == "optimal"

        refused = serve("--data", str(data), "--port", "0")
        assert refused.returncode == 2
        assert "in use by another `monkeytree serve`" in refused.stderr

        (worker, *_) = served.named("monkeytree.workers.main")
        worker.kill()
        (server, *_) = served.named("valkey-server")
        server.kill()
        assert submit(served, token, 2)["status"] == "optimal"
        assert "starting it again" in log.read_text()

        family = served.family()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0
        assert all_gone(family)
    assert "Traceback" not in log.read_text()

    with serving(data, log) as served:
        assert served.token is None  # shown once
        assert submit(served, token, 3)["status"] == "optimal"
        solve_for_long(served, token)
        family = served.family()
        served.process.kill()
        assert all_gone(family)


@pytest.mark.slow
def test_it_stops_while_it_starts_and_gives_a_stranger_no_token(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tmp_path / "log", "--host", "0.0.0.0") as served:
        assert served.token is None
        assert "monkeytree token add NAME --role scheduler" in (tmp_path / "log").read_text()
        family = served.family()
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(PATIENCE_S) == 0
        assert all_gone(family)


def test_a_taken_port_is_a_usage_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = serve("--data", str(tmp_path), "--port", str(port))
    assert done.returncode == 2
    assert f"cannot serve on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("host", ["no.such.host.invalid", "999.1.1.1"])
def test_a_wrong_host_is_a_usage_error(tmp_path: Path, host: str) -> None:
    done = serve("--data", str(tmp_path), "--host", host)
    assert done.returncode == 2
    assert host in done.stderr


def test_a_data_directory_that_cannot_be_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = serve("--data", str(tmp_path / "file" / "data"), "--port", "0")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MONKEYTREE_LEASE_S", "soon"),
        ("MONKEYTREE_RATE_LIMIT", "foo"),
        ("MONKEYTREE_PLANNER", "no.such.module:plan"),
        ("MONKEYTREE_EXECUTION_WINDOWS", "always"),
        ("DATABASE_URL", "mysql://h/x"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_started(tmp_path: Path, name: str, value: str) -> None:
    done = serve("--data", str(tmp_path / "data"), "--port", "0", **{name: value})
    assert done.returncode == 2, done.stderr
    assert name in done.stderr
    assert "valkey" not in done.stderr.lower()
    assert not list(tmp_path.rglob("*.db"))


@pytest.mark.slow
def test_serve_stops_when_asked_during_its_start(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "monkeytree.cli", "serve", "--port", "0", "--data", str(tmp_path / "data")],
        cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    me = psutil.Process(process.pid)
    assert eventually(lambda: len(me.children()) >= 3)
    family = me.children(recursive=True)
    os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 130)
    assert "Traceback" not in errors
    assert all_gone(family)
