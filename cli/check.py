"""``monkeytree check``: the independent verifier."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

import monkeytree

from .documents import DOCUMENT, end_with_reader, read_plan_document, source
from .errors import Exit


@click.command()
@click.argument("snapshot", type=DOCUMENT)
@click.argument("plan", type=DOCUMENT)
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def check(snapshot: str, plan: str, form: str) -> int:
    """Verify PLAN against SNAPSHOT with code that shares nothing with the solvers.

    Exit code: 0 the plan holds, 5 it has faults (listed), 2 bad input, 1 internal failure.
    """
    if snapshot == plan == "-":
        raise click.UsageError("only one of SNAPSHOT and PLAN can be - (standard input)")
    # The plan goes to the checker as it was written: reading it is part of what is checked.
    faults = monkeytree.check(monkeytree.load_snapshot(source(snapshot)), read_plan_document(plan))
    end_with_reader()
    if form == "json":
        click.echo(json.dumps({"holds": not faults, "faults": [asdict(fault) for fault in faults]}, indent=2))
    elif faults:
        click.echo(f"{len(faults)} fault{'s' if len(faults) > 1 else ''}:")
        for fault in faults:
            click.echo(f"  {fault.pointer or '(the whole plan)'}: {fault.message} [{fault.code}]")
    else:
        click.echo("the plan holds")
    return Exit.FAULTS if faults else Exit.OK
