"""From a plan to the steps that carry it out: pure functions of the plan's document and its snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monkeytree.snapshot import Snapshot

from .executions_routes import routed_nodes
from .executions_rows import Step

Orders = Mapping[tuple[str, str], tuple[int, ...]]
"""New ring order by job and group, of the groups whose order changes."""

#: Beyond its turns of transfers: successors that start, ranks that reach a boundary, a first iteration.
WAVE_OVERHEAD_S = 420.0
#: For a table of source ports: sixteen are put at once.
ROUTES_S = 1.0
#: Longer than this no execution lasts.
LONGEST_S = 86_400.0


def make_steps(plan: Mapping[str, Any], snapshot: Snapshot) -> tuple[Step, ...]:
    """A step a move, in the plan's order, one for each reordered group none of whose workers moves, and one
    for each node that is given a table of source ports.
    """
    sizes = {(job.id, group.id): group for job, group in snapshot.groups}
    steps = []
    for number, move in enumerate(plan["moves"]):
        group = sizes[move["job"], move["group"]]
        steps.append(
            Step(
                number=number, kind="move", job=move["job"], group=move["group"], rank=move["rank"],
                source=move["from"], target=move["to"], source_rack=snapshot.rack_of[move["from"]].id,
                target_rack=snapshot.rack_of[move["to"]].id, wave=move["wave"], staged=move["staged"],
                slots=group.slots_per_worker, state_gb=group.state_gb,
            )
        )  # fmt: skip
    moved = {(step.job, step.group) for step in steps}
    for job, group_id in ring_orders(plan):
        if (job, group_id) not in moved:
            steps.append(
                Step(
                    number=len(steps), kind="reorder", job=job, group=group_id, rank=None, source=None,
                    target=None, source_rack=None, target_rack=None, wave=0, staged=False, slots=0,
                    state_gb=0.0,
                )
            )  # fmt: skip
    for node in routed_nodes(plan, snapshot):
        steps.append(
            Step(
                number=len(steps), kind="routes", job="", group="", rank=None, source=node, target=None,
                source_rack=None, target_rack=None, wave=0, staged=False, slots=0, state_gb=0.0,
            )
        )  # fmt: skip
    return tuple(steps)


def ring_orders(plan: Mapping[str, Any]) -> Orders:
    """The orders that change."""
    return {(ring["job"], ring["group"]): tuple(ring["order"]) for ring in plan["rings"] if ring["changed"]}


def orders_in_wave(
    orders: Orders, steps: tuple[Step, ...], job: str, wave: int
) -> dict[str, tuple[int, ...]]:
    """By group, the orders that ``job`` takes on in ``wave``: that of its group's first step."""
    first: dict[str, int] = {}
    for step in steps:
        if step.job == job:
            first[step.group] = min(step.wave, first.get(step.group, step.wave))
    return {
        group: order for (owner, group), order in orders.items() if owner == job and first.get(group) == wave
    }


def time_limit_s(steps: tuple[Step, ...], move_pause_s: float) -> float:
    """Seconds an execution may take: as if each move had a turn of its own, one after the other."""
    waves = {(step.job, step.wave) for step in steps}
    tables = sum(step.kind == "routes" for step in steps)
    turns = len(steps) - tables + len(waves)
    return min(LONGEST_S, len(waves) * WAVE_OVERHEAD_S + turns * move_pause_s + tables * ROUTES_S)
