"""Agents: who runs which node, under /v1/agents."""

from __future__ import annotations

from functools import lru_cache
from time import time
from typing import Any

from flask import Response

from monkeytree.adapters.agents_url import check_agent_url, read_hosts
from monkeytree.adapters.executions_documents import agent_document
from monkeytree.adapters.executions_errors import UnknownNode
from monkeytree.adapters.store import Store
from monkeytree.errors import Offence
from monkeytree.wire.reading import parse_json
from monkeytree.wire.snapshot import parse_snapshot

from .answers import json_answer
from .auth import clusters_to_list, see, token
from .blueprint import ApiBlueprint
from .body import read_body, readable
from .desk import Desk, the_desk
from .execution_schemas import AgentSchema, AgentsSchema, AnnouncementSchema, ClusterQuery
from .schemas import InvalidRequest

blueprint = ApiBlueprint("agents", __name__, description="Agents of nodes.")


@blueprint.call("announceAgent")
@blueprint.takes(AnnouncementSchema)
@blueprint.gives(200, AgentSchema, "It is known, and has beaten.")
@blueprint.gives(201, AgentSchema, "It is new, or was started anew.")
def announce_agent() -> Response:
    """Announce the agent of a node, and beat: again before MONKEYTREE_AGENT_GONE_S is over.

    Only announced agents are called, at that URL, and only for nodes of the cluster's newest snapshot.
    """
    body = read_body()
    with readable():
        said = AnnouncementSchema().load(parse_json(body))
    desk = the_desk()
    try:
        url = check_agent_url(said["url"], read_hosts(desk.settings.agent_hosts))
    except ValueError as error:
        raise InvalidRequest([Offence("/url", str(error), said["url"])]) from None
    cluster = _cluster_of(desk, said)
    row, fresh = desk.store.agents.announce(
        cluster, said["node"], url, said["epoch"], said.get("capabilities", {}), desk.settings.agent_gone_s
    )
    return json_answer(agent_document(row, gone=False), 201 if fresh else 200)


@blueprint.call("listAgents")
@blueprint.query(ClusterQuery)
@blueprint.gives(200, AgentsSchema, "All of them, by cluster and node.")
def list_agents(query: dict[str, Any]) -> Response:
    """List agents, and which of them still beat."""
    desk = the_desk()
    gone = time() - desk.settings.agent_gone_s
    rows = desk.store.agents.list_agents(clusters_to_list(query.get("cluster")))
    return json_answer({"items": [agent_document(row, gone=row.beat_at <= gone) for row in rows]})


def _cluster_of(desk: Desk, said: dict[str, Any]) -> str:
    """The cluster an announcement is about; it must have the node.

    Raises:
        UnknownNode: the cluster's newest snapshot has no such node.
        InvalidRequest: it says no cluster, and more than one has the node.
    """
    node, named = said["node"], said.get("cluster")
    if named is None and len(token().clusters) == 1:
        (named,) = token().clusters
    if named is not None:
        see(named)
        if node not in _nodes_of(desk, named):
            raise UnknownNode(named, node)
        return str(named)
    having = [name for name in desk.store.clusters() if token().sees(name) and node in _nodes_of(desk, name)]
    if not having:
        raise UnknownNode(None, node)
    if len(having) > 1:
        words = f"is needed: node {node!r} is in clusters {', '.join(having)}"
        raise InvalidRequest([Offence("/cluster", words, None)])
    return having[0]


def _nodes_of(desk: Desk, cluster: str) -> frozenset[str]:
    newest = desk.store.newest_snapshot(cluster)
    return frozenset() if newest is None else _nodes_in(desk.store, newest.id)


@lru_cache(maxsize=64)
def _nodes_in(store: Store, snapshot_id: str) -> frozenset[str]:
    """Agents beat often, snapshots of one id have the same nodes."""
    return frozenset(parse_snapshot(store.snapshot_body(snapshot_id)).node_by_id)
