"""The flows: exactly one for each ring and departure of the order after the plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .fault import Fault, pointer_to
from .outcome import Outcome
from .placement import Group, Key, Placement

Departures = dict[int, int]
"""Next rank of each rank whose hop leaves its rack."""


def flow_faults(flows: Sequence[Mapping[str, Any]], outcome: Outcome, placement: Placement) -> list[Fault]:
    """Flows that are no departure or wrongly described, flows given twice, departures without flow."""
    departures = {
        key: _departures(outcome.workers[key], outcome.orders[key], placement)
        for key, group in placement.groups.items()
        if group.sends
    }
    faults: list[Fault] = []
    seen: dict[Key, set[tuple[int, int]]] = defaultdict(set)
    for index, flow in enumerate(flows):
        key = (flow["job"], flow["group"])
        hops = departures.get(key)
        if hops is None or not 0 <= flow["ring"] < placement.groups[key].rings:
            message = f"group {key[1]!r} of job {key[0]!r} has no flow of ring {flow['ring']}"
            faults.append(_fault("flow_unknown", index, message))
            continue
        if hops.get(flow["from_rank"]) != flow["to_rank"]:
            message = (
                f"rank {flow['from_rank']} to {flow['to_rank']} is no hop of the ring that leaves a rack"
            )
            faults.append(_fault("flow_not_departure", index, message))
            continue
        hop = (flow["ring"], flow["from_rank"])
        if hop in seen[key]:
            message = f"ring {hop[0]} already has a flow from rank {hop[1]}"
            faults.append(_fault("flow_twice", index, message))
        seen[key].add(hop)
        faults += _member_faults(index, flow, outcome.workers[key], placement)
    for key, hops in departures.items():
        faults += _missing_faults(placement.groups[key], hops, seen[key])
    return faults


def _departures(workers: Sequence[str], order: Sequence[int], placement: Placement) -> Departures:
    rack_of = placement.rack_of
    hops: Departures = {}
    rank = order[-1]
    for following in order:
        if rack_of[workers[rank]] != rack_of[workers[following]]:
            hops[rank] = following
        rank = following
    return hops


def _member_faults(
    index: int, flow: Mapping[str, Any], workers: Sequence[str], placement: Placement
) -> Iterator[Fault]:
    if flow["rail"] != flow["ring"] % placement.rails:
        message = f"ring {flow['ring']} runs on rail {flow['ring'] % placement.rails}, not {flow['rail']}"
        yield _fault("flow_wrong_rail", index, message, "rail")
    for rank, member in ((flow["from_rank"], "from_rack"), (flow["to_rank"], "to_rack")):
        rack = placement.rack_of[workers[rank]]
        if flow[member] != rack:
            message = f"rank {rank} is in rack {rack!r} after the plan, not {flow[member]!r}"
            yield _fault("flow_wrong_rack", index, message, member)


def _missing_faults(group: Group, hops: Departures, seen: set[tuple[int, int]]) -> Iterator[Fault]:
    missing = len(hops) * group.rings - len(seen)
    if missing:
        ring, rank = next(
            (ring, rank) for ring in range(group.rings) for rank in hops if (ring, rank) not in seen
        )
        message = (
            f"{missing} flows of group {group.id!r} of job {group.job!r} are missing, "
            f"the first is that of ring {ring} from rank {rank} to {hops[rank]}"
        )
        yield Fault("flow_missing", "/flows", message)


def _fault(code: str, index: int, message: str, *member: str) -> Fault:
    return Fault(code, pointer_to("flows", index, *member), message)
