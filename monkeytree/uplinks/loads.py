"""What each uplink carries under a partial colouring, with its cost kept up to date."""

from __future__ import annotations

from collections.abc import Iterable

from .routes import Routes

# How much worse a flow too many is on a node within its bound than on one that is over anyway.
WITHIN_BOUND = 4

Cost = tuple[int, int]


class Loads:
    """The flows placed so far, and how much they collide.

    An uplink of a node within its bound (degree <= U k) should carry k flows, one of a node over
    it ceil(degree / U), its fold: the *cap*. Then

    - ``sharing``: flows that meet more than k on an uplink of a node within its bound;
    - ``spill``: sum of (load - cap)^2 over the uplinks above their cap;
    - ``strain``: sum of (load - cap), ``WITHIN_BOUND``-fold on nodes within their bound. Smoother
      than ``sharing``: it guides the search.
    """

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.label: dict[int, int] = {}
        self.users: dict[int, set[int]] = {}
        self.crowded: set[int] = set()
        self.sharing = self.spill = self.strain = 0
        self._bad: dict[int, int] = {}
        k = routes.flows_per_uplink
        self._cap = [max(k, routes.fold(node)) for node in range(len(routes.live))]
        self._within = [cap == k for cap in self._cap]

    @property
    def cost(self) -> Cost:
        """(sharing, spill): what is minimised, in this order."""
        return self.sharing, self.spill

    def load(self, resource: int) -> int:
        """Flows on one uplink."""
        users = self.users.get(resource)
        return len(users) if users else 0

    def full(self, flow: int, label: int) -> list[int]:
        """Uplinks on this way that have no room for one flow more."""
        stride = self.routes.stride
        resources = self.routes.resources(flow, label)
        return [r for r in resources if self.load(r) >= self._cap[r // stride]]

    def fits(self, flow: int, label: int) -> bool:
        """Whether one flow more fits below the caps all along this way."""
        stride, users, cap = self.routes.stride, self.users, self._cap
        for node, modulus in self.routes.flows[flow].terms:
            taken = users.get(node * stride + label % modulus)
            if taken and len(taken) >= cap[node]:
                return False
        return True

    def at_cap(self, resource: int) -> bool:
        """Whether the uplink is exactly full, so that one flow less makes room for one."""
        return self.load(resource) == self._cap[resource // self.routes.stride]

    def place(self, flow: int, label: int) -> None:
        """Put an unplaced flow on a way."""
        self.label[flow] = label
        for resource in self.routes.resources(flow, label):
            node = resource // self.routes.stride
            users = self.users.setdefault(resource, set())
            users.add(flow)
            excess = len(users) - self._cap[node]
            if excess > 0:
                self.crowded.add(resource)
                self.spill += 2 * excess - 1
                self.strain += WITHIN_BOUND if self._within[node] else 1
                if self._within[node]:
                    self._blame(users if excess == 1 else (flow,))

    def remove(self, flow: int) -> int:
        """Take a flow off its way; returns the label it had."""
        label = self.label.pop(flow)
        for resource in self.routes.resources(flow, label):
            node = resource // self.routes.stride
            users = self.users[resource]
            excess = len(users) - self._cap[node]
            if excess > 0:
                self.spill -= 2 * excess - 1
                self.strain -= WITHIN_BOUND if self._within[node] else 1
                if self._within[node]:
                    self._forgive(users if excess == 1 else (flow,))
                if excess == 1:
                    self.crowded.discard(resource)
            users.discard(flow)
        return label

    def crowded_flows(self) -> list[int]:
        """Flows on an uplink above its cap, ascending."""
        return sorted({flow for resource in self.crowded for flow in self.users[resource]})

    def _blame(self, flows: Iterable[int]) -> None:
        for flow in flows:
            bad = self._bad.get(flow, 0)
            self._bad[flow] = bad + 1
            self.sharing += bad == 0

    def _forgive(self, flows: Iterable[int]) -> None:
        for flow in flows:
            self._bad[flow] -= 1
            self.sharing -= self._bad[flow] == 0
