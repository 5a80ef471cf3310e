"""Flows over links that come and go, each always at its max-min fair rate.

:mod:`monkeytree.flowmodel` answers for a set of flows known beforehand; a simulation starts, ends and
re-routes them one by one. A change moves only the rates of flows it is connected to through shared
links, so only these are filled again (progressive filling: Bertsekas and Gallager, Data Networks,
section 6.5.2), and only those whose rate really changed get a new end.

Numbers: with ints and Fractions everything is exact. With floats and ``whole_ticks`` times are whole
numbers of the caller's unit, and a flow ends in the tick in which its last bit is sent, rounded down.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Whole ticks round down; this much of a tick is forgiven to floats that end just below a whole number.
_SLACK = 1e-6


class Flow:
    """One flow, or ``weight`` flows alike: the same path, the same start, the same size.

    Attributes:
        path: the links it crosses; a link named twice is loaded twice.
        weight: how many flows this stands for.
        owner: the caller's own.
        left: what each still sends at ``since``, in capacity x time.
        rate: of each, since ``since``.
        end: when it ends at this rate; ``math.inf`` at rate zero.
        serial: its number in the network while it runs, else -1.
        lone: among the flows it starts with, no other crosses its links, and they carry it at the ceiling.
        parts: of a bundle, the flows it stands for.
    """

    __slots__ = ("end", "left", "lone", "owner", "parts", "path", "rate", "serial", "since", "weight")

    def __init__(self, path: Sequence[Any], weight: int = 1, owner: Any = None) -> None:
        self.path = path
        self.weight = weight
        self.owner = owner
        self.left: Any = 0
        self.rate: Any = 0
        self.since: Any = 0
        self.end: Any = math.inf
        self.serial = -1
        self.lone = False
        self.parts: Sequence[Flow] = ()


class Network:
    """The flows that run now. After changes at an instant call :meth:`settle` once.

    Args:
        capacity: of each link; zero for a dead one.
        ceiling: the most that any one flow gets (the line rate of its own NIC); None for no such limit.
        whole_ticks: times are whole numbers.
    """

    def __init__(
        self, capacity: Mapping[Any, Any] | Sequence[Any], ceiling: Any = None, *, whole_ticks: bool = False
    ) -> None:
        self.capacity = capacity
        self.ceiling = math.inf if ceiling is None else ceiling
        self.whole_ticks = whole_ticks
        self.on: dict[Any, dict[int, Flow]] = {}
        self._bundled: dict[Any, Flow] = {}
        self._dirty: dict[Any, None] = {}
        self._ends: list[tuple[Any, int, int, Flow]] = []
        self._serial = 0
        self._pushed = 0

    def start(self, flow: Flow, size: Any, now: Any) -> None:
        """Let ``flow`` begin to send ``size``."""
        if self._bundled:
            for link in flow.path:
                if link in self._bundled:
                    self._split(self._bundled[link], now)
        self._serial = serial = self._serial + 1
        flow.serial = serial
        flow.left = size
        flow.rate = 0
        flow.since = now
        flow.end = math.inf
        on, dirty = self.on, self._dirty
        for link in flow.path:
            flows = on.get(link)
            if flows is None:
                on[link] = {serial: flow}
            else:
                flows[serial] = flow
            dirty[link] = None

    def start_each(self, flows: Sequence[Flow], size: Any, now: Any) -> None:
        """Start ``flows``."""
        for flow in flows:
            self.start(flow, size, now)

    def start_all(self, flows: Sequence[Flow], size: Any, now: Any) -> None:
        """Start ``flows`` together; the ``lone`` ones on idle links run as one until somebody meets them."""
        on, bundled = self.on, self._bundled
        idle = []
        for flow in flows:
            if flow.lone and not any(link in bundled or on.get(link) for link in flow.path):
                idle.append(flow)
            else:
                self.start(flow, size, now)
        if len(idle) == 1:
            self.start(idle[0], size, now)
        elif idle:
            self._bundle(idle, size, now)

    def _bundle(self, flows: Sequence[Flow], size: Any, now: Any) -> None:
        bundle = Flow([link for flow in flows for link in flow.path])
        bundle.parts = flows
        self._serial += 1
        bundle.serial = self._serial
        bundle.left = size
        bundle.since = now
        for link in bundle.path:
            self._bundled[link] = bundle
        self._set_rate(bundle, self.ceiling, now)

    def _split(self, bundle: Flow, now: Any) -> None:
        for link in bundle.path:
            del self._bundled[link]
        bundle.serial = -1
        left = bundle.left - bundle.rate * (now - bundle.since)
        for flow in bundle.parts:
            self.start(flow, left, now)

    def stop(self, flow: Flow, now: Any) -> Any:
        """Take ``flow`` out; what it has left to send at ``now``."""
        self._leave(flow)
        return flow.left - flow.rate * (now - flow.since)

    def _leave(self, flow: Flow) -> None:
        serial = flow.serial
        for link in flow.path:
            flows = self.on[link]
            flows.pop(serial, None)
            if flows:
                self._dirty[link] = None
        flow.serial = -1

    def settle(self, now: Any) -> None:
        """Give all flows that a change since the last call can touch their rates of now."""
        seen: set[Any] = set()
        on, capacity, ceiling = self.on, self.capacity, self.ceiling
        for link in self._dirty:
            if link in seen:
                continue
            flows = on[link]
            if not flows:
                continue
            weight, longest = 0, 1
            for flow in flows.values():
                weight += flow.weight
                longest = max(longest, len(flow.path))
            if longest == 1:  # all cross this link alone: no need to look further
                share = capacity[link] / weight
                if share > ceiling:
                    share = ceiling
                for flow in flows.values():
                    if share != flow.rate:
                        self._set_rate(flow, share, now)
                continue
            component = self._component(link, seen)
            if len(component) == 1 and self._unhindered(component[0]):
                if component[0].rate != ceiling:
                    self._set_rate(component[0], ceiling, now)
                continue
            for member, rate in zip(component, fill(component, capacity, ceiling), strict=True):
                if rate != member.rate:
                    self._set_rate(member, rate, now)
        self._dirty.clear()

    def _unhindered(self, flow: Flow) -> bool:
        """Whether a flow that meets nobody gets the ceiling."""
        path = flow.path
        need = flow.weight * self.ceiling
        return len(path) == len(set(path)) and all(self.capacity[link] >= need for link in path)

    def _component(self, link: Any, seen: set[Any]) -> list[Flow]:
        """Flows connected to ``link`` through shared links."""
        found: dict[int, Flow] = {}
        stack = [link]
        on = self.on
        while stack:
            crossed = stack.pop()
            if crossed in seen:
                continue
            seen.add(crossed)
            for serial, flow in on[crossed].items():
                if serial not in found:
                    found[serial] = flow
                    stack.extend(flow.path)
        return list(found.values())

    def _set_rate(self, flow: Flow, rate: Any, now: Any) -> None:
        left = flow.left = flow.left - flow.rate * (now - flow.since)
        flow.since = now
        flow.rate = rate
        if not rate:
            flow.end = math.inf
            return
        if self.whole_ticks:
            flow.end = end = now + max(0, int(left / rate + _SLACK))
        else:
            flow.end = end = now + left / rate
        self._pushed += 1
        heapq.heappush(self._ends, (end, self._pushed, flow.serial, flow))

    def next_end(self) -> Any:
        """When the next flow ends if nothing else happens; ``math.inf`` if none does."""
        ends = self._ends
        while ends:
            end, _, serial, flow = ends[0]
            if flow.serial == serial and flow.end == end:
                return end
            heapq.heappop(ends)
        return math.inf

    def take_ended(self, now: Any) -> list[Flow]:
        """The flows that end at ``now``, or before it; they are out of the network."""
        ended: list[Flow] = []
        while self.next_end() <= now:
            flow = heapq.heappop(self._ends)[3]
            if flow.parts:
                for link in flow.path:
                    del self._bundled[link]
                flow.serial = -1
                ended.extend(flow.parts)
            else:
                self._leave(flow)
                ended.append(flow)
        return ended

    def running(self, now: Any) -> list[Flow]:
        """All flows that run, oldest first; those started together are single ones from now on."""
        for bundle in list({id(bundle): bundle for bundle in self._bundled.values()}.values()):
            self._split(bundle, now)
        flows = {serial: flow for crossing in self.on.values() for serial, flow in crossing.items()}
        return [flows[serial] for serial in sorted(flows)]


def fill(flows: Sequence[Flow], capacity: Mapping[Any, Any] | Sequence[Any], ceiling: Any) -> list[Any]:
    """Max-min fair rates of ``flows``, none above ``ceiling``; in the order given."""
    weight: dict[Any, int] = {}
    for flow in flows:
        for link in flow.path:
            weight[link] = weight.get(link, 0) + flow.weight
    left = {link: capacity[link] for link in weight}
    rates: list[Any] = [None] * len(flows)
    unsettled: Iterable[int] = range(len(flows))
    while weight:
        share: Any = math.inf
        tightest: Any = None
        for link, count in weight.items():
            offered = left[link] / count
            if offered < share:
                share, tightest = offered, link
        if share >= ceiling:
            break
        later = []
        for index in unsettled:
            flow = flows[index]
            if tightest not in flow.path:
                later.append(index)
                continue
            rates[index] = share
            for link in flow.path:
                weight[link] -= flow.weight
                left[link] -= share * flow.weight
        # Rounding must not leave a link with less than nothing.
        for link in [link for link, count in weight.items() if not count]:
            del weight[link]
        for link in weight:
            if left[link] < 0:
                left[link] = 0 * share
        unsettled = later
    for index in unsettled:
        rates[index] = ceiling
    return rates
