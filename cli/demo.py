"""``monkeytree demo``: a real placement, planned and replayed end to end on this machine."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import click
import httpx
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import monkeytree

from .errors import CommandFailed, Exit
from .replay import replay_plan
from .serve import first_token, interrupt_on_signals, start_service
from .stores import open_store
from .supervisor.broker import NoServer
from .supervisor.service import Service
from .tables import print_plan

SNAPSHOT = "lingjun847_bestfit_load95.json"
#: Small enough to run every worker of it here, with more than one wave and a swap.
SMALL = "demo-two-waves.json"
PATIENCE_S = 120.0


@click.command()
@click.option("--prepare", metavar="COMMAND", help="Run this where ns-3 is missing, once the plan is shown.")
@click.option(
    "--execute", is_flag=True, help="Carry a small plan out instead, with agents and workers on this machine."
)
def demo(prepare: str | None, execute: bool) -> int:
    """Serve on a free port, POST a real placement, print and check its plan, replay it, stop.

    The racks are those of a production cluster (847 hosts in 119 racks, Alibaba Lingjun dataset 2023).
    """
    interrupt_on_signals()
    console = Console()
    name = SMALL if execute else SNAPSHOT
    document = json.loads(resources.files("monkeytree.examples").joinpath(name).read_text("utf-8"))
    if execute:
        return _execute(document, console)
    with (
        tempfile.TemporaryDirectory(prefix="monkeytree-demo-") as folder,
        _served(Path(folder)) as (service, http),
    ):
        answer = plan_by_service(document, service, http, console, name)
        console.print(_about(document), highlight=False)
        faults = _show(document, answer, console)
        if faults:
            return Exit.FAULTS
        replay_plan(console, http, service, answer["id"], prepare)
    return Exit.OK


def _execute(document: dict[str, Any], console: Console) -> int:
    """The small snapshot, planned, carried out by agents of this process, and planned again."""
    secret = secrets.token_urlsafe(32)
    more = {"MONKEYTREE_EXECUTIONS": "*", "MONKEYTREE_AGENT_TOKEN": secret}
    with (
        tempfile.TemporaryDirectory(prefix="monkeytree-demo-") as folder,
        _served(Path(folder), more) as (service, http),
    ):
        answer = plan_by_service(document, service, http, console, SMALL)
        workers = sum(len(group["workers"]) for job in document["jobs"] for group in job["replica_groups"])
        console.print(
            f"{SMALL}: {len(document['jobs'])} jobs with {workers} workers in "
            f"{len(document['racks'])} racks, small enough to run here\n",
            highlight=False,
        )
        if _show(document, answer, console):
            return Exit.FAULTS
        from .execution import carry_out

        return carry_out(document, answer, Path(folder), secret, service, http, console)


@contextmanager
def _served(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[tuple[Service, httpx.Client]]:
    """The whole service, with a client of all roles; what it logged is told when something fails."""
    environ = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DATABASE_URL")}
    environ |= more or {}
    log = folder / "log"
    try:
        with (
            log.open("wb") as output,
            Service(folder / "data", output=output, environ=environ) as service,
            httpx.Client(base_url=service.url, timeout=30.0, trust_env=False) as http,
        ):
            yield service, http
    except NoServer as error:
        raise CommandFailed(str(error)) from None
    except CommandFailed as error:
        tail = log.read_text("utf-8", errors="replace").splitlines()[-20:]
        raise CommandFailed("\n".join([error.message, *tail]), Exit.INTERNAL) from None


def plan_by_service(
    document: dict[str, Any], service: Service, http: httpx.Client, console: Console, name: str
) -> dict[str, Any]:
    """Start the service, POST the snapshot, wait for its plan."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("starting Valkey, the API, the workers and the reaper", total=None)
        start_service(service)
        token = first_token(open_store(service.settings))
        http.headers["Authorization"] = f"Bearer {token}"
        progress.update(task, description=f"POST {service.url}/v1/snapshots with {name}")
        answer = submit_and_wait(
            http, document, service, lambda text: progress.update(task, description=text)
        )
        progress.update(task, description=f"GET {service.url}/v1/plans/{answer['id']}")
    return answer


def _show(document: dict[str, Any], answer: dict[str, Any], console: Console) -> bool:
    """Print the plan and what the checker says; whether it finds faults."""
    plan = monkeytree.load_plan(answer)
    print_plan(console, plan, limit=max(12, console.height // 3))
    faults = monkeytree.check(monkeytree.load_snapshot(document), plan)
    for fault in faults:
        console.print(
            f"fault at {fault.pointer}: {fault.message} ({fault.code})", markup=False, highlight=False
        )
    verdict = "[green]the plan holds[/green]" if not faults else "[red]the plan has faults[/red]"
    console.print(f"\nindependent checker: {verdict}")
    return bool(faults)


def submit_and_wait(
    http: httpx.Client, document: dict[str, Any], service: Service, tell: Callable[[str], None]
) -> dict[str, Any]:
    """POST a snapshot and wait for its plan, keeping the service alive; ``tell`` hears how it goes."""
    deadline = time.monotonic() + PATIENCE_S
    submitted = http.post("/v1/snapshots", json=document)
    if submitted.status_code not in (200, 201, 202):
        raise CommandFailed(f"POST /v1/snapshots answered {submitted.status_code}: {submitted.text}")
    where = submitted.headers["Location"]
    while True:
        answer: dict[str, Any] = http.get(where, params={"wait": 1}).raise_for_status().json()
        if answer["state"] not in ("queued", "solving"):
            break
        tell(f"GET {where}: {answer['state']}")
        service.tree.tick()
        if time.monotonic() > deadline:
            raise CommandFailed(f"the plan was still {answer['state']} after {PATIENCE_S:g} s")
    if answer["state"] != "ready":
        raise CommandFailed(f"the plan is {answer['state']}: {answer['failure']}")
    return answer


def _about(document: dict[str, Any]) -> str:
    hosts = sum(len(rack["nodes"]) for rack in document["racks"])
    return (
        f"{len(document['jobs'])} jobs on {hosts} hosts in {len(document['racks'])} racks: the racks of\n"
        "a production cluster (Alibaba Lingjun dataset 2023) under synthetic jobs\n"
    )
