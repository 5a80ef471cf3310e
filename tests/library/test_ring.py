"""Ring orders: where a ring departs, and the order that departs least."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monkeytree.ring import adjacent_order, departures, least_departures, same_cycle, settled_order

RACKS = ("r0", "r1", "r2", "r3", "r4")
PODS = {"r0": "p0", "r1": "p0", "r2": "p1", "r3": "p1", "r4": "p2"}
NO_PODS: dict[str, str | None] = dict.fromkeys(RACKS)


@st.composite
def rings(draw: st.DrawFn, most: int = 9) -> tuple[list[int], list[str], list[str]]:
    """An order, and the rack of each rank before and after."""
    size = draw(st.integers(1, most))
    places = st.lists(st.sampled_from(RACKS), min_size=size, max_size=size)
    return draw(st.permutations(range(size))), draw(places), draw(places)


@pytest.mark.parametrize(
    ("order", "racks", "expected"),
    [
        ([0, 1, 2], "aab", {"a": 1, "b": 1}),
        ([0, 2, 1], "aab", {"a": 1, "b": 1}),  # the same cycle, turned
        ([0, 1, 2, 3], "abab", {"a": 2, "b": 2}),
        ([0, 2, 1, 3], "abab", {"a": 1, "b": 1}),
        ([0, 1, 2, 3], "abca", {"a": 1, "b": 1, "c": 1}),
        ([0, 1], "ab", {"a": 1, "b": 1}),
        ([0, 1, 2], "aaa", {}),
        ([0], "a", {}),
        ([], "", {}),
    ],
)
def test_departures_by_hand(order: list[int], racks: str, expected: dict[str, int]) -> None:
    assert departures(order, racks) == expected


@given(rings(most=6))
def test_no_order_departs_less_than_an_adjacent_one(ring: tuple[list[int], list[str], list[str]]) -> None:
    order, _, after = ring
    least = least_departures(after)
    assert min(sum(departures(each, after).values()) for each in permutations(order)) == sum(least.values())
    assert departures(adjacent_order(order, after, after, NO_PODS), after) == least


@given(rings())
def test_an_adjacent_order_departs_least_from_racks_and_pods(
    ring: tuple[list[int], list[str], list[str]],
) -> None:
    order, before, after = ring
    settled = adjacent_order(order, before, after, PODS)
    assert sorted(settled) == sorted(order)
    assert departures(settled, after) == least_departures(after)
    pods = [PODS[rack] for rack in after]
    assert departures(settled, pods) == least_departures(pods)


@given(rings())
def test_an_order_that_departs_least_is_kept(ring: tuple[list[int], list[str], list[str]]) -> None:
    order, before, after = ring
    settled = settled_order(order, before, after, PODS)
    pods = [PODS[rack] for rack in after]
    tight = departures(order, after) == least_departures(after)
    if tight and departures(order, pods) == least_departures(pods):
        assert settled == tuple(order)
    assert settled_order(settled, after, after, PODS) == settled


@given(rings())
def test_racks_that_stay_keep_their_cyclic_sequence(ring: tuple[list[int], list[str], list[str]]) -> None:
    """So flows between them keep their ends."""
    order, before, after = ring
    start = adjacent_order(order, before, before, NO_PODS)
    settled = adjacent_order(start, before, after, NO_PODS)
    staying = set(before) & set(after)
    assert visits([after[rank] for rank in settled], staying) == visits(
        [before[rank] for rank in start], staying
    )


def visits(racks: list[str], chosen: set[str]) -> list[str]:
    """The chosen racks as the order first meets them."""
    return [rack for rack in dict.fromkeys(racks) if rack in chosen]


def test_the_sequence_of_racks_comes_from_the_preferred_order() -> None:
    racks = ["a", "b", "c"]
    assert adjacent_order([0, 1, 2], racks, racks, {}) == (0, 1, 2)
    assert adjacent_order([0, 1, 2], racks, racks, {}, preferred=[0, 2, 1]) == (0, 2, 1)


@given(rings(), st.integers(0, 8))
def test_turning_a_cycle_does_not_change_it(ring: tuple[list[int], list[str], list[str]], turn: int) -> None:
    order, _, after = ring
    turned = order[turn % len(order) :] + order[: turn % len(order)]
    assert same_cycle(order, turned)
    assert departures(order, after) == departures(turned, after)
    if len(order) > 2:
        assert not same_cycle(order, order[::-1])


def test_cycles_of_other_ranks_or_lengths_differ() -> None:
    assert same_cycle([], [])
    assert not same_cycle([0, 1], [0, 1, 2])
    assert not same_cycle([0, 1], [2, 3])
    assert least_departures([]) == Counter()
