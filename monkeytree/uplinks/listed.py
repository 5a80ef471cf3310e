"""Unequal uplinks and pods: list colouring by greedy choice, ejection chains and tabu search.

A colouring without sharing need not exist here, and finding one is NP-hard in general. Small
components that are not settled by the search are solved exactly.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from .budget import Budget
from .exact import solve_exactly
from .loads import Loads
from .routes import Routes

SCORED_LABELS = 64
CHAIN_LENGTHS = (1, 2, 4, 8, 24)
CHAIN_TESTS = 60_000
ATTEMPTS = 4
TABU_STEPS = 1_500
TABU_FLOWS = 24


def colour_listed(routes: Routes, flows: Sequence[int], budget: Budget) -> dict[int, int]:
    """Label each flow of one component; seeds that are admissible are where the search starts.

    Searches go on until several in a row bring no gain, so an answer given back as seeds stays as
    it is (unless the budget ends first).
    """
    chains = _Chains(budget)
    loads = _start(routes, flows, chains)
    attempt = 0
    while attempt < ATTEMPTS and loads.cost > (0, 0):
        before = loads.cost
        _repair_by_chains(loads, chains)
        if loads.cost > (0, 0):
            loads = _rebuild(routes, _search(loads, budget, attempt))
        attempt = 0 if loads.cost < before else attempt + 1
    if loads.cost > (0, 0):
        return solve_exactly(loads, flows, budget)
    return loads.label


def _start(routes: Routes, flows: Sequence[int], chains: _Chains) -> Loads:
    """Seeds first, even where they collide; then flows with the fewest ways, greedily."""
    loads = Loads(routes)
    unseeded: list[int] = []
    for flow in flows:
        route = routes.flows[flow]
        if route.seed is not None and route.seed in route.labels:
            loads.place(flow, route.seed)
        else:
            unseeded.append(flow)
    unseeded.sort(key=lambda flow: (len(routes.flows[flow].labels), flow))
    wanted = _count_wanted(routes, unseeded)
    for flow in unseeded:
        _place_greedily(loads, flow, wanted, chains)
    return loads


def _count_wanted(routes: Routes, flows: Sequence[int]) -> dict[int, int]:
    """For each uplink, the unplaced flows that could use it."""
    wanted: dict[int, int] = {}
    for flow in flows:
        labels = routes.flows[flow].labels
        if len(labels) <= SCORED_LABELS:
            for label in labels:
                for resource in routes.resources(flow, label):
                    wanted[resource] = wanted.get(resource, 0) + 1
    return wanted


def _place_greedily(loads: Loads, flow: int, wanted: dict[int, int], chains: _Chains) -> None:
    """On the free way that the others want least; else by an ejection chain; else where it harms least."""
    routes = loads.routes
    labels = routes.flows[flow].labels
    if len(labels) > SCORED_LABELS:
        free = next((label for label in labels if loads.fits(flow, label)), None)
    else:
        demand: list[tuple[int, int]] = []
        for label in labels:
            resources = routes.resources(flow, label)
            for resource in resources:
                wanted[resource] -= 1
            if loads.fits(flow, label):
                demand.append((sum(wanted[resource] for resource in resources), label))
        free = min(demand)[1] if demand else None
    if free is not None:
        loads.place(flow, free)
    elif not chains.insert(loads, flow):
        loads.place(flow, _least_harm(loads, flow))


def _least_harm(loads: Loads, flow: int) -> int:
    """The way with the smallest strain; few ways are tried where there are very many."""

    def harm(label: int) -> tuple[int, int, int, int]:
        loads.place(flow, label)
        result = (loads.strain, *loads.cost, label)
        loads.remove(flow)
        return result

    return min(loads.routes.flows[flow].labels, key=harm)


def _repair_by_chains(loads: Loads, chains: _Chains) -> None:
    """Move crowded flows away, one after the other, where a chain of moves makes room."""
    for flow in loads.crowded_flows():
        if loads.crowded.isdisjoint(loads.routes.resources(flow, loads.label[flow])):
            continue
        label = loads.remove(flow)
        if not chains.insert(loads, flow):
            loads.place(flow, label)


class _Chains:
    """Inserts flows along chains of moves, each moved flow making room for the one before.

    A Kempe chain is the special case of two colours. Short chains are tried first: they change
    less.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.stop = 0

    def insert(self, loads: Loads, flow: int) -> bool:
        """Place an unplaced flow so that no cap is newly exceeded; False, and no change, if not found."""
        self.stop = max(0, self.budget.chain_tests - CHAIN_TESTS)
        return any(self._extend(loads, flow, length, {flow}) for length in CHAIN_LENGTHS)

    def _extend(self, loads: Loads, flow: int, length: int, seen: set[int]) -> bool:
        """Place ``flow``, ejecting at most one flow, which is placed the same way, and so on."""
        labels = loads.routes.flows[flow].labels
        self.budget.chain_tests -= len(labels)
        for label in labels:
            if loads.fits(flow, label):
                loads.place(flow, label)
                return True
        if length == 0:
            return False
        for label in labels:
            for other in self._ejectable(loads, flow, label, seen):
                if self.budget.chain_tests <= self.stop:
                    return False
                seen.add(other)
                old = loads.remove(other)
                loads.place(flow, label)
                if self._extend(loads, other, length - 1, seen):
                    return True
                loads.remove(flow)
                loads.place(other, old)
        return False

    @staticmethod
    def _ejectable(loads: Loads, flow: int, label: int, seen: set[int]) -> list[int]:
        """Flows any one of which, taken away, makes room for ``flow`` on this way."""
        full = loads.full(flow, label)
        if not all(loads.at_cap(resource) for resource in full):
            return []
        common = set.intersection(*(loads.users[resource] for resource in full))
        return sorted(common - seen)


