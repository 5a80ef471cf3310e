"""The moves wave by wave: numbering, slots after each wave, staging, restarts in one wave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from .fault import Fault, pointer_to
from .moves import Step
from .placement import Placement


def waves_of(steps: Sequence[Step]) -> dict[int, list[Step]]:
    """Steps of each wave, waves ascending."""
    waves: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        waves[step.wave].append(step)
    return dict(sorted(waves.items()))


def numbering_faults(steps: Sequence[Step]) -> list[Fault]:
    """Waves that are not 0, 1, 2, ... without gaps."""
    found = list(waves_of(steps))
    if found == list(range(len(found))):
        return []
    return [Fault("wave_gap", "/moves", f"waves must be numbered from 0 without gaps, are {found}")]


def restart_faults(steps: Sequence[Step], placement: Placement) -> list[Fault]:
    """Jobs that restart but move in more than one wave."""
    first: dict[str, Step] = {}
    faults = []
    for step in steps:
        job = step.group.job
        if placement.jobs[job].mobility != "restart":
            continue
        earlier = first.setdefault(job, step)
        if earlier.wave != step.wave:
            message = f"job {job!r} restarts in wave {earlier.wave} (/moves/{earlier.index}), not {step.wave}"
            faults.append(Fault("restart_split", pointer_to("moves", step.index, "wave"), message))
    return faults


def slot_faults(steps: Sequence[Step], placement: Placement) -> list[Fault]:
    """Nodes that hold too much after a wave, and moves whose ``staged`` is not so.

    In a wave all sources release, then all land. A node fills only by landings, so looking at the
    targets of each wave is enough.
    """
    free = {name: node.usable for name, node in placement.nodes.items()}
    for group in placement.groups.values():
        for node in group.workers:
            free[node] -= group.slots_per_worker
    faults: list[Fault] = []
    for wave in waves_of(steps).values():
        landings: dict[str, list[Step]] = defaultdict(list)
        for step in wave:
            landings[step.target].append(step)
        before = {node: free[node] for node in landings}
        for step in wave:
            free[step.source] += step.group.slots_per_worker
            free[step.target] -= step.group.slots_per_worker
        for node, landed in landings.items():
            faults += _landing_faults(node, landed, before[node], free[node])
    return faults


def _landing_faults(node: str, landed: Sequence[Step], free_before: int, free_after: int) -> list[Fault]:
    faults = []
    wave = landed[0].wave
    where = pointer_to("moves", landed[0].index)
    if free_after < 0:
        message = f"after wave {wave} node {node!r} holds {-free_after} slots too many"
        faults.append(Fault("move_to_full_node", where + "/to", message))
    unstaged = sum(step.group.slots_per_worker for step in landed if not step.staged)
    staged = [step for step in landed if step.staged]
    needed = unstaged + sum(step.group.slots_per_worker for step in staged)
    if unstaged > max(free_before, 0):
        message = (
            f"unstaged moves of wave {wave} need {unstaged} slots of node {node!r}, "
            f"{max(free_before, 0)} are free before the wave"
        )
        faults.append(Fault("unstaged_without_slot", where + "/staged", message))
    if staged and needed <= free_before:
        message = (
            f"all moves of wave {wave} to node {node!r} need {needed} slots, "
            f"{free_before} are free before the wave: none is staged"
        )
        faults.append(Fault("staged_without_need", pointer_to("moves", staged[0].index, "staged"), message))
    return faults
