"""The ring orders after the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .fault import Fault, pointer_to
from .placement import Key, Placement

Orders = dict[Key, tuple[int, ...]]


def read_rings(rings: Sequence[Mapping[str, Any]], placement: Placement) -> tuple[Orders, list[Fault]]:
    """The order of each group after the plan, and the faults for which some group has none."""
    orders: Orders = {}
    faults = []
    for index, ring in enumerate(rings):
        key = (ring["job"], ring["group"])
        group = placement.groups.get(key)
        where = pointer_to("rings", index)
        name = _name(key)
        if group is None or len(group.workers) < 2:
            message = f"{name} is not in the snapshot or has one worker"
            faults.append(Fault("ring_unknown", where, message))
        elif key in orders:
            faults.append(Fault("ring_twice", where, f"{name} stands here a second time"))
        else:
            orders[key] = tuple(ring["order"])
            if sorted(orders[key]) != list(range(len(group.workers))):
                message = f"no permutation of the {len(group.workers)} ranks of {name}"
                faults.append(Fault("ring_not_permutation", where + "/order", message))
    for key, group in placement.groups.items():
        if key in orders:
            continue
        orders[key] = group.order
        if len(group.workers) > 1:
            faults.append(Fault("ring_missing", "/rings", f"{_name(key)} is not listed"))
    return orders, faults


def changed_groups(orders: Orders, placement: Placement) -> frozenset[Key]:
    """Groups whose directed cyclic order differs from the snapshot's."""
    return frozenset(
        key for key, group in placement.groups.items() if _from_zero(orders[key]) != _from_zero(group.order)
    )


def ring_faults(
    rings: Sequence[Mapping[str, Any]], changed: frozenset[Key], placement: Placement
) -> list[Fault]:
    """Wrong ``changed`` flags, and new orders of groups that must keep theirs."""
    faults = []
    for index, ring in enumerate(rings):
        key = (ring["job"], ring["group"])
        differs = key in changed
        if ring["changed"] != differs:
            words = "differs from" if differs else "is"
            message = f"says {ring['changed']}, but the cyclic order {words} the snapshot's"
            faults.append(Fault("ring_changed_flag", pointer_to("rings", index, "changed"), message))
        group = placement.groups[key]
        immobile = placement.jobs[group.job].mobility == "none"
        if differs and (group.order_fixed or immobile):
            reason = "job of mobility none" if immobile else "order_fixed"
            message = f"the order of {_name(key)} may not change ({reason})"
            faults.append(Fault("fixed_ring_changed", pointer_to("rings", index, "order"), message))
    return faults


def _from_zero(order: tuple[int, ...]) -> tuple[int, ...]:
    """The same directed cycle, written from rank 0 on."""
    if not order or order[0] == 0:
        return order
    start = order.index(0)
    return order[start:] + order[:start]


def _name(key: Key) -> str:
    return f"group {key[1]!r} of job {key[0]!r}"
