"""The agents of a cluster as an execution calls them, and what they tell of their workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic, sleep

from monkeytree.adapters.agents import Agent, AgentClient, AgentUnreachable
from monkeytree.adapters.executions_match import Difference, Rank, worker_differences
from monkeytree.adapters.settings import Settings
from monkeytree.adapters.store import Store
from monkeytree.wire.agents import WorkersAnswer, WorkerStatus

from .insisting import never

AT_ONCE = 16
#: Where agents are is read from the store again after this.
FRESH_S = 1.0
BETWEEN_S = 0.25


class Roster:
    """Agents by node: only announced ones are called, at the URL they announced last."""

    def __init__(self, settings: Settings, store: Store, cluster: str) -> None:
        self._settings = settings
        self._store = store
        self._cluster = cluster
        self._clients: dict[tuple[str, str], AgentClient] = {}
        self._urls: dict[str, str] = {}
        self._read_at = 0.0
        self._lock = threading.Lock()
        self.workers: dict[Rank, WorkerStatus] = {}

    def agent(self, node: str) -> Agent:
        """The agent of ``node``.

        Raises:
            AgentUnreachable: none has announced itself.
        """
        with self._lock:
            if monotonic() - self._read_at > FRESH_S:  # one that was started again may have moved
                agents = self._store.agents.list_agents({self._cluster})
                self._urls = {agent.node: agent.url for agent in agents}
                self._read_at = monotonic()
            url = self._urls.get(node)
            if url is None:
                raise AgentUnreachable(f"node {node}", "it never announced itself")
            if (node, url) not in self._clients:
                settings = self._settings
                self._clients[node, url] = AgentClient(
                    url, settings.agent_token, node, timeout_s=settings.agent_call_s
                )
            return self._clients[node, url]

    def look(
        self,
        places: Mapping[Rank, str],
        jobs: Collection[str],
        targets: Iterable[str],
        unsettled: Collection[Rank] = (),
        halted: Callable[[], bool] = never,
    ) -> list[Difference]:
        """Ask the agents of ``jobs`` and ``targets`` for their workers; how these differ from ``places``.

        Once ``halted``, an agent that does not answer is not waited for any longer.

        Raises:
            AgentUnreachable, AgentRefused: an agent does not answer for as long as the settings say.
        """
        nodes = {node for rank, node in places.items() if rank[0] in jobs} | set(targets)
        asked = sorted(nodes)
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            answers = list(pool.map(partial(self._ask, halted=halted), asked))
        told = {node: answer.workers for node, answer in zip(asked, answers, strict=True)}
        for workers in told.values():
            for worker in workers:
                if worker.state != "standby":
                    self.workers[worker.job, worker.group, worker.rank] = worker
        return worker_differences(places, jobs, told, unsettled)

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def _ask(self, node: str, halted: Callable[[], bool]) -> WorkersAnswer:
        patience = monotonic() + self._settings.agent_patience_s
        while True:
            try:
                return self.agent(node).workers()
            except AgentUnreachable:
                if monotonic() > patience or halted():
                    raise
                sleep(BETWEEN_S)
