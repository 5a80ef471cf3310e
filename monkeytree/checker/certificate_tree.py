"""Kind ``relaxation``: a tree of cases, each of which contradicts the assumption of fewer moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .certificate_program import Assumption, Box
from .certificate_view import View
from .fault import show
from .placement import Placement

_MOST_COLUMNS = 200_000
_MOST_NODES = 10_000
_LARGEST = 2**53


def relaxation_refusal(
    certificate: Mapping[str, Any], placement: Placement, budget: int, racks: list[str]
) -> tuple[str, str] | None:
    """Where the tree fails to exclude ``budget`` moves, and why; None if it does exclude them."""
    view = View(placement)
    landing = certificate.get("landing", [])
    if not isinstance(landing, list | tuple) or not _may_follow(landing, view):
        return "/landing", f"must be an array of different numbers of mobile groups, is {show(landing)}"
    if landing and len(racks) < len(placement.racks):
        return "/landing", "landings can only be followed where all racks are told apart"
    if len(landing) * len(racks) > _MOST_COLUMNS:
        return "/landing", f"follows {len(landing)} groups over {len(racks)} racks: too much to check"
    program = Assumption(view, budget, racks, landing).program
    nodes = [("/tree", certificate.get("tree"), Box(program))]
    seen = 0
    while nodes:
        where, node, box = nodes.pop()
        seen += 1
        if seen > _MOST_NODES:
            return "/tree", f"has more than {_MOST_NODES} nodes: too much to check"
        if not isinstance(node, dict):
            return where, f"must be an object, is {show(node)}"
        refusal = _add_multipliers(node, box)
        if refusal is not None:
            return where + "/multipliers", refusal
        if "column" not in node:
            refusal = box.refusal()
            if refusal is not None:
                return where, refusal
            continue
        column, at = node["column"], node.get("at")
        if type(column) is not str or column not in program.most:
            return where + "/column", f"{show(column)} is no column"
        if type(at) is not int or not 0 <= at <= _LARGEST:
            return where + "/at", f"must be an integer of 0 or more, is {show(at)}"
        # The column is an integer: it is at most ``at``, or at least one more. Both sides must fail.
        low, high = box, box.copy()
        low.most[column] = min(at, low.most.get(column, program.most[column]))
        high.least[column] = max(at + 1, high.least.get(column, 0))
        nodes.append((where + "/most", node.get("most"), low))
        nodes.append((where + "/more", node.get("more"), high))
    return None


def _may_follow(landing: list[Any] | tuple[Any, ...], view: View) -> bool:
    groups = view.groups
    fit = [
        number
        for number in landing
        if type(number) is int and 0 <= number < len(groups) and not view.fixed(groups[number])
    ]
    return len(fit) == len(landing) == len(set(fit))


def _add_multipliers(node: Mapping[str, Any], box: Box) -> str | None:
    multipliers = node.get("multipliers", {})
    if not isinstance(multipliers, dict):
        return f"must be an object, is {show(multipliers)}"
    for row, times in multipliers.items():
        if type(row) is not str or row not in box.program.rows:
            return f"{show(row)} is no row"
        if type(times) is not int or not -_LARGEST <= times <= _LARGEST:
            return f"the multiplier of row {show(row)} must be an integer, is {show(times)}"
        box.add(row, times)
    return None
