"""Max-min fair rates of flows over any graph of links, and when each flow is done.

What a flow-level simulator assumes of congestion control: every flow gets the largest rate that no
flow with less has to pay for. Progressive filling finds it (Bertsekas and Gallager, Data Networks,
section 6.5.2): raise all rates together; whenever a link is full, its flows keep their rate and the
others go on.

Numbers: with integers and :class:`~fractions.Fraction` all results are exact fractions; a float
among the capacities, sizes or times makes them doubles, right to rounding. Units are the caller's:
sizes are in capacity x time, e.g. gigabits, Gb/s and seconds.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from .fluid import Flow, Network

Link = TypeVar("Link", bound=Hashable)
Number = int | float | Fraction
Exact = float | Fraction
"""A result: a Fraction where all that went in was exact, else a float."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A flow with an end.

    Attributes:
        path: the links it crosses, in any order; a link named twice is loaded twice.
        size: what it sends, in capacity x time.
        start: when it starts at the earliest.
        after: indices of flows that must have ended before it starts.
    """

    path: Sequence[Hashable]
    size: Number
    start: Number = 0
    after: Sequence[int] = ()


def max_min_rates(flows: Sequence[Sequence[Link]], capacity: Mapping[Link, Number]) -> list[Exact]:
    """The max-min fair rate of each flow, in the order given.

    Args:
        flows: the links each flow crosses; at least one each.
        capacity: of each link; zero for a dead one, whose flows get rate zero.

    Returns:
        Rates with: on no link more than its capacity, and for each flow a full link on which no flow
        has a higher rate (its bottleneck). There is exactly one such vector.

    Raises:
        ValueError: a flow crosses no link, or a capacity is negative or not finite.
        KeyError: a link has no capacity.
    """
    left, weight = _loads(flows, capacity)
    crossing: defaultdict[Link, list[int]] = defaultdict(list)
    for index, path in enumerate(flows):
        for link in set(path):
            crossing[link].append(index)
    rates: list[Exact | None] = [None] * len(flows)
    # Shares only grow as flows below them are settled, so a stale entry of the heap is too small:
    # it goes back with the share of now. The number breaks ties, so links need no order.
    heap = [(left[link] / weight[link], number, link) for number, link in enumerate(crossing)]
    heapq.heapify(heap)
    while heap:
        noted, number, link = heapq.heappop(heap)
        if not weight[link]:
            continue
        share = max(left[link] / weight[link], 0 * noted)  # floats may end below zero by rounding
        if share > noted:
            heapq.heappush(heap, (share, number, link))
            continue
        for index in crossing[link]:
            if rates[index] is None:
                rates[index] = share
                for crossed, times in Counter(flows[index]).items():
                    left[crossed] -= times * share
                    weight[crossed] -= times
    return [rate for rate in rates if rate is not None]


def _loads(
    flows: Iterable[Sequence[Link]], capacity: Mapping[Link, Number]
) -> tuple[dict[Link, Exact], Counter[Link]]:
    """Capacity of each link in use, and how often the flows cross it."""
    weight: Counter[Link] = Counter()
    for index, path in enumerate(flows):
        if not path:
            raise ValueError(f"flow {index} crosses no link, so nothing bounds its rate")
        weight.update(path)
    for link in weight:
        _check(f"link {link!r} has the capacity", capacity[link])
    return {link: _exact(capacity[link]) for link in weight}, weight


def _check(what: str, number: Number, *, signed: bool = False) -> None:
    """Raise ValueError for what is not finite, or (unless ``signed``) negative: it would spread silently."""
    if not math.isfinite(number):
        raise ValueError(f"{what} {number}, which is not finite")
    if number < 0 and not signed:
        raise ValueError(f"{what} {number}, less than zero")


def _exact(number: Number) -> Exact:
    return number if isinstance(number, float) else Fraction(number)


def completion_times(flows: Sequence[Transfer], capacity: Mapping[Any, Number]) -> list[Exact]:
    """When each flow ends, if at every instant the rates are max-min fair.

    Rates change only where a flow starts or ends, so time goes from one such event to the next, and only
    flows that share links with it, directly or through others, are given new rates (:mod:`~.fluid`).

    Returns:
        End times in the order given; ``math.inf`` for a flow that a dead link keeps from ever ending.

    Raises:
        ValueError, KeyError: as :func:`max_min_rates`; also for a size that is negative or not finite, a
            start that is not, and flows that wait for none of ``flows``, or for each other in a circle.
    """
    for index, flow in enumerate(flows):
        _check(f"flow {index} has the size", flow.size)
        _check(f"flow {index} has the start", flow.start, signed=True)
    exact, _ = _loads([flow.path for flow in flows], capacity)
    ends: list[Exact] = [math.inf] * len(flows)
    waiting = [set(flow.after) for flow in flows]
    awaited = _awaited(flows)
    _check_order(waiting, awaited)
    arrivals: list[tuple[Exact, int]] = [
        (_exact(flow.start), index) for index, flow in enumerate(flows) if not flow.after
    ]
    heapq.heapify(arrivals)
    network = Network(exact)
    now = _exact(0)
    while arrivals or network.next_end() < math.inf:
        now = min(network.next_end(), arrivals[0][0] if arrivals else math.inf)
        over = [flow.owner for flow in network.take_ended(now)]
        while arrivals and arrivals[0][0] <= now:
            _, index = heapq.heappop(arrivals)
            if flows[index].size:
                network.start(Flow(tuple(flows[index].path), owner=index), _exact(flows[index].size), now)
            else:
                over.append(index)
        network.settle(now)
        for index in over:
            ends[index] = now
            for later in awaited[index]:
                waiting[later].discard(index)
                if not waiting[later]:
                    heapq.heappush(arrivals, (max(now, _exact(flows[later].start)), later))
    return ends


def link_components(flows: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Flows by the links they share, directly or through others: indices, ascending, first flow first."""
    parent = list(range(len(flows)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first_on: dict[Hashable, int] = {}
    for index, path in enumerate(flows):
        for link in path:
            one, other = sorted((root(index), root(first_on.setdefault(link, index))))
            parent[other] = one
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for index in range(len(flows)):
        groups[root(index)].append(index)
    return list(groups.values())


def _awaited(flows: Sequence[Transfer]) -> defaultdict[int, list[int]]:
    """For each flow those that wait for it."""
    awaited: defaultdict[int, list[int]] = defaultdict(list)
    for index, flow in enumerate(flows):
        for earlier in set(flow.after):
            if not 0 <= earlier < len(flows):
                raise ValueError(f"flow {index} waits for flow {earlier}; there are {len(flows)}, from 0")
            awaited[earlier].append(index)
    return awaited


def _check_order(waiting: Sequence[set[int]], awaited: Mapping[int, Sequence[int]]) -> None:
    """Raise ValueError where some flow can never start, whatever the network does."""
    left = [len(earlier) for earlier in waiting]
    ready = [index for index, count in enumerate(left) if not count]
    for index in ready:  # grows as it goes
        for later in awaited.get(index, ()):
            left[later] -= 1
            if not left[later]:
                ready.append(later)
    if len(ready) < len(waiting):
        raise ValueError("flows wait for each other in a circle")
