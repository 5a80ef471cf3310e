"""Plans as tables for people (rich)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from monkeytree.explain import say_conflict
from monkeytree.plan import Flow, Load, Move, Plan

#: Colours told apart on dark and light terminals; an uplink keeps its colour throughout.
UPLINK_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "bright_red", "bright_cyan", "bright_magenta")
STATUS_COLOURS = {"compliant": "green", "optimal": "green", "feasible": "yellow"}


def print_plan(console: Console, plan: Plan, limit: int = 20) -> None:
    """Print ``plan``; each table shows at most ``limit`` rows and says how many more there are."""
    console.print(summary(plan))
    for table, more in (
        racks_table(plan, limit),
        moves_table(plan.moves, limit),
        flows_table(plan.flows, limit),
    ):
        if table.row_count:
            console.print()
            console.print(table)
            if more:
                console.print(f"[dim]… and {more} more (all of them: --format json)[/dim]")
    for line in remarks(plan):
        console.print(line)


def summary(plan: Plan) -> Text:
    """Status, what was proved, who solved it."""
    colour = STATUS_COLOURS.get(plan.status, "red")
    text = Text.assemble(
        (plan.status, f"bold {colour}"),
        f": {_count(plan.moves_needed, 'move')}, {_count(plan.jobs_paused, 'job')} paused",
        f" for {plan.pause_s:.1f} s in all; {proof(plan)}",
        f"\nover their bound: {_count(_overs(plan, 'before'), 'rack')} before, {_overs(plan, 'after')} after",
    )
    solver = plan.solver
    tried = ", ".join(f"{trial.name}: {trial.outcome}" for trial in plan.solver.tried)
    text.append(f"\nsolver {solver.name} {solver.version}, {solver.seconds:.2f} s", style="dim")
    text.append(f" (tried {tried})" if tried else "", style="dim")
    return text


def proof(plan: Plan) -> str:
    """What is proved about the plan, in words."""
    if plan.status == "compliant":
        return "nothing to do"
    if plan.status == "optimal":
        return f"proved least (lower bound {plan.lower_bound})"
    bound = "no lower bound" if plan.lower_bound is None else f"lower bound {plan.lower_bound}"
    if plan.excess:
        least = "proved least" if plan.excess_proved else "not proved least"
        return f"excess {plan.excess} ({least}), {bound}"
    return f"not proved least ({bound})"


def racks_table(plan: Plan, limit: int) -> tuple[Table, int]:
    """Racks and pods over their bound before or after; rows left out."""
    table = Table(title="Racks over their bound", title_justify="left")
    table.add_column("rack")
    for heading in ("bound", "flows before", "flows after"):
        table.add_column(heading, justify="right")
    over = [(name, load) for name, load in (*plan.racks.items(), *plan.pods.items()) if _over(load)]
    for name, load in over[:limit]:
        after = _numbers(load.after)
        colour = "red" if _exceeds(load.after, load.bound) else "green"
        table.add_row(
            escape(name),
            _numbers(load.bound),
            f"[red]{_numbers(load.before)}[/red]",
            f"[{colour}]{after}[/{colour}]",
        )
    return table, max(0, len(over) - limit)


def moves_table(moves: Sequence[Move], limit: int) -> tuple[Table, int]:
    """Moves by wave; rows left out."""
    table = Table(title="Moves by wave", title_justify="left")
    for heading in ("wave", "job", "group", "rank", "from", "to", "because"):
        table.add_column(heading)
    ordered = sorted(moves, key=attrgetter("wave"))
    for wave, members in groupby(ordered[:limit], key=attrgetter("wave")):
        for index, move in enumerate(members):
            target = f"{escape(move.target)}{' [yellow]staged[/yellow]' if move.staged else ''}"
            table.add_row(
                str(wave) if index == 0 else "", escape(move.job), escape(move.group), str(move.rank),
                escape(move.source), target, escape(", ".join(move.because)),
            )  # fmt: skip
        table.add_section()
    if not any(move.because for move in moves):
        table.columns.pop()
    return table, max(0, len(moves) - limit)


def flows_table(flows: Sequence[Flow], limit: int) -> tuple[Table, int]:
    """Flows, each with the uplink it is given in that uplink's colour; rows left out."""
    table = Table(title=f"Flows and their uplinks ({len(flows)})", title_justify="left")
    ported = any(flow.udp_source_port is not None for flow in flows)
    for heading in ("from rack", "to rack", "job", "group", "ranks", "ring", "uplink", *(["port"] * ported)):
        table.add_column(heading)
    ordered = sorted(
        flows, key=lambda flow: (flow.from_rack, flow.rail, -1 if flow.uplink is None else flow.uplink)
    )
    for _, members in groupby(ordered[:limit], key=attrgetter("from_rack")):
        for index, flow in enumerate(members):
            table.add_row(
                escape(flow.from_rack) if index == 0 else "", escape(flow.to_rack), escape(flow.job),
                escape(flow.group), f"{flow.from_rank} → {flow.to_rank}", str(flow.ring), uplink(flow),
                *([str(flow.udp_source_port or "none")] * ported),
            )  # fmt: skip
        table.add_section()
    return table, max(0, len(flows) - limit)


