"""``monkeytree ranks``: launcher files that give a job's ranks the plan's ring orders."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from .documents import DOCUMENT, end_with_reader, read_pair

if TYPE_CHECKING:
    from monkeytree.snapshot import Snapshot


@click.command()
@click.argument("snapshot", type=DOCUMENT)
@click.argument("plan", type=DOCUMENT)
@click.option("--job", metavar="ID", help="The job to launch; may be left out where there is only one.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["slurm", "hostfile", "torchrun", "json"]),
    default="slurm",
    show_default=True,
    help="slurm: a host a line, for SLURM_HOSTFILE with srun -m arbitrary, or mpirun --map-by seq.",
)
def ranks(snapshot: str, plan: str, job: str | None, form: str) -> int:
    """Write the order in which a launcher is to start a job's processes, so that its rings are those of PLAN.

    SNAPSHOT and PLAN are files, one of them may be - for standard input. Exit code: 0, 2 bad input or an
    order that the format cannot say, 1 internal failure.
    """
    from monkeytree.launch import FORMS, processes

    if snapshot == plan == "-":
        raise click.UsageError("only one of SNAPSHOT and PLAN can be - (standard input)")
    placement, answer = read_pair(snapshot, plan)
    placed = processes(placement, answer, _job(placement, job))
    end_with_reader()
    if form == "json":
        click.echo(json.dumps([asdict(process) for process in placed], indent=2))
    else:
        click.echo(FORMS[form](placed), nl=False)
    return 0


def _job(snapshot: Snapshot, job: str | None) -> str:
    if job is not None:
        return job
    if len(snapshot.jobs) != 1:
        raise click.UsageError(f"the snapshot has {len(snapshot.jobs)} jobs: name one with --job")
    return snapshot.jobs[0].id
