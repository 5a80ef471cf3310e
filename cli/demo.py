"""``monkeytree demo``: a real placement, planned end to end on this machine."""

from __future__ import annotations

import json
import os
import tempfile
import time
from importlib import resources
from pathlib import Path
from typing import Any

import click
import httpx
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import monkeytree

from .errors import CommandFailed, Exit
from .serve import first_token, interrupt_on_signals, start_service
from .stores import open_store
from .supervisor.broker import NoServer
from .supervisor.service import Service
from .tables import print_plan

SNAPSHOT = "lingjun847_bestfit_load95.json"
PATIENCE_S = 120.0


@click.command()
def demo() -> int:
    """Serve on a free port, POST a real placement, wait for the plan, print and check it, stop.

    The racks are those of a production cluster (847 hosts in 119 racks, Alibaba Lingjun dataset 2023).
    """
    interrupt_on_signals()
    console = Console()
    document = json.loads(resources.files("monkeytree.examples").joinpath(SNAPSHOT).read_text("utf-8"))
    with tempfile.TemporaryDirectory(prefix="monkeytree-demo-") as folder:
        answer = _plan_by_service(document, Path(folder), console)
    console.print(_about(document), highlight=False)
    plan = monkeytree.load_plan(answer)
    print_plan(console, plan, limit=max(12, console.height // 3))
    faults = monkeytree.check(monkeytree.load_snapshot(document), plan)
    for fault in faults:
        console.print(
            f"fault at {fault.pointer}: {fault.message} ({fault.code})", markup=False, highlight=False
        )
    verdict = "[green]the plan holds[/green]" if not faults else "[red]the plan has faults[/red]"
    console.print(f"\nindependent checker: {verdict}")
    return Exit.FAULTS if faults else Exit.OK


def _plan_by_service(document: dict[str, Any], folder: Path, console: Console) -> dict[str, Any]:
    environ = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DATABASE_URL")}
    log = folder / "log"
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    try:
        with (
            log.open("wb") as output,
            Progress(*columns, console=console) as progress,
            Service(folder / "data", output=output, environ=environ) as service,
        ):
            task = progress.add_task("starting Valkey, the API, a worker and the reaper", total=None)
            start_service(service)
            token = first_token(open_store(service.settings))
            progress.update(task, description=f"POST {service.url}/v1/snapshots with {SNAPSHOT}")
            with httpx.Client(
                base_url=service.url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=30.0,
                trust_env=False,
            ) as http:
                answer = _submit_and_wait(http, document, service, progress, task)
            progress.update(task, description="stopping what was started")
    except NoServer as error:
        raise CommandFailed(str(error)) from None
    except CommandFailed as error:
        tail = log.read_text("utf-8", errors="replace").splitlines()[-20:]
        raise CommandFailed("\n".join([error.message, *tail]), Exit.INTERNAL) from None
    return answer


def _submit_and_wait(
    http: httpx.Client, document: dict[str, Any], service: Service, progress: Progress, task: Any
) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    submitted = http.post("/v1/snapshots", json=document)
    if submitted.status_code not in (200, 201, 202):
        raise CommandFailed(f"POST /v1/snapshots answered {submitted.status_code}: {submitted.text}")
    where = submitted.headers["Location"]
    while True:
        answer: dict[str, Any] = http.get(where, params={"wait": 1}).raise_for_status().json()
        if answer["state"] not in ("queued", "solving"):
            break
        progress.update(task, description=f"GET {where}: {answer['state']}")
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
