"""A cluster on this machine for ``monkeytree demo --execute``: an agent a node, a small process a worker.

The agents share this process; workers are ``python -m monkeytree.agent.plain``, with a state buffer each and
no torch. A worker that moves is started anew on its new node by that node's agent.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog

from monkeytree.adapters.agents import AgentClient
from monkeytree.wire.agents import WorkerStatus

from .supervisor.leash import leash

STATE_BYTES = 8 * 2**20
STEP_MS = 20.0
BEAT_S = 2.0
END_S = 5.0


class Embedded:
    """Agents and workers of one snapshot."""

    def __init__(self, document: Mapping[str, Any], folder: Path, secret: str) -> None:
        """Nothing runs yet; everything is kept in ``folder``."""
        self._document = document
        self._folder = folder
        self._secret = secret
        self._agents: dict[str, Any] = {}
        self._clients: dict[str, AgentClient] = {}
        self._stores: list[Any] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self._log = (folder / "agents.log").open("w", encoding="utf-8")

    def start_agents(self, service: str, token: str) -> None:
        """One for each node; they announce themselves to the service at ``service``."""
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(self._log))
        logging.getLogger("waitress").setLevel(logging.ERROR)
        app: Any = importlib.import_module("monkeytree.agent.main")
        settings: Any = importlib.import_module("monkeytree.agent.options")
        for rack in self._document["racks"]:
            for node in rack["nodes"]:
                options = settings.Options(
                    node=node,
                    data=self._folder / node,
                    secret=self._secret,
                    service=service,
                    service_token=token,
                    beat_s=BEAT_S,
                    public=self.public(node),
                )
                agent = app.Agent(options)
                agent.start()
                self._agents[node] = agent
                self._clients[node] = AgentClient(agent.url, self._secret, node)

    def public(self, node: str) -> Path:
        """The folder in which a node's agent publishes its table of source ports for jobs."""
        return self._folder / "public" / node

    @property
    def agents(self) -> Mapping[str, AgentClient]:
        """A client of each node's agent."""
        return self._clients

    def start_workers(self) -> None:
        """One process a rank, and a store a job, by which its ranks agree."""
        stores: Any = importlib.import_module("monkeytree.agent.store")
        for job in self._document["jobs"]:
            store = stores.StoreServer()
            self._stores.append((job["id"], store, stores.SocketStore(store.address)))
            sizes = ",".join(f"{group['id']}:{len(group['workers'])}" for group in job["replica_groups"])
            for group in job["replica_groups"]:
                for rank, node in enumerate(group["workers"]):
                    self._start_worker(job["id"], group["id"], rank, node, sizes, store.address)

    def _start_worker(self, job: str, group: str, rank: int, node: str, sizes: str, store: str) -> None:
        command = [sys.executable, "-m", "monkeytree.agent.plain", "--job", job, "--group", group]
        command += ["--rank", str(rank), "--groups", sizes, "--store", store, "--bytes", str(STATE_BYTES)]
        command += ["--pause-ms", str(STEP_MS)]
        worker = subprocess.Popen(
            command,
            env={**os.environ, "MONKEYTREE_AGENT": str(self._folder / node / "agent.sock")},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            preexec_fn=leash(),
        )
        self._workers.append(worker)

    def workers(self) -> list[tuple[str, WorkerStatus]]:
        """All workers that train, with their nodes, as the agents tell."""
        return [
            (node, worker)
            for node, client in self._clients.items()
            for worker in client.workers().workers
            if worker.state == "training"
        ]

    def snapshot(self, sequence: int) -> dict[str, Any]:
        """The cluster as it is now: the document with its workers where the agents tell."""
        places = {(worker.job, worker.group, worker.rank): node for node, worker in self.workers()}
        jobs = [
            {
                **job,
                "replica_groups": [
                    {
                        **group,
                        "workers": [
                            places[job["id"], group["id"], rank] for rank in range(len(group["workers"]))
                        ],
                    }
                    for group in job["replica_groups"]
                ],
            }
            for job in self._document["jobs"]
        ]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return {**self._document, "taken_at": now, "sequence": sequence, "jobs": jobs}

    def stop(self) -> None:
        """End workers, their successors, and agents."""
        for client in self._clients.values():
            with contextlib.suppress(Exception):  # whatever is wrong with it, the others are to be ended
                for worker in client.workers().workers:
                    if worker.pid > 1:
                        os.kill(worker.pid, signal.SIGKILL)
            client.close()
        for process in self._workers:
            process.kill()
            process.wait()
        for agent in self._agents.values():
            agent.stop()
        for _, server, store in self._stores:
            store.close()
            server.close()
        self._log.close()


@contextmanager
def embedded(document: Mapping[str, Any], folder: Path, secret: str) -> Iterator[Embedded]:
    """The cluster, stopped at the end."""
    made = Embedded(document, folder, secret)
    try:
        yield made
    finally:
        made.stop()


def wait_for(there: Callable[[], bool], tick: Callable[[], None], seconds: float) -> bool:
    """Whether ``there()`` comes true within ``seconds``; ``tick`` is called meanwhile."""
    deadline = time.monotonic() + seconds
    while not there():
        tick()
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
