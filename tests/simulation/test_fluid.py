"""Flows that come and go: max-min at every instant, and the same as solving from scratch."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import accumulate
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.flowmodel import max_min_rates
from monkeytree.fluid import Flow, Network

quick = settings(max_examples=120, deadline=None)
links = st.integers(0, 6)
paths = st.lists(links, min_size=1, max_size=3)
capacities = st.fixed_dictionaries({link: st.integers(0, 12).map(Fraction) for link in range(7)})
starts = st.tuples(st.just("start"), paths, st.integers(1, 40).map(Fraction), st.integers(1, 3))
stops = st.tuples(st.just("stop"), st.integers(0, 20))
waits = st.tuples(st.just("wait"), st.integers(1, 8).map(Fraction))
histories = st.lists(starts | stops | waits, max_size=25)


def rates_from_scratch(flows: list[Flow], capacity: dict[int, Fraction], ceiling: Fraction) -> list[Any]:
    """By the other implementation: each flow apart, with a link of its own that is its NIC."""
    each = [flow for flow in flows for _ in range(flow.weight)]
    nics = {("nic", number): ceiling for number in range(len(each))}
    routes: list[list[Any]] = [[*flow.path, ("nic", number)] for number, flow in enumerate(each)]
    found = max_min_rates(routes, {**capacity, **nics})
    last = accumulate(flow.weight for flow in flows)
    return [found[at - 1] for at in last]


@quick
@given(histories, capacities, st.integers(1, 9).map(Fraction))
def test_every_instant_is_max_min_as_from_scratch(
    history: list[Any], capacity: dict[int, Fraction], ceiling: Fraction
) -> None:
    network = Network(capacity, ceiling)
    now: Any = Fraction(0)
    sent: dict[Flow, Any] = {}
    size: dict[Flow, Any] = {}
    for what, *arguments in history:
        if what == "start":
            flow = Flow(tuple(arguments[0]), arguments[2])
            network.start(flow, arguments[1], now)
            size[flow], sent[flow] = arguments[1], Fraction(0)
        elif what == "stop":
            running = network.running(now)
            if running:
                flow = running[arguments[0] % len(running)]
                left = network.stop(flow, now)
                assert left == size[flow] - sent[flow]  # nothing lost, nothing gained
        else:
            until = now + arguments[0]
            while True:
                step = min(network.next_end(), until)
                for flow in network.running(now):
                    sent[flow] += flow.rate * (step - now)
                now = step
                for flow in network.take_ended(now):
                    assert sent[flow] == size[flow]
                network.settle(now)
                if now == until:
                    break
        network.settle(now)
        running = network.running(now)
        assert [flow.rate for flow in running] == rates_from_scratch(running, capacity, ceiling)
        assert all(sent[flow] <= size[flow] for flow in running)


@quick
@given(st.lists(paths, min_size=1, max_size=10), capacities, st.integers(1, 9).map(Fraction))
def test_no_link_is_overfull_and_every_flow_has_a_bottleneck(
    routes: list[list[int]], capacity: dict[int, Fraction], ceiling: Fraction
) -> None:
    network = Network(capacity, ceiling)
    flows = [Flow(tuple(route)) for route in routes]
    for flow in flows:
        network.start(flow, 1, 0)
    network.settle(0)
    load: Counter[int] = Counter()
    for flow in flows:
        for link in flow.path:
            load[link] += flow.rate
    assert all(load[link] <= capacity[link] for link in load)
    for flow in flows:
        at_ceiling = flow.rate == ceiling
        held = [
            link
            for link in flow.path
            if load[link] == capacity[link]
            and flow.rate == max(other.rate for other in flows if link in other.path)
        ]
        assert at_ceiling or held


routes_of_a_batch = st.lists(links, min_size=1, max_size=5, unique=True)
batch = st.tuples(st.integers(0, 9), st.integers(1, 30), routes_of_a_batch)


@quick
@given(st.lists(batch, min_size=1, max_size=8))
def test_flows_started_together_end_as_if_started_one_by_one(batches: list[Any]) -> None:
    """Bundles are a shortcut: they change no end."""

    def ends(together: bool) -> list[tuple[int, int, int]]:
        network = Network([5.0] * 7, 5.0, whole_ticks=True)
        coming = sorted(enumerate(batches), key=lambda one: one[1][0])
        found = []
        while coming or network.next_end() < math.inf:
            now = int(min(network.next_end(), coming[0][1][0] if coming else math.inf))
            found += [(flow.owner[0], flow.owner[1], now) for flow in network.take_ended(now)]
            while coming and coming[0][1][0] <= now:
                number, (_, size, route) = coming.pop(0)
                flows = [Flow((link,), 1, (number, link)) for link in route]
                for flow in flows:
                    flow.lone = True
                (network.start_all if together else network.start_each)(flows, 5.0 * size, now)
            network.settle(now)
        return sorted(found)

    assert ends(together=True) == ends(together=False)


def test_a_dead_link_holds_its_flows_for_ever() -> None:
    network = Network({0: 0, 1: 10})
    dead, alive = Flow((0, 1)), Flow((1,))
    network.start(dead, 5, 0)
    network.start(alive, 5, 0)
    network.settle(0)
    assert (dead.rate, dead.end) == (0, math.inf)
    assert (alive.rate, network.next_end()) == (10, 0.5)
