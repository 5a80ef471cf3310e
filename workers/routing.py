"""Tables of source ports, put to the agents of many nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic

from monkeytree.adapters.agents import Agent
from monkeytree.adapters.executions_calls import Ask
from monkeytree.adapters.logs import logger
from monkeytree.wire.agents import RouteTable

from .conducting import Journal
from .insisting import Patience, Trouble, insist, never

AT_ONCE = 16

log = logger(__name__)


def put_routes(
    asks: Sequence[Ask],
    agent_of: Callable[[str], Agent],
    journal: Journal,
    patience: Patience,
    halted: Callable[[], bool] = never,
) -> dict[int, str]:
    """Put each table to its node's agent; by step number, why one could not be.

    May be repeated: a table of the same epoch and content changes nothing. Agents that are away are waited
    for once, all together, and no longer once ``halted``.
    """
    deadline = monotonic() + patience.answer_s

    def put(ask: Ask) -> str | None:
        table = ask.body
        assert isinstance(table, RouteTable)
        ended = journal(ask, None)
        try:
            insist(
                partial(agent_of, ask.node), lambda agent: agent.put_routes(table), patience, deadline, halted
            )
        except Trouble as trouble:
            why = f"{trouble.reason}: {trouble}"
            log.warning("routes_not_put", node=ask.node, reason=trouble.reason, why=str(trouble))
            ended(why)
            return why
        ended(f"epoch {table.epoch}, {len(table.routes)} routes")
        return None

    with ThreadPoolExecutor(max_workers=min(AT_ONCE, max(1, len(asks)))) as pool:
        found = dict(zip([ask.step for ask in asks], pool.map(put, asks), strict=True))
    return {number: why for number, why in found.items() if why is not None}
