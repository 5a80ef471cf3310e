"""Unequal spines and pods: list colouring against a brute force, validity, stability."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.uplinks import Colouring, Hop, Topology, colour_flows

Node = tuple[Any, ...]
Way = tuple[int | None, int | None]
"""(uplink, pod_uplink) of one flow."""


def ways(topology: Topology, hop: Hop) -> list[tuple[Way, list[tuple[Node, int]]]]:
    """Every admissible way of a flow, with the (node, uplink) pairs it loads; from the rules alone."""
    own, other = topology.spines.get(hop.source, ()), topology.spines.get(hop.target, ())
    p, q = topology.pod_of.get(hop.source[0]), topology.pod_of.get(hop.target[0])
    up, down = ("leaf", hop.source, "up"), ("leaf", hop.target, "down")
    found: list[tuple[Way, list[tuple[Node, int]]]] = []
    if p == q:
        return [((u, None), [(up, u), (down, u)]) for u in own if u in other] or [((None, None), [])]
    assert p is not None
    assert q is not None
    for core in range(min(topology.pod_uplinks[p], topology.pod_uplinks[q])):
        u, v = core % topology.pod_spines[p], core % topology.pod_spines[q]
        if u in own and v in other:
            loaded = [(up, u), (("pod", p, "up"), core), (("pod", q, "down"), core), (down, v)]
            found.append(((u, core), loaded))
    return found or [((u, None), [(up, u)]) for u in own] or [((None, None), [])]


def width(topology: Topology, node: Node) -> int:
    return len(topology.spines[node[1]]) if node[0] == "leaf" else topology.pod_uplinks[node[1]]


def cost(topology: Topology, loaded: list[list[tuple[Node, int]]]) -> tuple[int, int]:
    """(flows that share within a bound, squared spill over the caps)."""
    k = topology.flows_per_uplink
    degree = Counter(node for resources in loaded for node, _ in resources)
    load = Counter(resource for resources in loaded for resource in resources)
    cap = {node: max(k, -(-count // width(topology, node))) for node, count in degree.items()}
    crowded = {resource for resource, count in load.items() if count > cap[resource[0]]}
    sharing = sum(any(r in crowded and cap[r[0]] == k for r in resources) for resources in loaded)
    return sharing, sum((load[resource] - cap[resource[0]]) ** 2 for resource in crowded)


def cost_of(topology: Topology, hops: list[Hop], colouring: Colouring) -> tuple[int, int]:
    """The cost of an answer; fails where a flow takes a way it may not."""
    loaded = []
    for hop, way in zip(hops, zip(colouring.uplinks, colouring.pod_uplinks, strict=True), strict=True):
        admissible = dict(ways(topology, hop))
        assert way in admissible
        loaded.append(admissible[way])
    load = Counter(resource for resources in loaded for resource in resources)
    above = {r: n for r, n in load.items() if n > topology.flows_per_uplink}
    assert {share_key(share): len(share.flows) for share in colouring.shared} == above
    return cost(topology, loaded)


def share_key(share: Any) -> tuple[Node, int]:
    if share.pod is not None:
        return ("pod", share.pod, share.direction), share.uplink
    return ("leaf", (share.rack, share.rail), share.direction), share.uplink


def least_cost(topology: Topology, hops: list[Hop]) -> tuple[int, int]:
    choices = [[resources for _, resources in ways(topology, hop)] for hop in hops]
    return min(cost(topology, list(loaded)) for loaded in product(*choices))


@st.composite
def flat_cases(draw: st.DrawFn, flows: int = 6, spines: int = 4) -> tuple[Topology, list[Hop]]:
    leaves = [(f"r{number}", 0) for number in range(draw(st.integers(2, 5)))]
    live = st.sets(st.integers(0, spines - 1), max_size=spines).map(lambda found: tuple(sorted(found)))
    topology = Topology({leaf: draw(live) for leaf in leaves}, draw(st.sampled_from([1, 1, 2])))
    return topology, draw(hop_lists(leaves, spines, flows))


def hop_lists(leaves: list[tuple[str, int]], labels: int, flows: int) -> st.SearchStrategy[list[Hop]]:
    seed = st.none() | st.integers(0, labels)
    pair = st.permutations(leaves).map(lambda found: found[:2])
    hop = st.builds(lambda ends, u, c: Hop(ends[0], ends[1], u, c), pair, seed, seed)
    return st.lists(hop, max_size=flows)


@st.composite
def pod_cases(draw: st.DrawFn, flows: int = 5) -> tuple[Topology, list[Hop]]:
    racks = [f"r{number}" for number in range(draw(st.integers(2, 5)))]
    pods = ["p", "q", "s"]
    pod_of = {rack: draw(st.sampled_from(pods)) for rack in racks}
    live = st.sets(st.integers(0, 2), max_size=3).map(lambda found: tuple(sorted(found)))
    spines = {(rack, 0): draw(live) for rack in racks}
    width = {
        p: 1 + max([u for (r, _), us in spines.items() if pod_of[r] == p for u in us] or [0]) for p in pods
    }
    uplinks = {pod: draw(st.integers(0, 4)) for pod in pods}
    topology = Topology(spines, draw(st.sampled_from([1, 1, 2])), pod_of, uplinks, width)
    return topology, draw(hop_lists(list(spines), 4, flows))


@settings(max_examples=150, deadline=None)
@given(flat_cases())
def test_tiny_cases_share_as_little_as_any_colouring(case: tuple[Topology, list[Hop]]) -> None:
    topology, hops = case
    assert cost_of(topology, hops, colour_flows(topology, hops)) == least_cost(topology, hops)


@settings(max_examples=150, deadline=None)
@given(pod_cases())
def test_tiny_pods_share_as_little_as_any_colouring(case: tuple[Topology, list[Hop]]) -> None:
    topology, hops = case
    assert cost_of(topology, hops, colour_flows(topology, hops)) == least_cost(topology, hops)


@settings(max_examples=100, deadline=None)
@given(st.one_of(flat_cases(flows=12), pod_cases(flows=12)))
def test_its_own_colours_as_seeds_change_nothing(case: tuple[Topology, list[Hop]]) -> None:
    topology, hops = case
    first = colour_flows(topology, hops)
    assert colour_flows(topology, reseed(hops, first)) == first


def reseed(hops: list[Hop], colouring: Colouring) -> list[Hop]:
    ways = zip(colouring.uplinks, colouring.pod_uplinks, strict=True)
    return [Hop(hop.source, hop.target, *way) for hop, way in zip(hops, ways, strict=True)]


def planted(seed: int, leaves: int, spines: int, pods: int = 0, cores: int = 0) -> tuple[Topology, list[Hop]]:
    """Five sixths of a maximal set of flows that is known to have an isolated colouring."""
    rng = random.Random(seed)
    live = {
        (f"r{number}", 0): tuple(
            sorted(rng.sample(range(spines), rng.choice([spines // 2, spines - 1, spines])))
        )
        for number in range(leaves)
    }
    pod_of = {f"r{number}": f"p{number % pods}" for number in range(leaves)} if pods else {}
    names = [f"p{pod}" for pod in range(pods)]
    topology = Topology(live, 1, pod_of, dict.fromkeys(names, cores), dict.fromkeys(names, spines))
    taken: set[tuple[Node, int]] = set()
    hops = []
    for _ in range(leaves * spines * 4):
        source, target = rng.sample(list(live), 2)
        hop = Hop(source, target)
        free = [loaded for _, loaded in ways(topology, hop) if loaded and taken.isdisjoint(loaded)]
        if free:
            taken.update(rng.choice(free))
            hops.append(hop)
    rng.shuffle(hops)
    return topology, hops[: len(hops) * 5 // 6]


def test_planted_isolated_colourings_are_found() -> None:
    for seed in range(8):
        for size in ({"leaves": 10, "spines": 4}, {"leaves": 40, "spines": 8}):
            topology, hops = planted(seed, **size)
            assert cost_of(topology, hops, colour_flows(topology, hops)) == (0, 0)


def test_planted_isolated_colourings_are_found_in_pods() -> None:
    for seed in range(6):
        topology, hops = planted(seed, leaves=24, spines=4, pods=3, cores=32)
        assert cost_of(topology, hops, colour_flows(topology, hops)) == (0, 0)


def test_few_flows_more_change_few_others() -> None:
    topology, hops = planted(1, leaves=40, spines=8)
    old, new = hops[:-4], hops[-4:]
    before = colour_flows(topology, old)
    after = colour_flows(topology, [*reseed(old, before), *new])
    assert after.shared == ()
    changed = sum(a != b for a, b in zip(before.uplinks, after.uplinks, strict=False))
    assert changed <= len(old) // 5


def test_a_leaf_over_its_bound_folds_without_disturbing_the_others() -> None:
    spines = {("a", 0): (0, 1), ("b", 0): (0, 1, 2), ("c", 0): (1, 2), ("d", 0): (0, 1, 2)}
    hops = [Hop(("a", 0), (rack, 0)) for rack in "bcdbd"] + [Hop(("b", 0), ("c", 0)), Hop(("d", 0), ("b", 0))]
    colouring = colour_flows(Topology(spines, 1), hops)
    assert {(share.rack, share.direction) for share in colouring.shared} == {("a", "up")}
    assert max(len(share.flows) for share in colouring.shared) == 3


def test_four_uplinks_sending_three_flows_to_racks_of_two() -> None:
    """Within every bound, and yet two must share: a list colouring need not exist."""
    spines = {("a", 0): (0, 1, 2, 3), **{(rack, 0): (0, 1) for rack in "bcd"}}
    colouring = colour_flows(Topology(spines, 1), [Hop(("a", 0), (rack, 0)) for rack in "bcd"])
    assert [(len(share.flows), share.rack, share.direction) for share in colouring.shared] == [(2, "a", "up")]


def test_a_flow_that_no_core_serves_keeps_a_spine_of_its_source() -> None:
    spines = {("a", 0): (0,), ("b", 0): (1,)}
    topology = Topology(spines, 1, {"a": "p", "b": "q"}, {"p": 4, "q": 4}, {"p": 2, "q": 2})
    colouring = colour_flows(topology, [Hop(("a", 0), ("b", 0))])
    assert (colouring.uplinks, colouring.pod_uplinks, colouring.shared) == ((0,), (None,), ())


def test_the_same_spine_number_in_two_pods_is_two_switches() -> None:
    spines = {(rack, 0): (0,) for rack in "abcd"}
    pods = {"a": "p", "b": "p", "c": "q", "d": "q"}
    topology = Topology(spines, 1, pods, {"p": 1, "q": 1}, {"p": 1, "q": 1})
    assert colour_flows(topology, [Hop(("a", 0), ("b", 0)), Hop(("c", 0), ("d", 0))]).shared == ()
    crowded = colour_flows(topology, [Hop(("a", 0), ("c", 0)), Hop(("b", 0), ("d", 0))])
    assert [(share.pod, share.direction, share.flows) for share in crowded.shared] == [
        ("p", "up", (0, 1)),
        ("q", "down", (0, 1)),
    ]
