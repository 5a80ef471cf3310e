"""Advice for pending jobs (contract, section 2, ``placements``): each is possible, and its figures right.

Jobs are placed in order on what the plan leaves free. That no better nodes exist is not checked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .fault import Fault, pointer_to
from .loads import Loads
from .outcome import Outcome
from .placement import Pending, Placement

NO_ROOM = ["no_room"]


def advice_faults(
    plan: Mapping[str, Any], outcome: Outcome, after: Loads, placement: Placement
) -> Iterator[Fault]:
    """What is wrong with ``placements``; a plan of a release before it may lack the member."""
    listed = plan.get("placements")
    if listed is None:
        return
    said = [entry["job"] for entry in listed]
    right = [job.id for job in placement.pending]
    if said != right:
        message = f"the pending jobs are {right}, in this order, not {said}"
        yield Fault("placement_missing", "/placements", message)
        return
    free = {name: node.usable for name, node in placement.nodes.items()}
    for key, workers in outcome.workers.items():
        for node in workers:
            free[node] -= placement.groups[key].slots_per_worker
    loads = after.copy()
    for index, (job, entry) in enumerate(zip(placement.pending, listed, strict=True)):
        yield from _entry_faults(index, job, entry, free, loads, placement)


def _entry_faults(
    index: int,
    job: Pending,
    entry: Mapping[str, Any],
    free: dict[str, int],
    loads: Loads,
    placement: Placement,
) -> Iterator[Fault]:
    nodes: Sequence[str] = entry["nodes"]
    if not nodes:
        yield from _no_room_faults(index, job, entry, free, placement)
        return
    wrong = _wrong_nodes(job, nodes, free, placement)
    if wrong is not None:
        yield Fault("placement_impossible", pointer_to("placements", index, "nodes"), wrong)
        return
    for node in nodes:
        free[node] -= job.slots_per_worker
    racks = {placement.rack_of[node]: None for node in nodes}
    _add(job, list(racks), loads, placement)
    yield from _figure_faults(index, entry, list(racks), loads, placement)


def _no_room_faults(
    index: int, job: Pending, entry: Mapping[str, Any], free: Mapping[str, int], placement: Placement
) -> Iterator[Fault]:
    room = sum(_room(job, name, free, placement) for name in placement.nodes)
    if room >= job.workers:
        message = f"there is room for {room} workers of {job.id!r}, which has {job.workers}"
        yield Fault("placement_missed", pointer_to("placements", index, "nodes"), message)
    elif entry["after"] or entry["within_bound"] or list(entry["because"]) != NO_ROOM:
        message = f"{job.id!r} has no room: no racks, not within bounds, because no_room"
        yield Fault("placement_wrong", pointer_to("placements", index), message)


def _room(job: Pending, name: str, free: Mapping[str, int], placement: Placement) -> int:
    node = placement.nodes[name]
    if node.cordoned or node.drain or (job.classes is not None and node.node_class not in job.classes):
        return 0
    room = free[name] // job.slots_per_worker
    return min(1, room) if job.one_per_node else room


def _wrong_nodes(
    job: Pending, nodes: Sequence[str], free: Mapping[str, int], placement: Placement
) -> str | None:
    """Why ``job`` cannot start on ``nodes``; None where it can."""
    if len(nodes) != job.workers:
        return f"{job.id!r} has {job.workers} workers, not {len(nodes)}"
    for name, times in Counter(nodes).items():
        if name not in placement.nodes:
            return f"{name!r} is not in the snapshot"
        room = _room(job, name, free, placement)
        if times > room:
            return f"{name!r} has room for {room} workers of {job.id!r}, not {times}"
    return None


def _add(job: Pending, racks: Sequence[str], loads: Loads, placement: Placement) -> None:
    """Its flows: a departure a ring from each rack, where there is more than one; pods likewise."""
    if len(racks) < 2:
        return
    for rack in racks:
        for ring in range(job.rings):
            loads.leaves[rack, ring % placement.rails] += 1
    pods = {placement.racks[rack].pod for rack in racks}
    if len(pods) > 1:
        for pod in pods:
            if pod is not None:
                loads.pods[pod] += job.rings


def _figure_faults(
    index: int, entry: Mapping[str, Any], racks: Sequence[str], loads: Loads, placement: Placement
) -> Iterator[Fault]:
    rails = range(placement.rails)
    figures: dict[str, Any] = {}
    over: dict[str, bool] = defaultdict(bool)
    for rack in racks:
        row = [loads.leaves.get((rack, rail), 0) for rail in rails]
        figures[rack] = row if placement.rails > 1 else row[0]
        over[rack] = len(racks) > 1 and max(row) > placement.bound(rack)
    pods = {placement.racks[rack].pod for rack in racks} - {None}
    for pod in pods if len(pods) > 1 else ():
        over[f"pod:{pod}"] = loads.pods.get(str(pod), 0) > placement.pod_bound(str(pod))
    said = {rack: list(f) if isinstance(f, tuple) else f for rack, f in entry["after"].items()}
    if said != figures:
        message = f"f of the racks it touches is {figures} then, not {said}"
        yield Fault("placement_wrong", pointer_to("placements", index, "after"), message)
    against = sorted(name for name, is_over in over.items() if is_over)
    if entry["within_bound"] != (not against) or sorted(entry["because"]) != against:
        message = f"over their bounds then are {against}, not {sorted(entry['because'])}"
        yield Fault("placement_wrong", pointer_to("placements", index, "because"), message)
