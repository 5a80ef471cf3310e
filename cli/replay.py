"""The packet-level replay at the end of ``monkeytree demo``."""

from __future__ import annotations

import shlex
import subprocess
import time
from typing import Any

import click
import httpx
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from monkeytree.adapters.simulator import why_not
from monkeytree.adapters.validating import UNAVAILABLE

from .errors import CommandFailed
from .supervisor.service import Service

#: Enough to see queues form, and a fraction of the default's time.
FLOW_MB = 4.0
PATIENCE_S = 900.0
#: The service sees within this that ns-3 was installed meanwhile.
NOTICED_S = 30.0
RUNS = {"plan": "the plan", "ecmp": "the same, hashed ECMP", "before": "before the moves"}


def replay_plan(
    console: Console, http: httpx.Client, service: Service, plan_id: str, prepare: str | None
) -> None:
    """Replay the plan through the service and print the verdict; say what is missing where it cannot be.

    Args:
        prepare: a command that installs what is missing, run first; it takes minutes.
    """
    console.print()
    missing = why_not(service.settings.validation_python)
    if missing is not None and prepare is not None:
        console.print(f"packet-level replay: {escape(missing)}", highlight=False)
        console.print("the plan stands; installing that now (it is built from source, once: some minutes)")
        _prepare(prepare, service)
        missing = why_not(service.settings.validation_python)
    report = _replay(console, http, service, plan_id) if missing is None else missing
    if isinstance(report, str):
        console.print(f"[yellow]no packet-level replay[/yellow]: {escape(report)}", highlight=False)
        return
    console.print(verdict(report))
    console.print(runs_table(report))


def _prepare(command: str, service: Service) -> None:
    """Run ``command``, its words on standard error, while the service is kept alive."""
    click.echo(f"$ {command}", err=True)
    with subprocess.Popen(shlex.split(command), stdin=subprocess.DEVNULL) as child:
        try:
            while child.poll() is None:
                service.tree.tick()
                time.sleep(0.2)
        except BaseException:
            child.terminate()
            raise


def _replay(console: Console, http: httpx.Client, service: Service, plan_id: str) -> dict[str, Any] | str:
    """The report, or why there can be none on this machine."""
    where = _submit(http, service, {"plan_id": plan_id, "flow_mb": FLOW_MB})
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    deadline = time.monotonic() + PATIENCE_S
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("packet-level replay", total=None)
        while True:
            found: dict[str, Any] = http.get(where, params={"wait": 0.5}).raise_for_status().json()
            if found["state"] not in ("queued", "running"):
                break
            progress = found["progress"] or {"stage": f"GET {where}: {found['state']}", "done": None}
            bar.update(task, description=progress["stage"], total=1.0, completed=progress["done"] or 0.0)
            service.tree.tick()
            if time.monotonic() > deadline:
                raise CommandFailed(f"the replay was still {found['state']} after {PATIENCE_S:g} s")
    if found["state"] != "ready":
        failure = found["failure"] or {}
        if failure.get("code") == UNAVAILABLE:
            return str(failure["message"])
        raise CommandFailed(f"the replay is {found['state']}: {failure.get('message', '')}")
    report: dict[str, Any] = found["report"]
    return report


def _submit(http: httpx.Client, service: Service, body: dict[str, Any]) -> str:
    """POST /v1/validations; where the validation is to be read."""
    deadline = time.monotonic() + NOTICED_S
    while True:
        answer = http.post("/v1/validations", json=body)
        if answer.status_code in (200, 201, 202):
            return answer.headers["Location"]
        if answer.status_code != 503 or time.monotonic() > deadline:
            raise CommandFailed(f"POST /v1/validations answered {answer.status_code}: {answer.text}")
        service.tree.tick()
        time.sleep(0.5)


def verdict(report: dict[str, Any]) -> str:
    """The verdict as markup."""
    flows = len(report["flows"])
    if report["isolated"]:
        said = f"all {flows} cross-rack flows run as if alone (within {report['slowdown_limit']})"
        return f"[green]isolated[/green] at packet level: {said}"
    return f"[red]not isolated[/red] at packet level: {escape('; '.join(report['reasons']))}"


def runs_table(report: dict[str, Any]) -> Table:
    """The plan and its controls, which show that the replay can tell a difference."""
    table = Table(title=f"Slowdown in ns-3 (PFC, DCQCN), {FLOW_MB:g} MB a flow", title_justify="left")
    table.add_column("run", no_wrap=True)
    for heading in ("isolated", "mean", "worst", "ECN", "PFC", "drops"):
        table.add_column(heading, justify="right")
    for name, run in report["runs"].items():
        colour = "green" if run["isolated"] else "red"
        slowdown = run["slowdown"]
        table.add_row(
            RUNS.get(name, escape(name)),
            f"[{colour}]{run['isolated_flows']} of {run['cross_rack_flows']}[/{colour}]",
            _number(slowdown["mean"]), _number(slowdown["max"]),
            f"{run['ecn_marks']:,}", f"{run['pauses']:,}", f"{run['drops']:,}",
        )  # fmt: skip
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
