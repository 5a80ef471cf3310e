"""``monkeytree demo --execute``: a plan carried out by agents, and a second snapshot that shows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .embedded import Embedded, embedded, wait_for
from .errors import CommandFailed, Exit
from .supervisor.service import Service

PATIENCE_S = 120.0
LONGEST_S = 900.0


def carry_out(
    document: dict[str, Any],
    plan: dict[str, Any],
    folder: Path,
    secret: str,
    service: Service,
    http: httpx.Client,
    console: Console,
) -> int:
    """Have the plan executed and show the cluster comply afterwards; the exit code."""
    from .demo import submit_and_wait

    nodes = folder / "nodes"
    nodes.mkdir()
    with embedded(document, nodes, secret) as cluster:
        _bring_up(cluster, document, service, http, console)
        execution = _execute(plan["id"], service, http, console)
        console.print(_steps_table(execution))
        if execution["state"] != "done":
            failure = execution["failure"] or {"code": execution["state"], "message": ""}
            raise CommandFailed(
                f"the execution is {execution['state']}: {failure['code']}: {failure['message']}"
            )
        second = cluster.snapshot(sequence=2)
        again = submit_and_wait(http, second, service, lambda _: None)
    over = sum(load["before"] > load["bound"] for load in again["racks"].values())
    complies = again["status"] == "compliant"
    verdict = "[green]the cluster complies[/green]" if complies else "[red]the cluster does not comply[/red]"
    console.print(
        f"\nsecond snapshot, as the agents see it: {verdict} ({over} racks over their bound, "
        f"{again['moves_needed']} moves needed)",
        highlight=False,
    )
    return Exit.OK if complies else Exit.FAULTS


def _bring_up(
    cluster: Embedded, document: dict[str, Any], service: Service, http: httpx.Client, console: Console
) -> None:
    wanted = sum(len(group["workers"]) for job in document["jobs"] for group in job["replica_groups"])
    token = http.headers["Authorization"].removeprefix("Bearer ")
    with console.status("starting an agent a node, and a process a worker"):
        cluster.start_agents(service.url, token)
        cluster.start_workers()

        def up() -> bool:
            agents = http.get("/v1/agents").raise_for_status().json()["items"]
            nodes = sum(len(rack["nodes"]) for rack in document["racks"])
            return len(agents) == nodes and len(cluster.workers()) == wanted

        if not wait_for(up, service.tree.tick, PATIENCE_S):
            raise CommandFailed(f"agents and workers were not up after {PATIENCE_S:g} s", Exit.INTERNAL)
    console.print(f"\n{len(cluster.workers())} workers train, each listed by the agent of its node")


def _execute(plan_id: str, service: Service, http: httpx.Client, console: Console) -> dict[str, Any]:
    answer = http.post("/v1/executions", json={"plan_id": plan_id})
    if answer.status_code != 202:
        raise CommandFailed(f"POST /v1/executions answered {answer.status_code}: {answer.text}")
    where = answer.headers["Location"]
    console.print(f"POST /v1/executions: 202, {where}\n", highlight=False)
    told = ""
    execution: dict[str, Any] = answer.json()
    for execution in _followed(http, where, service.tree.tick):
        if execution["stage"] and execution["stage"] != told:
            told = execution["stage"]
            done = f"{execution['steps_done']} of {len(execution['steps'])} moves done"
            console.print(f"  {escape(told)} [dim]({done})[/dim]", highlight=False)
    return execution


def _followed(http: httpx.Client, where: str, tick: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """The execution at each change, until its end: server-sent events; ``tick`` is called at every line."""
    while True:
        with http.stream("GET", where, headers={"Accept": "text/event-stream"}, timeout=LONGEST_S) as stream:
            for line in stream.iter_lines():
                tick()
                if line.startswith("data: "):
                    execution: dict[str, Any] = json.loads(line.removeprefix("data: "))
                    yield execution
                    if execution["state"] not in ("queued", "running"):
                        return


def _steps_table(execution: dict[str, Any]) -> Table:
    table = Table(
        "wave", "worker", "from", "to", "through", "state", "pause, s", "wire, s", title="Moves carried out"
    )
    for step in execution["steps"]:
        phases = step["phases"] or {}
        source = phases.get("source") or {}
        colour = "green" if step["state"] == "done" else "red"
        parked = any(phase["name"] == "PARKED" for phase in source.get("phases", ()))
        through = "host memory" if step["staged"] or parked else "direct"
        table.add_row(
            str(step["wave"]), escape(f"{step['job']}/{step['group']}/{step['rank']}"),
            escape(step["from"] or "-"), escape(step["to"] or "-"),
            through if step["kind"] == "move" else "ring order",
            f"[{colour}]{step['state']}[/{colour}]", _seconds(phases.get("pause_s")),
            _seconds(source.get("wire_s")),
        )  # fmt: skip
    return table


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
