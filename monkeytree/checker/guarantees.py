"""The groups whose isolation the plan does not claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .fault import Fault, pointer_to
from .placement import Key, Placement


def unguaranteed_faults(
    unguaranteed: Sequence[Mapping[str, Any]], flows: Sequence[Mapping[str, Any]], placement: Placement
) -> list[Fault]:
    """Groups missing from ``unguaranteed``, and entries that should not be there.

    Must be listed: groups that send and are no ring, and groups with a flow without a path. May be
    listed: any group that is no ring; with routing other than ``steered`` any group at all.
    """
    cut = {(flow["job"], flow["group"]) for flow in flows if _is_cut(flow)}
    faults = []
    listed: set[Key] = set()
    for index, entry in enumerate(unguaranteed):
        key = (entry["job"], entry["group"])
        where = pointer_to("unguaranteed", index)
        group = placement.groups.get(key)
        if group is None or key in listed:
            faults.append(Fault("unguaranteed_false", where, f"{_name(key)} is unknown or listed already"))
            continue
        listed.add(key)
        if group.kind == "ring" and key not in cut and placement.routing == "steered":
            message = f"{_name(key)} is a ring and all its flows have an uplink"
            faults.append(Fault("unguaranteed_false", where, message))
        if entry["kind"] != group.kind:
            message = f"{_name(key)} is of kind {group.kind!r}, not {entry['kind']!r}"
            faults.append(Fault("unguaranteed_wrong_kind", where + "/kind", message))
    for key, group in placement.groups.items():
        if key not in listed and group.sends and (group.kind != "ring" or key in cut):
            reason = "has a flow without uplink" if key in cut else f"is of kind {group.kind!r}"
            faults.append(Fault("unguaranteed_missing", "/unguaranteed", f"{_name(key)} {reason}"))
    return faults


def _is_cut(flow: Mapping[str, Any]) -> bool:
    return flow["uplink"] is None or flow.get("pod_uplink", 0) is None


def _name(key: Key) -> str:
    return f"group {key[1]!r} of job {key[0]!r}"
