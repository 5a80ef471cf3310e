"""docker-compose.yml: valid, no high findings, and in step with the code."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from monkeytree.adapters.queue import QUEUES
from monkeytree.adapters.settings import Settings
from monkeytree.cli.supervisor import service

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docker-compose.yml"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
    return loaded


def _config_command() -> list[str] | None:
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    plugin = shutil.which("docker") and subprocess.run(
        ["docker", "compose", "version"], capture_output=True, check=False
    )
    return ["docker", "compose"] if plugin and plugin.returncode == 0 else None


@pytest.mark.skipif(
    _config_command() is None, reason="needs docker-compose (no engine): apt-get install docker-compose"
)
def test_compose_accepts_it() -> None:
    command = _config_command()
    assert command is not None
    done = subprocess.run(
        [*command, "-f", str(FILE), "config", "-q"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_linter_finds_nothing_high() -> None:
    command = [
        sys.executable,
        "-m",
        "compose_lint",
        "check",
        "--quiet",
        "--fail-on",
        "high",
        "--no-env",
        str(FILE),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_has_no_keys_that_older_or_newer_composes_refuse(compose: dict[str, Any]) -> None:
    assert "name" not in compose
    assert "version" not in compose


def test_the_services_are_those_of_serve(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == {"valkey", "api", "worker", "validator", "executor", "reaper"}


def test_the_queues_are_those_of_the_code(compose: dict[str, Any]) -> None:
    commands = [compose["services"][name]["command"] for name in ("worker", "validator", "executor")]
    assert [command[command.index("-Q") + 1] for command in commands] == list(QUEUES)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plain, every = (
            Settings(redis_url="redis://localhost"),
            Settings(redis_url="redis://x", executions="*"),
        )
        assert "executor" not in {spec.name for spec in service.children(plain, listener)}
        specs = service.children(every, listener)
    served = [spec.command for spec in specs if "--queues" in spec.command]
    assert [command[list(command).index("--queues") + 1] for command in served] == list(QUEUES)


def test_one_replay_at_a_time(compose: dict[str, Any]) -> None:
    command = compose["services"]["validator"]["command"]
    assert command[command.index("--concurrency") + 1] == "1"


def test_ours_run_unprivileged_from_one_image(compose: dict[str, Any]) -> None:
    ours = [compose["services"][name] for name in ("api", "worker", "executor", "reaper")]
    assert len({one["image"] for one in ours}) == 1
    for one in [*ours, compose["services"]["validator"]]:
        assert one["user"].split(":")[0] not in ("0", "root")
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
        assert one["volumes"] == ["plans:/data"]


def test_the_image_is_slim_bookworm_and_not_root() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    stages = [line.split() for line in lines if line.startswith("FROM")]
    own = {words[3] for words in stages}
    assert all(words[1] in own or words[1].endswith("-slim-bookworm") for words in stages)
    users = sum(line.startswith("USER 10001") for line in lines)
    assert users == sum(line.startswith("CMD") for line in lines) == 2


def test_compose_builds_the_stages_of_the_image(compose: dict[str, Any]) -> None:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    for name in ("api", "worker", "validator", "executor", "reaper"):
        assert f" AS {compose['services'][name]['build']['target']}\n" in text
