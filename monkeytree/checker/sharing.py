"""Uplinks that carry more flows than they can at full rate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .fault import Fault, pointer_to
from .loads import Loads
from .placement import Placement
from .uplinks import landing_spine, leaves_pod

LeafUplink = tuple[str, int, int, str]
"""(rack id, rail, spine, direction)."""
PodUplink = tuple[str, int, str]
"""(pod id, core, direction)."""
Carried = Mapping[LeafUplink | PodUplink, list[int]]


def sharing_faults(
    shared: Sequence[Mapping[str, Any]], carried: Carried, placement: Placement
) -> list[Fault]:
    """Entries missing from ``shared_uplinks``, false ones, and those with other flows."""
    faults = []
    listed = set()
    for index, entry in enumerate(shared):
        where = pointer_to("shared_uplinks", index)
        key = _key(entry)
        if key is None:
            message = "must name a rack and a rail, or a pod"
            faults.append(Fault("malformed", where, message))
            continue
        flows = carried.get(key, [])
        if len(flows) <= placement.per_uplink or key in listed:
            message = f"{_name(key)} carries {len(flows)} flows of at most {placement.per_uplink}"
            message = f"{_name(key)} is listed already" if key in listed else message
            faults.append(Fault("sharing_false", where, message))
        elif sorted(entry["flows"]) != flows:
            message = f"{_name(key)} carries flows {flows}, not {list(entry['flows'])}"
            faults.append(Fault("sharing_wrong_flows", where + "/flows", message))
        listed.add(key)
    for key, flows in carried.items():
        if len(flows) > placement.per_uplink and key not in listed:
            message = f"{_name(key)} carries flows {flows}, at most {placement.per_uplink} fit"
            faults.append(Fault("sharing_missing", "/shared_uplinks", message))
    return faults


def isolation_faults(carried: Carried, after: Loads, placement: Placement) -> Iterator[Fault]:
    """Flows that share although they need not (König), or more than an even folding gives.

    Only where all leaves have the same uplinks, there are no pods and flows are steered: elsewhere
    the contract promises no isolated colouring.
    """
    uplinks = {rack.spines for rack in placement.racks.values()}
    if placement.routing != "steered" or placement.pods or len(uplinks) != 1:
        return
    for key, flows in carried.items():
        if len(key) != 4:
            continue
        rack, rail = key[0], key[1]
        f, spines = after.leaves.get((rack, rail), 0), len(placement.racks[rack].spines)
        if f <= placement.bound(rack):
            if len(flows) > placement.per_uplink:
                message = f"{_name(key)} carries flows {flows} though its leaf is not over (f = {f})"
                yield Fault("isolation_missed", "/shared_uplinks", message)
        elif spines and len(flows) > -(-f // spines):
            message = f"{_name(key)} carries {len(flows)} of {f} flows, more than ceil({f} / {spines})"
            yield Fault("fold_uneven", "/shared_uplinks", message)


def carried_flows(flows: Sequence[Mapping[str, Any]], placement: Placement) -> Carried:
    """Indices of the flows that each uplink of a leaf or pod carries in each direction."""
    carried: dict[LeafUplink | PodUplink, list[int]] = defaultdict(list)
    for index, flow in enumerate(flows):
        rail = flow["rail"]
        if flow["uplink"] is not None:
            carried[flow["from_rack"], rail, flow["uplink"], "up"].append(index)
        spine = landing_spine(flow, placement)
        if spine is not None:
            carried[flow["to_rack"], rail, spine, "down"].append(index)
        if leaves_pod(flow, placement) and flow["pod_uplink"] is not None:
            source, target = placement.racks[flow["from_rack"]].pod, placement.racks[flow["to_rack"]].pod
            carried[str(source), flow["pod_uplink"], "up"].append(index)
            carried[str(target), flow["pod_uplink"], "down"].append(index)
    return carried


def _key(entry: Mapping[str, Any]) -> LeafUplink | PodUplink | None:
    rack, rail, pod = entry.get("rack"), entry.get("rail"), entry.get("pod")
    if rack is not None and rail is not None and pod is None:
        return rack, rail, entry["uplink"], entry["direction"]
    if pod is not None and rack is None:
        return pod, entry["uplink"], entry["direction"]
    return None


def _name(key: LeafUplink | PodUplink) -> str:
    if len(key) == 4:
        return f"uplink {key[2]} of rack {key[0]!r}, rail {key[1]}, {key[3]},"
    return f"uplink {key[1]} of pod {key[0]!r}, {key[2]},"
