"""A report as tables for people (rich)."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

Document = dict[str, Any]

TITLES = {
    "plan": "the plan",
    "placement": "as it stands",
    "ecmp": "control: hashed ECMP",
    "before": "control: before",
}


def print_report(console: Console, report: Document, limit: int = 12) -> None:
    """Print the verdict, the runs side by side and the flows that are not isolated."""
    isolated = report["isolated"]
    console.print(
        "[bold green]isolated[/bold green]" if isolated else "[bold red]not isolated[/bold red]", end=""
    )
    console.print(f": {_verdict(report)}", highlight=False)
    console.print(_runs(report))
    bad = [flow for flow in report["flows"] if not flow["isolated"]]
    if bad:
        bad.sort(key=lambda flow: -(flow["slowdown"] or float("inf")))
        console.print(_flows(bad[:limit]))
        if len(bad) > limit:
            console.print(f"[dim]… and {len(bad) - limit} more (all of them: --json FILE)[/dim]")
    cost = report["cost"]
    console.print(
        f"[dim]{cost['events']:,} events in {cost['cpu_s']:.1f} CPU seconds, {cost['processes']} processes; "
        f"{cost['parts_reused']} parts were the same as others[/dim]",
        highlight=False,
    )
    if "skips" in cost:
        console.print(
            f"[dim]fast forward: {cost['skipped_ns'] / 1e3:,.0f} us of steady traffic skipped, "
            f"in {cost['skips']} places[/dim]",
            highlight=False,
        )


def _verdict(report: Document) -> str:
    if report["isolated"]:
        count = len(report["flows"])
        if not count:
            return "no flow leaves its rack"
        return f"all {count} cross-rack flows run as if alone (within {report['slowdown_limit']})"
    said = "; ".join(report["reasons"])
    return escape("; ".join(filter(None, (said, _of_claims(report)))))


def _of_claims(report: Document) -> str:
    """What follows for the plan where its claims were not broken."""
    bad = [flow for flow in report["flows"] if not flow["isolated"]]
    if report["plan_id"] is None or not report["claims_hold"] or not bad:
        return ""
    hashed = sum(not flow["steered"] for flow in bad)
    if not any(flow["claimed"] for flow in report["flows"]):
        return "no flow went by an uplink that the plan gives to it alone: what it claims, was not tested"
    if hashed == len(bad):
        return "these flows were left to the switches' hash: what the plan claims of the others, holds"
    listed = "flows that the plan lists as sharing or not guaranteed: what it claims, holds"
    if hashed:
        return f"{hashed} of them were left to the switches' hash, the others are {listed}"
    return f"these are {listed}"


def _runs(report: Document) -> Table:
    table = Table(title="Slowdown of cross-rack flows against their job alone", title_justify="left")
    table.add_column("run")
    for heading in ("isolated", "mean", "p99", "max", "ECN", "PFC", "drops", "max-min off by"):
        table.add_column(heading, justify="right")
    for name, run in report["runs"].items():
        colour = "green" if run["isolated"] else "red"
        table.add_row(
            TITLES.get(name, name),
            f"[{colour}]{run['isolated_flows']}/{run['cross_rack_flows']}[/{colour}]",
            *(_number(run["slowdown"][part]) for part in ("mean", "p99", "max")),
            f"{run['ecn_marks']:,}",
            f"{run['pauses']:,}",
            f"{run['drops']:,}",
            _percent(run["flow_model_error"]["mean"]),
        )
    return table


def _flows(flows: list[Document]) -> Table:
    table = Table(title="Flows that are not isolated", title_justify="left")
    for heading in (
        "job",
        "group",
        "ring",
        "from",
        "to",
        "uplink",
        "slowdown",
        "predicted",
        "PFC",
        "claimed",
    ):
        table.add_column(heading, justify="right" if heading in ("slowdown", "predicted") else "left")
    for flow in flows:
        table.add_row(
            escape(flow["job"]), escape(flow["group"]), str(flow["ring"]), escape(flow["from_rack"]),
            escape(flow["to_rack"]), "-" if flow["uplink"] is None else str(flow["uplink"]),
            _number(flow["slowdown"]), _number(flow["predicted_slowdown"]),
            "paused" if flow["paused"] else "", "yes" if flow["claimed"] else "no",
        )  # fmt: skip
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
