"""Leaves that are over in the midst of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .fault import Fault, pointer_to
from .loads import Leaf, Loads
from .moves import Step
from .outcome import Outcome
from .placement import Key, Placement
from .waves import waves_of

Transient = tuple[str, int, int]
"""(rack id, rail, wave)."""


def transient_faults(
    transients: Sequence[Mapping[str, Any]], outcome: Outcome, before: Loads, placement: Placement
) -> list[Fault]:
    """Entries missing from ``transients``, false ones and wrong ones. Waves must be without gaps."""
    found = _find_transients(outcome, before, placement)
    faults = []
    listed = set()
    for index, entry in enumerate(transients):
        key = (entry["rack"], entry["rail"], entry["wave"])
        where = pointer_to("transients", index)
        f = found.get(key)
        if f is None or key in listed:
            message = f"{_name(key)} is not over both its bound and its degree before, or listed already"
            faults.append(Fault("transient_false", where, message))
        elif entry["f"] != f:
            message = f"the degree of {_name(key)} is {f}, not {entry['f']}"
            faults.append(Fault("transient_wrong_f", where + "/f", message))
        listed.add(key)
    for key, f in found.items():
        if key not in listed:
            faults.append(Fault("transient_missing", "/transients", f"{_name(key)} has degree {f}"))
    return faults


def _find_transients(outcome: Outcome, before: Loads, placement: Placement) -> dict[Transient, int]:
    """Degree of every leaf over both its bound and its degree before, after each wave."""
    loads = before.copy()
    workers: dict[Key, list[str]] = {}
    waves = waves_of(outcome.steps)
    touched = _reorder_unmoved(loads, outcome, placement)
    over: dict[Leaf, int] = {}
    found: dict[Transient, int] = {}
    for wave in range(max(1, len(waves))):
        touched |= _carry_out_wave(loads, waves.get(wave, ()), workers, outcome, placement)
        for leaf in touched:
            f = loads.leaves[leaf]
            if f > placement.bound(leaf[0]) and f > before.leaves.get(leaf, 0):
                over[leaf] = f
            else:
                over.pop(leaf, None)
        found.update({(rack, rail, wave): f for (rack, rail), f in over.items()})
        touched = set()
    return found


def _reorder_unmoved(loads: Loads, outcome: Outcome, placement: Placement) -> set[Leaf]:
    """New orders of groups without a move hold from wave 0."""
    touched: set[Leaf] = set()
    moved = {step.group.key for step in outcome.steps}
    for key in outcome.changed - moved:
        group = placement.groups[key]
        touched |= loads.add(group, group.workers, group.order, placement, -1)
        touched |= loads.add(group, group.workers, outcome.orders[key], placement)
    return touched


def _carry_out_wave(
    loads: Loads, steps: Sequence[Step], workers: dict[Key, list[str]], outcome: Outcome, placement: Placement
) -> set[Leaf]:
    """Move the ranks of one wave; a group's new order holds from its first wave on."""
    touched: set[Leaf] = set()
    by_group: dict[Key, list[Step]] = {}
    for step in steps:
        by_group.setdefault(step.group.key, []).append(step)
    for key, group_steps in by_group.items():
        group = placement.groups[key]
        old_order = outcome.orders[key] if key in workers else group.order
        nodes = workers.setdefault(key, list(group.workers))
        touched |= loads.add(group, nodes, old_order, placement, -1)
        for step in group_steps:
            nodes[step.rank] = step.target
        touched |= loads.add(group, nodes, outcome.orders[key], placement)
    return touched


def _name(key: Transient) -> str:
    return f"rail {key[1]} of rack {key[0]!r} after wave {key[2]}"
