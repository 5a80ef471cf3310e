"""Small components, exactly: branch and bound over the ways of each flow."""

from __future__ import annotations

from collections.abc import Sequence

from .budget import Budget
from .loads import Loads

LARGEST = 14


def solve_exactly(loads: Loads, flows: Sequence[int], budget: Budget) -> dict[int, int]:
    """Labels of least (sharing, spill), then fewest seeds changed; as far as the budget reaches.

    Args:
        loads: a complete colouring of the component: the incumbent.
        flows: the component; one of more than ``LARGEST`` flows keeps the incumbent.
    """
    if len(flows) > LARGEST or budget.nodes <= 0:
        return loads.label
    return _Search(loads, flows, budget).solve()


class _Search:
    def __init__(self, incumbent: Loads, flows: Sequence[int], budget: Budget) -> None:
        self.routes = incumbent.routes
        self.best = dict(incumbent.label)
        changes = sum(self._changes(flow, label) for flow, label in self.best.items())
        self.best_value = (*incumbent.cost, changes)
        self.loads = Loads(self.routes)
        self.budget = budget
        self.order = sorted(flows, key=lambda flow: (len(self.routes.flows[flow].labels), flow))
        self.twins = self._twins()

    def solve(self) -> dict[int, int]:
        self._branch(0, 0)
        return self.best

    def _changes(self, flow: int, label: int) -> int:
        seed = self.routes.flows[flow].seed
        return int(seed is not None and seed != label)

    def _twins(self) -> dict[int, frozenset[int]]:
        """For each spine the flows that may use it: unused spines of the same flows are alike.

        Empty where labels are told apart by more: by seeds, or by cores that fix spines.
        """
        routes = [self.routes.flows[flow] for flow in self.order]
        if any(route.seed is not None or route.crosses_core for route in routes):
            return {}
        labels = {label for route in routes for label in route.labels}
        return {
            label: frozenset(flow for flow in self.order if label in self.routes.flows[flow].labels)
            for label in labels
        }

    def _branch(self, depth: int, changes: int) -> None:
        value = (*self.loads.cost, changes)
        if value >= self.best_value:
            return
        if depth == len(self.order):
            self.best, self.best_value = dict(self.loads.label), value
            return
        flow = self.order[depth]
        route = self.routes.flows[flow]
        tried: set[frozenset[int]] = set()
        used = set(self.loads.label.values())
        for label in sorted(route.labels, key=lambda label: (label != route.seed, label)):
            if self.twins and label not in used:
                if self.twins[label] in tried:
                    continue
                tried.add(self.twins[label])
            if self.budget.nodes <= 0:
                return
            self.budget.nodes -= 1
            self.loads.place(flow, label)
            self._branch(depth + 1, changes + self._changes(flow, label))
            self.loads.remove(flow)
