"""``monkeytree slurm execute``: carry a plan out through Slurm."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import monkeytree

from .documents import DOCUMENT, end_with_reader, read_plan_document, source
from .errors import CommandFailed, Exit
from .outputs import OutputFile

if TYPE_CHECKING:
    from monkeytree.plan import Plan
    from monkeytree.slurm.execution.work import Work
    from monkeytree.slurm.site import MoveSite, Site


@click.command()
@click.argument("plan", type=DOCUMENT)
@click.argument("snapshot", type=DOCUMENT)
@click.option(
    "--profile",
    type=click.Choice(["auto", "live", "requeue"]),
    default="auto",
    show_default=True,
    help="live: jobs go on, one worker at a time moves; requeue: jobs start anew; auto: live if possible.",
)
@click.option(
    "--site",
    "site_file",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    metavar="FILE",
    help="What Slurm cannot tell (docs/slurm.md).",
)
@click.option(
    "--dry-run", is_flag=True, help="Say what would be done, or what is against it; change nothing."
)
@click.option(
    "--journal",
    type=OutputFile(allow_dash=False, path_type=Path),
    metavar="FILE",
    help="What was done, and how to go on after a crash (default: ./monkeytree-slurm-PLAN.jsonl).",
)
@click.option(
    "--start-worker", metavar="CMD", help="Starts a worker on its new node, as the job's owner in its job."
)
@click.option(
    "--state-command", metavar="CMD", help="Run when both workers of a move are there: moves the state."
)
def execute(
    plan: str,
    snapshot: str,
    profile: Any,
    site_file: Path | None,
    dry_run: bool,
    journal: Path | None,
    start_worker: str | None,
    state_command: str | None,
) -> int:
    """Carry PLAN, made of SNAPSHOT, out through Slurm; the same command again goes on after a crash.

    Exit code: 0 done, 2 refused (nothing was changed), 7 stopped on the way (the message says where).
    """
    from monkeytree.slurm.errors import MovesStopped
    from monkeytree.slurm.execution.between import StateCommand, nothing
    from monkeytree.slurm.execution.journal import Journal
    from monkeytree.slurm.execution.run import Executor
    from monkeytree.slurm.sources import client_for

    site = _site(site_file)
    work = _work(plan, snapshot)
    client = client_for(site)
    worker = (start_worker, site.moves.start_worker)
    if dry_run:
        return _dry_run(work, client, profile, worker, state=state_command is not None)
    kept = Journal(journal or Path(f"monkeytree-slurm-{work.tag}.jsonl"), work.plan_id)
    between = StateCommand(state_command, work, site.moves.state_s, kept) if state_command else nothing
    try:
        executor = Executor(
            client, work, kept, profile, worker, between, site.moves.reconfigure, _limits(site.moves), _tell
        )
        outcome = executor.run()
    except MovesStopped as stopped:
        raise CommandFailed(f"({stopped.code}) {stopped}", Exit.NOT_FINISHED) from None
    finally:
        kept.close()
    end_with_reader()
    said = f"{len(outcome.moved)} of {len(work.moves)} moves are done"
    skipped = f", {len(outcome.skipped)} skipped as their jobs ended" if outcome.skipped else ""
    click.echo(said + skipped)
    return Exit.OK


def _dry_run(
    work: Work, client: Any, profile: Any, worker: tuple[str | None, str | None], *, state: bool
) -> int:
    from monkeytree.slurm.execution.preflight import decide
    from monkeytree.slurm.execution.run import facts_of, refuse

    decision = decide(work, facts_of(client, worker, state=state), profile)
    refuse(decision.refusals)
    end_with_reader()
    for step in decision.steps:
        if step.kind == "live":
            click.echo(f"live: {work.move(step.key)}")
        else:
            what = "requeue and hold" if step.kind == "hold" else "start anew on its new nodes"
            click.echo(f"requeue: job {step.key}: {what}")
    if not decision.steps:
        click.echo("nothing to do")
    return Exit.OK


def _work(plan_path: str, snapshot_path: str) -> Work:
    """The plan, checked against its snapshot."""
    from monkeytree.slurm.errors import MovesRefused
    from monkeytree.slurm.execution.work import work_of

    if plan_path == snapshot_path == "-":
        raise click.UsageError("only one of PLAN and SNAPSHOT can be - (standard input)")
    document = read_plan_document(plan_path)
    plan: Plan = monkeytree.load_plan(document)
    snapshot = monkeytree.load_snapshot(source(snapshot_path))
    faults = monkeytree.check(snapshot, document)
    if faults:
        raise MovesRefused(
            f"plan_mismatch: it is no sound plan of this snapshot: {faults[0].pointer}: {faults[0].message}"
        )
    if not plan.moves:
        raise MovesRefused("nothing_to_execute: the plan moves no worker")
    return work_of(plan, snapshot)


def _site(site_file: Path | None) -> Site:
    from monkeytree.slurm.site import Site
    from monkeytree.slurm.site_reading import read_site_file

    site: Site = read_site_file(site_file) if site_file else Site()
    return site


def _limits(moves: MoveSite) -> Any:
    from monkeytree.slurm.execution.context import Limits

    return Limits(moves.hold_s, moves.settle_s, moves.start_s, moves.patience_s, moves.state_s)


def _tell(line: str) -> None:
    print(f"monkeytree slurm: {line}", file=sys.stderr, flush=True)
