"""``monkeytree savings``: what plans would have saved, from a history of snapshots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .documents import end_with_reader
from .errors import CommandFailed
from .interrupts import end_promptly

if TYPE_CHECKING:
    from monkeytree.savings import Rule, Savings
    from monkeytree.snapshot import Snapshot

HOUR_S = 3600.0


@click.command()
@click.argument("history", metavar="DIR_OR_CLUSTER")
@click.option("--cluster", metavar="NAME", help="With a folder of several clusters: this one.")
@click.option("--server", metavar="URL", help="Ask the running service there for the cluster's snapshots.")
@click.option("--token", envvar="MONKEYTREE_TOKEN", metavar="TOKEN", help="Of --server.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Data of a service here (default: $MONKEYTREE_DATA or ./monkeytree-data).",
)
@click.option(
    "--rule", "names", multiple=True, metavar="RULE",
    help="always, worthwhile, or threshold:N (plan as if no leaf carried more than N flows); repeatable.",
)  # fmt: skip
@click.option("--solver", metavar="NAME", help="As in `monkeytree plan`.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Seconds to solve each."
)
@click.option(
    "--longest-gap", type=click.FloatRange(min=0, min_open=True), default=HOUR_S, show_default=True,
    metavar="S", help="Of a longer time between two snapshots only this much counts.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def savings(
    history: str,
    cluster: str | None,
    server: str | None,
    token: str | None,
    data: Path | None,
    names: tuple[str, ...],
    solver: str | None,
    time_limit: float | None,
    longest_gap: float,
    as_json: bool,
) -> int:
    """Replay a history of snapshots, and report the GPU-hours that plans would have saved net of pauses.

    DIR_OR_CLUSTER is a folder of snapshots (*.json), or the name of a cluster whose snapshots a service
    keeps. Congestion is predicted from `traffic_gb` and `iteration_s` of the replica groups, and whether a
    plan is worthwhile from `remaining_s` of the jobs; see docs/savings.md.
    """
    end_promptly()
    snapshots = _read(history, cluster, server, token, data)
    if longest_gap != longest_gap:
        raise click.BadParameter("nan is no number of seconds", param_hint="--longest-gap")
    if solver is not None or time_limit is not None:
        from .plan import with_planning

        flags = {"solver": solver, "time_limit_s": time_limit}
        snapshots = [with_planning(snapshot, flags) for snapshot in snapshots]
    rules = [_rule(name) for name in dict.fromkeys(names or ("always", "worthwhile"))]
    if len(snapshots) < 2:
        raise CommandFailed("one snapshot is no history: what is saved is told between two or more")
    found = _replay(snapshots, rules, longest_gap)
    end_with_reader()
    if as_json:
        click.echo(json.dumps(report(snapshots, found), indent=2))
    else:
        _print(snapshots, found)
    return 0


def _read(
    history: str, cluster: str | None, server: str | None, token: str | None, data: Path | None
) -> list[Snapshot]:
    from .histories import from_data, from_folder, from_service

    if server is not None:
        return from_service(server, token, history)
    if data is None and Path(history).is_dir():
        return from_folder(Path(history), cluster)
    return from_data(data, history)


def _rule(name: str) -> Rule:
    from monkeytree.savings import ALWAYS, WORTHWHILE, threshold

    known = {rule.name: rule for rule in (ALWAYS, WORTHWHILE)}
    if name in known:
        return known[name]
    word, _, number = name.partition(":")
    plain = number.isascii() and number.isdecimal() and len(number) <= 7
    if word == "threshold" and plain and 1 <= int(number) <= 1_000_000:
        return threshold(int(number))
    raise click.BadParameter(
        f"{name!r} is no rule: always, worthwhile, or threshold:N with N from 1", param_hint="--rule"
    )


def _replay(snapshots: Sequence[Snapshot], rules: Sequence[Rule], longest_gap: float) -> list[Savings]:
    from rich.console import Console
    from rich.progress import Progress

    from monkeytree.savings import replay

    found = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for rule in rules:
            task = progress.add_task(rule.name, total=len(snapshots))
            found.append(
                replay(
                    snapshots,
                    rule,
                    longest_gap_s=longest_gap,
                    on_step=lambda task=task: progress.advance(task),  # type: ignore[misc]
                )
            )
    return found


def report(snapshots: Sequence[Snapshot], found: Sequence[Savings]) -> dict[str, Any]:
    """The answer as a document."""
    from monkeytree.savings import by_time

    ordered = by_time(snapshots)
    return {
        "cluster": ordered[0].cluster,
        "snapshots": len(ordered),
        "from": ordered[0].taken_at,
        "to": ordered[-1].taken_at,
        "rules": [
            {
                "rule": each.rule.name,
                "plans": each.plans,
                "passed_up": each.passed_up,
                "moves": each.moves,
                "jobs_paused": each.jobs_paused,
                "saved_gpu_h": each.saved_gpu_s / HOUR_S,
                "lost_gpu_h": each.lost_gpu_s / HOUR_S,
                "net_gpu_h": each.net_gpu_s / HOUR_S,
                "intervals": each.intervals,
                "unpredicted_intervals": each.unpredicted,
                "restarts": each.restarts,
            }
            for each in found
        ],
    }


def _print(snapshots: Sequence[Snapshot], found: Sequence[Savings]) -> None:
    from rich.console import Console
    from rich.table import Table

    answer = report(snapshots, found)
    console = Console()
    table = Table(
        title=f"{answer['cluster']}: {answer['snapshots']} snapshots, {answer['from']} to {answer['to']}",
        title_justify="left",
    )
    table.add_column("rule")
    for heading in ("plans", "moves", "jobs paused", "GPU-hours saved", "lost to pauses", "net"):
        table.add_column(heading, justify="right")
    for row in answer["rules"]:
        hours = (f"{row[name]:,.2f}" for name in ("saved_gpu_h", "lost_gpu_h", "net_gpu_h"))
        table.add_row(row["rule"], str(row["plans"]), str(row["moves"]), str(row["jobs_paused"]), *hours)
    console.print(table)
    for row in answer["rules"]:
        if row["unpredicted_intervals"]:
            console.print(
                f"{row['rule']}: {row['unpredicted_intervals']} of {row['intervals']} intervals count as "
                "nothing: jobs that share uplinks do not say traffic_gb or iteration_s (docs/savings.md)"
            )
        if row["restarts"]:
            console.print(
                f"{row['rule']}: {row['restarts']} times the placement after its plans could not be kept; "
                "the history's was taken again"
            )