def uplink(flow: Flow) -> Text:
    """The spine in its colour, and the core one tier up where the flow leaves its pod."""
    if flow.uplink is None:
        return Text("none", style="bold red")
    text = Text(f"● {flow.uplink}", style=UPLINK_COLOURS[flow.uplink % len(UPLINK_COLOURS)])
    if flow.leaves_pod:
        text.append(f" / core {'none' if flow.pod_uplink is None else flow.pod_uplink}")
    return text


def remarks(plan: Plan) -> Iterable[str]:
    """What is not as wished, and what is expected of the plan, one line each."""
    if plan.predicted is not None and plan.predicted.saved_gpu_s is not None and plan.jobs_paused:
        saved, lost = plan.predicted.saved_gpu_s / 3600, plan.predicted.lost_gpu_s / 3600
        verdict = "[green]worthwhile[/green]" if plan.worthwhile else "[yellow]not worthwhile[/yellow]"
        yield f"predicted: {saved:.2f} GPU-hours saved, {lost:.2f} lost to pauses: {verdict}"
    if plan.limited_by:
        yield f"[yellow]limited by {plan.limited_by}[/yellow]"
    if plan.conflict:
        yield f"[red]{escape(say_conflict(plan.conflict))}[/red]"
    if plan.undrained:
        yield f"[red]{_count(len(plan.undrained), 'worker')} cannot leave a draining node[/red]"
    if plan.transients:
        yield f"[yellow]{_count(len(plan.transients), 'rack')} above the bound between waves[/yellow]"
    if plan.shared_uplinks:
        yield f"[yellow]{_count(len(plan.shared_uplinks), 'uplink')} with more flows than fit[/yellow]"
    for row in plan.unsteered:
        yield f"[yellow]{_count(len(row.flows), 'flow')} cannot be steered: {escape(row.reason)}[/yellow]"
    kinds = Counter(group.kind for group in plan.unguaranteed)
    if kinds:
        named = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        yield f"[yellow]isolation is not claimed for {named}[/yellow]"


def _overs(plan: Plan, when: Literal["before", "after"]) -> int:
    loads = (*plan.racks.values(), *plan.pods.values())
    return sum(_exceeds(getattr(load, when), load.bound) for load in loads)


def _over(load: Load) -> bool:
    return _exceeds(load.before, load.bound) or _exceeds(load.after, load.bound)


def _exceeds(degrees: Sequence[int], bounds: Sequence[int]) -> bool:
    return any(degree > bound for degree, bound in zip(degrees, bounds, strict=True))


def _numbers(values: Sequence[int]) -> str:
    return " ".join(map(str, values))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
