"""The shape of a plan document: which members, of which types (contract, section 2).

All later checks rely on it: they index members without looking again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from .fault import Fault, pointer_to, show

_LARGEST = 2**53  # JSON numbers are exact up to here (RFC 8259, section 6)


@dataclass(frozen=True, slots=True)
class Kind:
    """Types a member may have, the words for them, and, for arrays, the type of the items."""

    words: str
    types: tuple[type, ...]
    items: type = int


_TEXT = Kind("a string", (str,))
_TEXT_OR_NULL = Kind("a string or null", (str, type(None)))
_WHOLE = Kind("an integer", (int,))
_WHOLE_OR_NULL = Kind("an integer or null", (int, type(None)))
_TEXTS = Kind("an array of strings", (list, tuple), str)
_LOADS = Kind("an object of racks", (dict,))
_WHOLES = Kind("an array of integers", (list, tuple))
_WHOLE_OR_WHOLES = Kind("an integer or an array of integers", (int, list, tuple))
_NUMBER = Kind("a finite number", (int, float))
_NUMBER_OR_NULL = Kind("a finite number or null", (int, float, type(None)))
_FLAG = Kind("true or false", (bool,))
_FLAG_OR_NULL = Kind("true, false or null", (bool, type(None)))

Members = Mapping[str, Kind]

_TOP: Members = {
    "format": _WHOLE, "cluster": _TEXT, "status": _TEXT, "moves_needed": _WHOLE,
    "lower_bound": _WHOLE_OR_NULL, "excess": _WHOLE, "excess_proved": _FLAG,
    "limited_by": _TEXT_OR_NULL, "jobs_paused": _WHOLE, "pause_s": _NUMBER,
}  # fmt: skip
_TOP_OPTIONAL: Members = {"snapshot_id": _TEXT_OR_NULL, "worthwhile": _FLAG_OR_NULL}
_OBJECTIVE: Members = {"name": _TEXT, "value": _NUMBER, "ties_proved": _FLAG}
_OBJECTIVE_OPTIONAL: Members = {"lower_bound": _NUMBER_OR_NULL}
_PREDICTED: Members = {"saved_gpu_s": _NUMBER_OR_NULL, "lost_gpu_s": _NUMBER}
_LOAD: Members = {"bound": _WHOLE_OR_WHOLES, "before": _WHOLE_OR_WHOLES, "after": _WHOLE_OR_WHOLES}
_POD_LOAD: Members = {"bound": _WHOLE, "before": _WHOLE, "after": _WHOLE}
_RECORDS: Mapping[str, Members] = {
    "undrained": {"job": _TEXT, "group": _TEXT, "rank": _WHOLE, "node": _TEXT},
    "moves": {
        "job": _TEXT, "group": _TEXT, "rank": _WHOLE, "from": _TEXT, "to": _TEXT,
        "wave": _WHOLE, "staged": _FLAG,
    },
    "rings": {"job": _TEXT, "group": _TEXT, "order": _WHOLES, "changed": _FLAG},
    "flows": {
        "job": _TEXT, "group": _TEXT, "ring": _WHOLE, "rail": _WHOLE, "from_rank": _WHOLE,
        "to_rank": _WHOLE, "from_rack": _TEXT, "to_rack": _TEXT, "uplink": _WHOLE_OR_NULL,
    },
    "transients": {"rack": _TEXT, "rail": _WHOLE, "wave": _WHOLE, "f": _WHOLE},
    "shared_uplinks": {"uplink": _WHOLE, "direction": _TEXT, "flows": _WHOLES},
    "unguaranteed": {"job": _TEXT, "group": _TEXT, "kind": _TEXT},
    "unsteered": {"reason": _TEXT, "flows": _WHOLES},
    "placements": {
        "job": _TEXT, "nodes": _TEXTS, "after": _LOADS, "within_bound": _FLAG, "proved": _FLAG,
        "because": _TEXTS,
    },
}  # fmt: skip
_RECORDS_OPTIONAL: Mapping[str, Members] = {
    "flows": {"pod_uplink": _WHOLE_OR_NULL, "udp_source_port": _WHOLE, "flow_label": _WHOLE},
    "shared_uplinks": {"rack": _TEXT_OR_NULL, "rail": _WHOLE_OR_NULL, "pod": _TEXT_OR_NULL},
}


def shape_faults(plan: Any) -> list[Fault]:
    """Everything about ``plan`` that is not of the shape of a ready plan, format 1."""
    if not isinstance(plan, dict):
        return [_malformed(plan, "an object")]
    state = plan.get("state")
    if type(state) is not str:
        return [_malformed(state, _TEXT.words, "state")]
    if state != "ready":
        return [Fault("not_ready", "/state", f"only a ready plan can be checked, this one is {show(state)}")]
    faults = _object_faults(plan, _TOP, _TOP_OPTIONAL, ())
    if type(plan.get("format")) is int and plan["format"] != 1:
        faults.append(Fault("unsupported_format", "/format", f"format is {plan['format']!r}, not 1"))
    if plan.get("failure") is not None:
        faults.append(_malformed(plan["failure"], "null on a ready plan", "failure"))
    faults += _object_faults(plan.get("objective"), _OBJECTIVE, _OBJECTIVE_OPTIONAL, ("objective",))
    if plan.get("predicted") is not None:
        faults += _object_faults(plan["predicted"], _PREDICTED, {}, ("predicted",))
    faults += _map_faults(plan.get("racks"), _LOAD, "racks")
    faults += _map_faults(plan.get("pods"), _POD_LOAD, "pods")
    for name, members in _RECORDS.items():
        if name in ("unsteered", "placements") and name not in plan:  # plans of earlier releases have none
            continue
        faults += _list_faults(plan.get(name), members, _RECORDS_OPTIONAL.get(name, {}), name)
    return faults


def _malformed(value: Any, words: str, *path: str | int) -> Fault:
    return Fault("malformed", pointer_to(*path), f"must be {words}, is {show(value)}")


def _list_faults(value: Any, members: Members, optional: Members, name: str) -> list[Fault]:
    if not isinstance(value, list | tuple):
        return [_malformed(value, "an array", name)]
    faults: list[Fault] = []
    for index, item in enumerate(value):
        faults += _object_faults(item, members, optional, (name, index))
    return faults


def _map_faults(value: Any, members: Members, name: str) -> list[Fault]:
    if not isinstance(value, dict):
        return [_malformed(value, "an object", name)]
    faults: list[Fault] = []
    for key, item in value.items():
        if type(key) is str:
            faults += _object_faults(item, members, {}, (name, key))
        else:
            faults.append(_malformed(key, "an object with string keys", name))
    return faults


def _object_faults(
    value: Any, members: Members, optional: Members, path: tuple[str | int, ...]
) -> list[Fault]:
    if not isinstance(value, dict):
        return [_malformed(value, "an object", *path)]
    faults = []
    for name, kind in members.items():
        if name not in value:
            faults.append(Fault("malformed", pointer_to(*path, name), f"is missing: must be {kind.words}"))
        elif not _fits(value[name], kind):
            faults.append(_malformed(value[name], kind.words, *path, name))
    for name, kind in optional.items():
        if name in value and not _fits(value[name], kind):
            faults.append(_malformed(value[name], kind.words, *path, name))
    return faults


def _fits(value: Any, kind: Kind) -> bool:
    # Exact types, so that true is no integer; numbers bounded, so that later arithmetic cannot raise.
    found = type(value)
    if found not in kind.types:
        return False
    if found is int:
        return bool(-_LARGEST <= value <= _LARGEST)
    if found is float:
        return isfinite(value)
    if (found is list or found is tuple) and kind.items is str:
        return all(type(item) is str for item in value)
    if found is list or found is tuple:
        return all(type(item) is int and -_LARGEST <= item <= _LARGEST for item in value)
    return True
