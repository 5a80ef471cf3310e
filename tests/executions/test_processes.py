"""The whole service in processes of its own: API, solver, executor, reaper, Valkey; agents over HTTP."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.rig import eventually, rig

from .conftest import FULL
from .nodes import SECRET, Nodes, nodes_of

PLANNER = "monkeytree.planner:make_plan"
SETTINGS: dict[str, Any] = {
    "planner": PLANNER, "executions": "*", "agent_token": SECRET, "agent_patience_s": 3.0,
}  # fmt: skip


def announce(api: httpx.Client, nodes: Nodes, document: dict[str, Any]) -> None:
    """Every node's agent."""
    for rack in document["racks"]:
        for node in rack["nodes"]:
            said = {"node": node, "url": nodes.url(node), "epoch": 1}
            assert api.post("/v1/agents", json=said).status_code == 201


def ready_plan(api: httpx.Client, document: dict[str, Any]) -> dict[str, Any]:
    """The plan of a snapshot."""
    answer = api.post("/v1/snapshots?wait=30", json=document)
    assert answer.status_code == 201, answer.text
    plan: dict[str, Any] = answer.json()
    return plan


def ended(api: httpx.Client, where: str) -> dict[str, Any]:
    """The execution at its end."""

    def over() -> dict[str, Any] | None:
        found: dict[str, Any] = api.get(where, params={"wait": 2}).json()
        return found if found["state"] not in ("queued", "running") else None

    found: dict[str, Any] = eventually(over, f"{where} ends", 90)
    return found


@pytest.mark.slow
def test_a_swap_is_carried_out_and_the_executor_may_be_killed_in_its_midst(tmp_path: Path) -> None:
    with rig(tmp_path / "rig", **SETTINGS) as made, nodes_of(FULL) as nodes:
        made.api()
        made.worker()
        first = made.executor()
        made.reaper()
        api = made.client()
        plan = ready_plan(api, FULL)
        announce(api, nodes, FULL)
        killed = Counter[str]()

        def kill(node: str, name: str, its_id: str) -> None:
            if name == "start_pause" and not killed:
                killed[its_id] += 1
                os.killpg(first.pid, signal.SIGKILL)

        nodes.before = kill
        answer = api.post("/v1/executions", json={"plan_id": plan["id"]})
        assert answer.status_code == 202, answer.text
        where = answer.headers["Location"]
        eventually(lambda: killed, "the executor is at a pause")
        first.wait()
        made.executor(wait=False)
        done = ended(api, where)
        assert (done["state"], done["attempt"]) == ("done", 2), done
        places = nodes.where()
        for step in done["steps"]:
            assert places[step["job"], step["group"], step["rank"]] == step["to"]
        assert len(nodes.memory.moves) == 4, "two moves, each made once at each side"
        assert max(Counter(its_id for _, its_id in nodes.named("commit_move")).values()) == 2
        again = api.post("/v1/executions", json={"plan_id": plan["id"]})
        assert again.status_code == 202, "the newest snapshot is the old one; agents know better"
        told = ended(api, again.headers["Location"])
        assert (told["state"], told["failure"]["code"]) == ("failed", "cluster_changed")
        assert told["difference"]
        assert nodes.where() == places
        metrics = api.get("/metrics").text
        assert 'monkeytree_executions{state="done"} 1.0' in metrics
