"""The uplink of each flow: live at both ends, and null only where there is none.

Pod uplink c leads from spine c mod S of the pod to core c, S being the spines of that pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import lcm
from typing import Any

from .fault import Fault, pointer_to
from .placement import Placement


def uplink_faults(flows: Sequence[Mapping[str, Any]], placement: Placement) -> list[Fault]:
    """Faults of ``uplink`` and ``pod_uplink``; ranks and racks of the flows must be right."""
    connected = lru_cache(maxsize=None)(lambda source, target: _connected(source, target, placement))
    faults: list[Fault] = []
    for index, flow in enumerate(flows):
        source, target = flow["from_rack"], flow["to_rack"]
        if not leaves_pod(flow, placement):
            if "pod_uplink" in flow:
                message = f"racks {source!r} and {target!r} are in one pod"
                faults.append(Fault("pod_uplink_member", _at(index, "pod_uplink"), message))
            faults += _leaf_faults(flow, index, placement)
        elif "pod_uplink" not in flow:
            message = f"the flow leaves pod {placement.racks[source].pod!r} and has no pod_uplink"
            faults.append(Fault("pod_uplink_member", _at(index), message))
        elif flow["pod_uplink"] is None:
            if connected(source, target):
                message = f"is null, but racks {source!r} and {target!r} are connected"
                faults.append(Fault("uplink_null", _at(index, "pod_uplink"), message))
            elif flow["uplink"] is not None and flow["uplink"] not in placement.racks[source].spines:
                faults.append(_dead(flow["uplink"], source, _at(index, "uplink"), placement))
        else:
            faults += _pod_faults(flow, index, placement)
    return faults


def leaves_pod(flow: Mapping[str, Any], placement: Placement) -> bool:
    """Whether ``flow`` goes from one pod to another."""
    return placement.racks[flow["from_rack"]].pod != placement.racks[flow["to_rack"]].pod


def landing_spine(flow: Mapping[str, Any], placement: Placement) -> int | None:
    """The spine from which ``flow`` enters its last leaf, None where it has no path."""
    if not leaves_pod(flow, placement):
        return _as_spine(flow["uplink"])
    core = flow["pod_uplink"]
    pod = placement.racks[flow["to_rack"]].pod
    return None if core is None or pod is None else core % placement.pod_spines[pod]


def _as_spine(uplink: Any) -> int | None:
    return uplink if type(uplink) is int else None


def _leaf_faults(flow: Mapping[str, Any], index: int, placement: Placement) -> Iterator[Fault]:
    spine = flow["uplink"]
    ends = (flow["from_rack"], flow["to_rack"])
    shared = placement.racks[ends[0]].spines & placement.racks[ends[1]].spines
    if spine is None:
        if shared:
            message = f"is null, but racks {ends[0]!r} and {ends[1]!r} share live spines {sorted(shared)}"
            yield Fault("uplink_null", _at(index, "uplink"), message)
    elif spine not in shared:
        dead_end = ends[0] if spine not in placement.racks[ends[0]].spines else ends[1]
        yield _dead(spine, dead_end, _at(index, "uplink"), placement)


def _pod_faults(flow: Mapping[str, Any], index: int, placement: Placement) -> Iterator[Fault]:
    core, spine = flow["pod_uplink"], flow["uplink"]
    source, target = placement.racks[flow["from_rack"]], placement.racks[flow["to_rack"]]
    in_range = True
    for pod in (source.pod, target.pod):
        uplinks = placement.pods[pod] if pod is not None else 0
        if not 0 <= core < uplinks:
            in_range = False
            message = f"pod {pod!r} has {uplinks} uplinks, not number {core}"
            yield Fault("pod_uplink_out_of_range", _at(index, "pod_uplink"), message)
    if spine is None:
        yield Fault("uplink_null", _at(index, "uplink"), f"is null, but the flow has pod uplink {core}")
    elif spine not in source.spines:
        yield _dead(spine, flow["from_rack"], _at(index, "uplink"), placement)
    if not in_range or source.pod is None or target.pod is None:
        return
    leads_from = _spine_of(core, source.pod, placement)
    if spine is not None and leads_from != spine:
        message = f"pod uplink {core} leads from spine {leads_from} of pod {source.pod!r}, not {spine}"
        yield Fault("pod_uplink_wrong_spine", _at(index, "pod_uplink"), message)
    lands_on = _spine_of(core, target.pod, placement)
    if lands_on not in target.spines:
        yield _dead(lands_on, flow["to_rack"], _at(index, "pod_uplink"), placement)


def _connected(source: str, target: str, placement: Placement) -> bool:
    """Whether some pod uplink leads from a live spine of ``source`` to one of ``target``."""
    first, last = placement.racks[source], placement.racks[target]
    if first.pod is None or last.pod is None:
        return False
    # Which spines core c joins repeats after the least common multiple of the pods' spines.
    repeats = lcm(placement.pod_spines[first.pod], placement.pod_spines[last.pod])
    cores = min(placement.pods[first.pod], placement.pods[last.pod], repeats)
    return any(
        _spine_of(core, first.pod, placement) in first.spines
        and _spine_of(core, last.pod, placement) in last.spines
        for core in range(cores)
    )


def _spine_of(core: int, pod: str, placement: Placement) -> int | None:
    spines = placement.pod_spines[pod]
    return core % spines if spines else None


def _dead(spine: int | None, rack: str, where: str, placement: Placement) -> Fault:
    live = sorted(placement.racks[rack].spines)
    return Fault("uplink_dead", where, f"spine {spine} is not live at rack {rack!r}, which has {live}")


def _at(index: int, *member: str) -> str:
    return pointer_to("flows", index, *member)
