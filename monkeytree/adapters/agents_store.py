"""The part of the store that knows the agents: which runs which node, where, and when it beat last."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import orjson
from sqlalchemy import Engine, select, update

from .again import again
from .executions_errors import StaleAgent
from .rows import Part
from .tables import agents


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent as it announced itself; ``epoch`` grows at each of its starts.

    ``capabilities`` is what it tells of itself, handed through.
    """

    cluster: str
    node: str
    url: str
    epoch: int
    capabilities: Mapping[str, Any]
    announced_at: float
    beat_at: float


class Agents(Part):
    """Announced agents; ``store.agents``."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @again
    def announce(
        self,
        cluster: str,
        node: str,
        url: str,
        epoch: int,
        capabilities: Mapping[str, Any],
        gone_s: float = inf,
    ) -> tuple[AgentRow, bool]:
        """Note an agent's beat; its row, and whether it is new or started anew.

        One that has not beaten for ``gone_s`` gives way to any: a node that lost its disk counts anew.

        Raises:
            StaleAgent: one with a higher epoch runs the node, or another URL says to have the same.
        """
        now = self.now()
        mine = (agents.c.cluster == cluster) & (agents.c.node == node)
        fresh = {
            "cluster": cluster, "node": node, "url": url, "epoch": epoch, "announced_at": now,
            "capabilities": orjson.dumps(capabilities).decode(),
        }  # fmt: skip
        with self.writing(durable=False) as connection:
            added = self.add(connection, agents, {**fresh, "beat_at": now})
            if not added:
                found = connection.execute(select(agents).where(mine).with_for_update()).one()
                same = (epoch, url) == (found.epoch, found.url)
                if not same and epoch <= found.epoch and found.beat_at > now - gone_s:
                    raise StaleAgent(node, epoch, found.epoch, found.url)
                added = not same
                values = {**fresh, "beat_at": now} if added else {"beat_at": now}
                connection.execute(update(agents).where(mine).values(**values))
            row = connection.execute(select(agents).where(mine)).one()
        return _agent_row(row), added

    @again
    def list_agents(self, clusters: Collection[str] | None = None) -> tuple[AgentRow, ...]:
        """All agents of ``clusters`` (None: of all), by cluster and node."""
        query = select(agents).order_by(agents.c.cluster, agents.c.node)
        if clusters is not None:
            query = query.where(agents.c.cluster.in_(clusters))
        with self.reading() as connection:
            return tuple(_agent_row(row) for row in connection.execute(query))


def _agent_row(row: Any) -> AgentRow:
    return AgentRow(**{**row._mapping, "capabilities": orjson.loads(row.capabilities)})
