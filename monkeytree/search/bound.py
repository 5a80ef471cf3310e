"""How many more lifts a state needs at least, counted in half-moves rack by rack.

A move has two halves: it leaves one rack and lands on another. A rack that is over must see enough of
the groups that count on it go (their workers leave: one half each here, and one where they land) or
become whole there (the workers missing land: one half each here). The cheapest choice that removes the
excess is a knapsack; summed over the racks no half is counted twice, so half the sum, rounded up, is a
bound (docs/solver.md has the proof).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from .state import Pair, State

IMPOSSIBLE = 10**9
LARGE_TABLE = 2_000
"""Cells of a knapsack table from which the fractional bound is taken instead."""


def lifts_needed(state: State, left: int, keep: Collection[Pair]) -> int:
    """A lower bound on the lifts still needed; ``IMPOSSIBLE`` where no choice is left.

    Args:
        left: lifts that may still be made (a group that would need more to become whole, cannot).
        keep: (member, rack) pairs that are to go on counting.
    """
    halves: dict[int, int] = {}
    for rack, rail in state.over:
        excess = state.load[rack, rail] - state.problem.bounds[rack]
        here = cheapest_removal(rack_options(state, rack, rail, left, keep), excess)
        halves[rack] = max(halves.get(rack, 0), here)
    for site in state.overfull:
        rack = state.rack_of[site]
        halves[rack] = max(halves.get(rack, 0), _crowding(state, site))
    lifts = -(-sum(halves.values()) // 2)
    if state.over_pods:
        lifts = max(lifts, _pods(state, left, keep))
    return lifts


def rack_options(
    state: State, rack: int, rail: int, left: int, keep: Collection[Pair]
) -> list[tuple[int, int]]:
    """(half-moves, rings) of each group that counts on a leaf and could stop counting."""
    options = []
    for g in counting(state, rack, rail):
        if (g, rack) in keep:
            continue
        go, come = eviction(state, g, rack), arrival(state, g, rack)
        halves = IMPOSSIBLE
        if go <= left:
            halves = go * (1 if _may_gather(state, g, rack, left) else 2)
        if come <= left:
            halves = min(halves, come)
        if halves < IMPOSSIBLE:
            options.append((halves, state.rings[g][rail]))
    return options


def counting(state: State, rack: int, rail: int) -> list[int]:
    """Members that count on a leaf now."""
    rings = state.rings
    return [g for g in state.members_on[rack] if len(state.on_rack[g]) > 1 and rings[g] and rings[g][rail]]


def eviction(state: State, g: int, rack: int) -> int:
    """Lifts that take g off a rack; ``IMPOSSIBLE`` where a worker there is not to move."""
    return IMPOSSIBLE if state.stuck[g].get(rack) else state.on_rack[g][rack]


def arrival(state: State, g: int, rack: int) -> int:
    """Lifts elsewhere that make g whole on a rack; ``IMPOSSIBLE`` where it cannot be."""
    stuck_elsewhere = state.all_stuck[g] - state.stuck[g].get(rack, 0)
    return IMPOSSIBLE if stuck_elsewhere else state.total[g] - state.on_rack[g][rack]


def _may_gather(state: State, g: int, leaving: int, left: int) -> bool:
    """Whether g, evicted from ``leaving``, might become whole on another rack within the budget."""
    enough = state.total[g] - left
    return any(
        count >= enough and rack != leaving and arrival(state, g, rack) <= left
        for rack, count in state.on_rack[g].items()
    )


def cheapest_removal(options: Sequence[tuple[int, int]], excess: int) -> int:
    """Least cost of options whose weights sum to ``excess`` or more (minimum knapsack).

    Weights are taken in units of their greatest common divisor: with one kind of job, all are one.
    Where a table would be large the fractional optimum, rounded up, bounds it just as well.
    """
    unit = math.gcd(*(weight for _, weight in options))
    if not unit or sum(weight for _, weight in options) < excess:
        return IMPOSSIBLE
    excess = -(-excess // unit)
    options = [(cost, weight // unit) for cost, weight in options]
    if all(weight == 1 for _, weight in options):
        return sum(sorted(cost for cost, _ in options)[:excess])
    if excess * len(options) > LARGE_TABLE:
        return _fractional_removal(options, excess)
    best = [0] + [IMPOSSIBLE] * excess
    for cost, weight in options:
        for need in range(excess, 0, -1):
            best[need] = min(best[need], best[max(0, need - weight)] + cost)
    return min(best[excess], IMPOSSIBLE)


def _fractional_removal(options: Sequence[tuple[int, int]], excess: int) -> int:
    """The same with the last option taken in part: cheapest per weight first."""
    total, left = 0.0, excess
    for cost, weight in sorted(options, key=lambda option: option[0] / option[1]):
        if weight >= left:
            return math.ceil(total + cost * left / weight - 1e-9)
        total += cost
        left -= weight
    return IMPOSSIBLE


def _crowding(state: State, site: int) -> int:
    """Half-moves (lifts only) that bring a crowded site back within its slots."""
    members = state.problem.members
    here = state.members_on[state.rack_of[site]]
    largest = max(members[g].slots for g in here if site in state.standing[g])
    return math.ceil(-state.free[site] / largest)


def _pods(state: State, left: int, keep: Collection[Pair]) -> int:
    """The bound one tier up: pods hold more workers a group, and are few, so they are taken alone."""
    halves = 0
    for pod in state.over_pods:
        excess = state.pod_load[pod] - state.problem.pod_bounds[pod]
        options = []
        for g, pods in enumerate(state.on_pod):
            if pod in pods and len(pods) > 1 and state.rings[g] and (g, -1 - pod) not in keep:
                go, come = pods[pod], sum(pods.values()) - pods[pod]
                halves_here = min(go if go <= left else IMPOSSIBLE, come if come <= left else IMPOSSIBLE)
                if halves_here < IMPOSSIBLE:
                    options.append((halves_here, sum(state.rings[g])))
        halves += cheapest_removal(options, excess)
        if halves >= IMPOSSIBLE:
            return IMPOSSIBLE
    return -(-halves // 2)
