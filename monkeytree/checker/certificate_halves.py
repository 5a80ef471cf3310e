"""Kind ``rack_halves``: half-moves that racks over their bound need, counted rack by rack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .certificate_view import View
from .placement import Group, Placement

_MOST_EXCESS = 100_000  # the knapsack is computed excess by excess


def halves_refusal(
    certificate: Mapping[str, Any], placement: Placement, budget: int, racks: list[str]
) -> tuple[str, str] | None:
    """Why the half-moves of ``racks`` do not exclude ``budget`` moves; None if they do."""
    view = View(placement)
    halves = 0
    for rack in racks:
        spread = [group for group in view.groups if view.spread(group) and rack in view.count[group.key]]
        needed: list[int | None] = [0]
        for rail in range(min(placement.rails, max((group.rings for group in spread), default=0))):
            weights = [placement.rings_on_rail(group, rail) for group in spread]
            excess = view.lasting(rack, rail) + sum(weights) - placement.bound(rack)
            if excess > _MOST_EXCESS:
                return "/racks", f"rack {rack!r} is over by {excess}: too much to check this way"
            ways = [_cheapest(view, group, rack, budget) for group in spread]
            needed.append(_least_cost(ways, weights, excess))
        if None in needed:
            return None  # within the budget nothing makes this rack comply
        halves += max(figure for figure in needed if figure is not None)
    if halves > 2 * budget:
        return None
    return "/racks", f"its racks need {halves} half-moves, which {budget} moves provide"


def _cheapest(view: View, group: Group, rack: str, budget: int) -> int | None:
    """Half-moves after which ``group`` no longer loads ``rack``; None if ``budget`` moves cannot do it.

    Either all its workers leave, with one half each here and one where they land, which counts for
    this rack too unless the group becomes whole where they land; or all others come.
    """
    count, nailed = view.count[group.key], view.nailed(group)
    size = len(group.workers)
    gatherable = [
        other for other in count if size - count[other] <= budget and all(place == other for place in nailed)
    ]
    ways = []
    if not nailed[rack] and count[rack] <= budget:
        elsewhere = any(other != rack for other in gatherable)
        ways.append(count[rack] * (1 if elsewhere else 2))
    if rack in gatherable:
        ways.append(size - count[rack])
    return min(ways, default=None)


def _least_cost(ways: list[int | None], weights: list[int], excess: int) -> int | None:
    """Least total cost of a choice whose weights reach ``excess``; None if there is none."""
    if excess <= 0:
        return 0
    cheapest: list[int | None] = [0] + [None] * excess  # by weight reached, capped at excess
    for way, weight in zip(ways, weights, strict=True):
        if way is None or weight <= 0:
            continue
        for reached in range(excess, -1, -1):
            before = cheapest[reached]
            if before is None:
                continue
            after = min(excess, reached + weight)
            now = cheapest[after]
            if now is None or before + way < now:
                cheapest[after] = before + way
    return cheapest[excess]
