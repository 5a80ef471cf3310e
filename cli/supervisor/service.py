"""The whole service on one machine: Valkey, API, workers and reaper as one process tree."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from monkeytree.adapters.errors import BadSetting
from monkeytree.adapters.queue import EXECUTE, SOLVE, VALIDATE
from monkeytree.adapters.settings import Settings

from .broker import Broker
from .child import Spec
from .datadir import DataDirLock
from .tree import Tree

API = "monkeytree.service.main:create_app()"
WORKER = "monkeytree.service.server.Worker"
EXECUTORS = 2
START_S = 60.0  # Python imports on a busy machine take most of it


def settings_for(data: Path, redis_url: str, environ: Mapping[str, str]) -> Settings:
    """The settings in ``environ``, with ``data`` and ``redis_url`` put in."""
    environ = {"MONKEYTREE_WORKER_CONCURRENCY": str(cores()), **environ}
    return Settings.from_env({**environ, "REDIS_URL": redis_url, "MONKEYTREE_DATA": str(data.absolute())})


def check_planner(planner: str) -> None:
    """Refuse a planner whose package is not there, before workers fail at each plan; nothing is imported.

    Raises:
        BadSetting: naming it.
    """
    package = planner.partition(":")[0].partition(".")[0]
    here = PathFinder.find_spec(package, [os.getcwd()])  # where the children look, being run with -m
    if here is None and find_spec(package) is None:
        raise BadSetting(f"MONKEYTREE_PLANNER={planner!r}: there is no module {package!r}")


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def listen(host: str, port: int) -> socket.socket:
    """A listening socket that the API inherits, so that it answers on one port for as long as we live.

    Raises:
        OSError: the address cannot be had.
    """
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server(address[:2], family=family, backlog=1024)


def children(settings: Settings, listener: socket.socket) -> tuple[Spec, ...]:
    """API, worker, validator and reaper; an executor where the settings let plans be carried out."""
    env = settings.environ()
    gunicorn = f"gunicorn --worker-class {WORKER} --threads 64 --bind fd://{listener.fileno()}"
    api = Spec(
        name="api",
        command=_module(f"{gunicorn} --no-control-socket --graceful-timeout 3 --log-level warning", API),
        env=env,
        pass_fds=(listener.fileno(),),
    )
    # a replay uses all cores by itself, and no solve may wait for it: one at a time, in a worker of its own
    return (
        api,
        _worker("worker", SOLVE, settings.worker_concurrency, settings),
        _worker("validator", VALIDATE, 1, settings),
        *_executors(settings),
        Spec(name="reaper", command=_module("monkeytree.workers.reaper"), env=env),
    )


def _executors(settings: Settings) -> tuple[Spec, ...]:
    """Mostly they wait for agents, and executions of different clusters wait side by side."""
    return (_worker("executor", EXECUTE, EXECUTORS, settings),) if settings.executions else ()


def _worker(name: str, queue: str, concurrency: int, settings: Settings) -> Spec:
    """A Celery worker of one queue."""
    celery = f"celery --quiet --app monkeytree.workers.main worker --queues {queue} --hostname {name}@%h"
    pool = f"--pool prefork --concurrency {concurrency} --without-gossip --without-mingle"
    return Spec(
        name=name,
        command=_module(f"{celery} {pool} --loglevel {settings.log_level}"),
        # we may run as root (containers, fresh machines), and a user of `serve` cannot change that here
        env={**settings.environ(), "PYTHONWARNINGS": "ignore:You're running the worker"},
        # SIGTERM lets a short solve end; SIGQUIT puts the others back, the next start takes them up
        stops=((signal.SIGTERM, 4.0), (signal.SIGQUIT, 4.0)),
    )


def _module(words: str, *more: str) -> tuple[str, ...]:
    """``python -m`` with these words and arguments."""
    return (sys.executable, "-m", *words.split(), *more)


class Service:
    """Everything ``serve`` runs. Use it as a context manager, from the main thread."""

    def __init__(
        self,
        data: Path,
        host: str = "127.0.0.1",
        port: int = 0,
        output: IO[bytes] | None = None,
        say: Callable[[str], None] = lambda _: None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Take the data directory and the port; nothing runs yet.

        Raises:
            DataDirInUse, OSError, NoServer, BadSetting: with what to do about it.
        """
        self._lock = DataDirLock(data)
        try:
            self._listener = listen(host, port)
            self._broker = None if environ.get("REDIS_URL") else Broker.choose(data)
            redis_url = self._broker.url if self._broker else environ["REDIS_URL"]
            self.settings = settings_for(data, redis_url, environ)
            check_planner(self.settings.planner)
            self._valkey = self._broker.spec() if self._broker else None
        except BaseException:
            self._lock.close()
            raise
        self.tree = Tree(output=output, say=say)
        self.url = _url(host, self._listener.getsockname()[1])

    def start(self) -> None:
        """Start all and wait until the API answers.

        Raises:
            ChildFailed: a child could not start; the others are left for ``stop``.
        """
        if self._broker is not None and self._valkey is not None:
            self.tree.start(self._valkey)
            self.tree.wait_until(self._broker.is_up, START_S, "valkey")
        for spec in children(self.settings, self._listener):
            self.tree.start(spec)
        self.tree.wait_until(self._answers, START_S, "the API")

    def _answers(self) -> bool:
        host, port = self._listener.getsockname()[:2]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        link = http.client.HTTPConnection(host, port, timeout=1.0)
        try:
            link.request("GET", "/healthz")
            return link.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            link.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.tree.stop()
        finally:
            self._listener.close()
            self._lock.close()


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
