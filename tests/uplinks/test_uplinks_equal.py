"""Leaves with the same live spines: König's bound, balance, stability."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.uplinks import Colouring, Hop, Leaf, Topology, colour_flows

Pairs = list[tuple[int, int]]


def leaf(number: int) -> Leaf:
    return (f"r{number}", 0)


def fabric(racks: int, spines: tuple[int, ...], k: int = 1) -> Topology:
    return Topology({leaf(number): spines for number in range(racks)}, k)


def hops(pairs: Pairs, seeds: Colouring | None = None) -> list[Hop]:
    uplinks = seeds.uplinks if seeds else [None] * len(pairs)
    return [Hop(leaf(a), leaf(b), seed) for (a, b), seed in zip(pairs, uplinks, strict=True)]


def loads(pairs: Pairs, colouring: Colouring) -> Counter[tuple[int, str, int | None]]:
    counted: Counter[tuple[int, str, int | None]] = Counter()
    for (a, b), uplink in zip(pairs, colouring.uplinks, strict=True):
        counted[a, "up", uplink] += 1
        counted[b, "down", uplink] += 1
    return counted


def degrees(pairs: Pairs) -> Counter[tuple[int, str]]:
    counted: Counter[tuple[int, str]] = Counter()
    for a, b in pairs:
        counted[a, "up"] += 1
        counted[b, "down"] += 1
    return counted


RACKS = 7
pair_lists = st.lists(
    st.tuples(st.integers(0, RACKS - 1), st.integers(0, RACKS - 1)).filter(lambda pair: pair[0] != pair[1]),
    max_size=60,
)
spine_lists = st.sets(st.integers(0, 9), min_size=1, max_size=6).map(lambda found: tuple(sorted(found)))


@given(pair_lists, spine_lists, st.integers(1, 3))
def test_every_uplink_carries_at_most_its_fold(pairs: Pairs, spines: tuple[int, ...], k: int) -> None:
    colouring = colour_flows(fabric(RACKS, spines, k), hops(pairs))
    assert set(colouring.uplinks) <= set(spines)
    degree = degrees(pairs)
    for (rack, direction, _), load in loads(pairs, colouring).items():
        assert load <= -(-degree[rack, direction] // len(spines))
    if all(count <= len(spines) * k for count in degree.values()):
        assert colouring.shared == ()
    assert set(colouring.pod_uplinks) <= {None}


@given(pair_lists, spine_lists)
def test_unseeded_leaves_are_balanced_to_within_one(pairs: Pairs, spines: tuple[int, ...]) -> None:
    """de Werra: each uplink carries floor or ceil of degree / uplinks."""
    load = loads(pairs, colour_flows(fabric(RACKS, spines), hops(pairs)))
    for (rack, direction), degree in degrees(pairs).items():
        for spine in spines:
            assert load[rack, direction, spine] >= degree // len(spines)


@given(pair_lists, spine_lists)
def test_shares_name_exactly_the_flows_above_k(pairs: Pairs, spines: tuple[int, ...]) -> None:
    colouring = colour_flows(fabric(RACKS, spines), hops(pairs))
    expected = {}
    for key, load in loads(pairs, colouring).items():
        if load > 1:
            rack, direction, spine = key
            end = 0 if direction == "up" else 1
            expected[f"r{rack}", 0, spine, direction] = tuple(
                flow
                for flow, pair in enumerate(pairs)
                if pair[end] == rack and colouring.uplinks[flow] == spine
            )
    found = {(s.rack, s.rail, s.uplink, s.direction): s.flows for s in colouring.shared}
    assert found == expected
    assert list(found) == sorted(found)


def colour_by_matchings(pairs: Pairs) -> list[set[int]]:
    """Reference: regularise to the largest degree, then take perfect matchings out (Hopcroft-Karp)."""
    degree = max(degrees(pairs).values())
    edges = [(a, RACKS + b, index) for index, (a, b) in enumerate(pairs)]
    lacking = {
        side: [
            node + offset
            for node in range(RACKS)
            for _ in range(degree - sum(edge[side] == node + offset for edge in edges))
        ]
        for side, offset in ((0, 0), (1, RACKS))
    }
    edges += [(a, b, -1) for a, b in zip(lacking[0], lacking[1], strict=True)]
    classes = []
    for _ in range(degree):
        graph: nx.Graph[int] = nx.Graph()
        graph.add_edges_from((a, b) for a, b, _ in edges)
        mate = nx.bipartite.hopcroft_karp_matching(graph, top_nodes=range(RACKS))
        matching = []
        for a in range(RACKS):
            matching.append(next(edge for edge in edges if edge[0] == a and edge[1] == mate[a]))
        for edge in matching:
            edges.remove(edge)
        classes.append({index for _, _, index in matching if index >= 0})
    return classes


@settings(max_examples=60, deadline=None)
@given(pair_lists.filter(bool))
def test_as_few_colours_as_the_reference_path(pairs: Pairs) -> None:
    classes = colour_by_matchings(pairs)
    assert sum(map(len, classes)) == len(pairs)
    colouring = colour_flows(fabric(RACKS, tuple(range(len(classes)))), hops(pairs))
    assert colouring.shared == ()
    assert len(set(colouring.uplinks)) <= len(classes)


@given(pair_lists, spine_lists, st.integers(1, 2))
def test_its_own_colours_as_seeds_change_nothing(pairs: Pairs, spines: tuple[int, ...], k: int) -> None:
    topology = fabric(RACKS, spines, k)
    first = colour_flows(topology, hops(pairs))
    assert colour_flows(topology, hops(pairs, first)) == first


@given(pair_lists, st.integers(0, 59), st.integers(0, 59))
def test_a_removed_flow_changes_no_other(pairs: Pairs, at: int, k: int) -> None:
    """Within the bound: one flow fewer leaves every seed proper."""
    bound = max([1, *degrees(pairs).values()])
    topology = fabric(RACKS, tuple(range(bound)))
    seeded = hops(pairs, colour_flows(topology, hops(pairs)))
    del seeded[at : at + 1]
    assert colour_flows(topology, seeded).uplinks == tuple(hop.seed for hop in seeded)


@given(pair_lists.filter(lambda pairs: len(pairs) > 1), st.data())
def test_an_added_flow_changes_at_most_one_alternating_path(pairs: Pairs, data: st.DataObject) -> None:
    """A Kempe path meets each leaf once in each direction, so it recolours fewer flows than leaves x 2."""
    bound = max(degrees(pairs).values())
    topology = fabric(RACKS, tuple(range(bound)))
    new = data.draw(st.integers(0, len(pairs) - 1))
    rest = pairs[:new] + pairs[new + 1 :]
    before = colour_flows(topology, hops(rest))
    seeded = [*hops(rest, before), *hops([pairs[new]])]
    after = colour_flows(topology, seeded)
    assert after.shared == ()
    changed = sum(a != b for a, b in zip(before.uplinks, after.uplinks, strict=False))
    assert changed < 2 * RACKS


def test_a_dead_spine_moves_only_its_own_flows_where_room_is_left() -> None:
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    before = colour_flows(fabric(4, (0, 1, 2, 3)), hops(pairs))
    used = [u for u in before.uplinks if u is not None]
    after = colour_flows(fabric(4, (0, 2, 3)), hops(pairs, before))
    assert after.shared == ()
    assert 1 not in after.uplinks
    kept = sum(a == b for a, b in zip(before.uplinks, after.uplinks, strict=True))
    assert kept >= len(pairs) - 3 * used.count(1) - 3


def test_a_leaf_over_its_bound_folds_and_the_others_stay_isolated() -> None:
    pairs = [(0, b) for b in (1, 2, 3, 4, 5)] + [(1, 2), (3, 4)]
    colouring = colour_flows(fabric(6, (0, 1)), hops(pairs))
    assert {(share.rack, share.direction) for share in colouring.shared} == {("r0", "up")}
    assert sorted(len(share.flows) for share in colouring.shared) == [2, 3]


def test_rails_do_not_meet() -> None:
    spines = {(rack, rail): (0,) for rack in "ab" for rail in (0, 1)}
    flows = [Hop(("a", rail), ("b", rail)) for rail in (0, 1)]
    assert colour_flows(Topology(spines, 1), flows).shared == ()


def test_no_flows_and_no_spines() -> None:
    assert colour_flows(Topology({}, 1), []) == Colouring((), (), ())
    assert colour_flows(Topology({("a", 0): (0,)}, 1), [Hop(("a", 0), ("b", 0))]).uplinks == (None,)


def test_k_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="flows_per_uplink must be at least 1, got 0"):
        colour_flows(Topology({}, 0), [])
