"""The service as others' programs see it: a generated client, a fuzzer, and bodies over a socket."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .documents import snapshot
from .rig import Rig, rig

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = Path(sys.executable).parent
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Short waits and no rate limit: a fuzzer calls as often as it can, with any `wait`."""
    with rig(tmp_path_factory.mktemp("clients"), max_wait_s=5.0, rate_limit="") as made:
        made.api()
        made.worker()
        yield made


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The package that openapi-python-client makes of openapi.yaml."""
    folder = tmp_path_factory.mktemp("client")
    command = [str(SCRIPTS / "openapi-python-client"), "generate", "--path", str(ROOT / "openapi.yaml")]
    command += ["--meta", "none", "--output-path", str(folder / "generated_client"), "--fail-on-warning"]
    environment = {**os.environ, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"}  # it runs ruff
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("generated_client")
    finally:
        sys.path.remove(str(folder))


def test_a_generated_client_submits_and_reads(running: Rig, generated: Any) -> None:
    models = importlib.import_module("generated_client.models")
    submit = importlib.import_module("generated_client.api.snapshots.submit_snapshot")
    read = importlib.import_module("generated_client.api.plans.get_plan")
    history = importlib.import_module("generated_client.api.plans.list_plans")
    client = generated.AuthenticatedClient(base_url=running.base, token=running.token)
    body = models.Snapshot.from_dict(snapshot("generated"))
    receipt = submit.sync(client=client, body=body)
    assert isinstance(receipt, models.Receipt)
    plan = read.sync(plan_id=receipt.plan_id, client=client, wait=5.0)
    assert isinstance(plan, models.Plan)
    assert plan.state == "ready"
    page = history.sync(client=client, cluster="generated")
    assert [item.id for item in page.items] == [receipt.plan_id]
    unknown = generated.AuthenticatedClient(base_url=running.base, token="mt_nobody")
    problem = read.sync(plan_id=receipt.plan_id, client=unknown)
    assert isinstance(problem, models.Problem)
    assert problem.code == "unauthenticated"


def test_schemathesis_finds_nothing(running: Rig) -> None:
    command = [str(SCRIPTS / "schemathesis"), "--config-file", str(ROOT / "schemathesis.toml"), "run"]
    command += [f"{running.base}/v1/openapi.json", "-H", f"Authorization: Bearer {running.token}"]
    command += ["--max-examples", "6", "--seed", "7", "--generation-database", "none"]
    done = subprocess.run(
        command, cwd=running.folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "internal_error" not in (running.folder / "api.log").read_text()


@pytest.mark.parametrize("size", [1_000_000, 16 * 2**20])
def test_large_bodies_are_taken(running: Rig, size: int) -> None:
    body = json.dumps(snapshot(f"large-{size}")).encode()
    body = body[:-1] + b" " * (size - len(body)) + b"}"
    assert running.client().post("/v1/snapshots", content=body, headers=JSON).status_code == 202


@pytest.mark.parametrize("size", [16 * 2**20 + 1, 40 * 2**20])
def test_larger_ones_get_a_readable_refusal(running: Rig, size: int) -> None:
    client = running.client()
    chunked = (b" " * 2**20 for _ in range(size // 2**20 + 1))
    zipped = gzip.compress(b" " * size)
    for content, headers in (
        (b" " * size, JSON),
        (chunked, JSON),
        (zipped, JSON | {"Content-Encoding": "gzip"}),
    ):
        answer = client.post("/v1/snapshots", content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert client.get("/healthz").is_success, "the connection can be used on"