def _search(loads: Loads, budget: Budget, attempt: int) -> dict[int, int]:
    """Tabu search over single moves of crowded flows; the best labels seen.

    A flow may not soon return to an uplink that was crowded when it left it.
    ``attempt`` seeds the choices: the same search always gives the same answer.
    """
    best, best_cost = dict(loads.label), loads.cost
    choice = random.Random(attempt)
    banned: dict[tuple[int, int], int] = {}
    idle = 0
    step = 0
    while idle < TABU_STEPS and best_cost > (0, 0) and budget.moves > 0:
        step += 1
        idle += 1
        flows = loads.crowded_flows()
        if not flows:
            break
        tried = flows if len(flows) <= TABU_FLOWS else choice.sample(flows, TABU_FLOWS)
        budget.moves -= sum(min(len(loads.routes.flows[flow].labels), SCORED_LABELS) for flow in tried)
        move = _best_move(loads, tried, banned, step, best_cost, choice)
        if move is None:
            continue
        flow, label = move
        left = loads.crowded.intersection(loads.routes.resources(flow, loads.label[flow]))
        until = step + 5 + len(flows) // 2 + choice.randrange(5)
        banned.update(((flow, resource), until) for resource in left)
        loads.remove(flow)
        loads.place(flow, label)
        if loads.cost < best_cost:
            best, best_cost, idle = dict(loads.label), loads.cost, 0
    return best


def _best_move(
    loads: Loads,
    flows: Sequence[int],
    banned: dict[tuple[int, int], int],
    step: int,
    best_cost: tuple[int, int],
    choice: random.Random,
) -> tuple[int, int] | None:
    best: tuple[int, int, int, float] | None = None
    move: tuple[int, int] | None = None
    for flow in flows:
        labels: Sequence[int] = loads.routes.flows[flow].labels
        if len(labels) > SCORED_LABELS:
            labels = choice.sample(labels, SCORED_LABELS)
        old = loads.remove(flow)
        for label in labels:
            if label == old:
                continue
            loads.place(flow, label)
            value = (loads.strain, *loads.cost, choice.random())
            gains = loads.cost < best_cost
            loads.remove(flow)
            if best is None or value < best:
                resources = loads.routes.resources(flow, label)
                if gains or all(banned.get((flow, resource), 0) <= step for resource in resources):
                    best, move = value, (flow, label)
        loads.place(flow, old)
    return move


def _rebuild(routes: Routes, labels: dict[int, int]) -> Loads:
    """The same colouring without the traces of how it was reached, so that searches repeat."""
    loads = Loads(routes)
    for flow in sorted(labels):
        loads.place(flow, labels[flow])
    return loads
