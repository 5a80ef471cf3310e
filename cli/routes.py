"""``monkeytree routes``: a plan's source ports, for programs to read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from .documents import DOCUMENT, end_with_reader, read_pair
from .errors import CommandFailed, Exit
from .outputs import OutputFile, naming

if TYPE_CHECKING:
    from monkeytree.ecmp.exports import FlowRoute


@click.command()
@click.argument("snapshot", type=DOCUMENT)
@click.argument("plan", type=DOCUMENT)
@click.option(
    "--format",
    "form",
    type=click.Choice(["lines", "json", "agents"]),
    default="lines",
    show_default=True,
    help="srcIP,dstIP=port,port; a table for each node; or the bodies of PUT /v1/routes.",
)
@click.option("--node", metavar="NODE", help="Only what this node sends.")
@click.option(
    "--epoch",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="Of --format agents.",
)
@click.option("--output", type=OutputFile(), default="-", metavar="FILE")
def routes(snapshot: str, plan: str, form: str, node: str | None, epoch: int, output: str) -> int:
    """Write the source ports that put PLAN's flows on their uplinks.

    Exit code: 0 all flows have one, 3 some cannot be steered (they are told on standard error), 2 bad input.
    """
    if snapshot == plan == "-":
        raise click.UsageError("only one of SNAPSHOT and PLAN can be - (standard input)")
    from monkeytree.ecmp import exports

    before, planned = read_pair(snapshot, plan)
    if before.fabric.hash is None:
        raise CommandFailed("the snapshot has no fabric.hash, so its plan has no ports (docs/steering.md)")
    found = exports.routes(before, planned)
    if node is not None:
        if node not in before.node_by_id:
            raise CommandFailed(f"{node!r} is no node of the snapshot")
        found = [route for route in found if route.node == node]
    end_with_reader()
    with naming(output), click.open_file(output, "w", encoding="utf-8") as stream:
        stream.write(_text(form, found, epoch))
    for row in planned.unsteered:
        flows = f"{len(row.flows)} flow{'s' if len(row.flows) > 1 else ''}"
        click.echo(f"{flows} cannot be steered: {row.reason}", err=True)
    return Exit.BEST_EFFORT if planned.unsteered else Exit.OK


def _text(form: str, found: list[FlowRoute], epoch: int) -> str:
    from monkeytree.ecmp import exports

    if form == "lines":
        return exports.as_lines(found)
    tables = exports.for_agents(found, epoch) if form == "agents" else exports.by_node(found)
    return json.dumps(tables, indent=2) + "\n"
