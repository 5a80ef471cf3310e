"""Schedulers, edge colouring and hashing."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.simulation.scheduling import best_fit, first_fit, random_fit
from monkeytree.simulation.systems.colouring import colour_edges
from monkeytree.simulation.systems.ecmp import flow_hash

FREE = [[0, 1], [4, 5, 6], [8], [12, 13, 14, 15]]


@pytest.mark.parametrize(
    ("wanted", "blocks"),
    [
        (1, [8]),  # the fullest rack that fits
        (2, [0, 1]),
        (3, [4, 5, 6]),
        (5, [4, 12, 13, 14, 15]),  # none fits: from the emptiest on
        (10, [0, 1, 4, 5, 6, 8, 12, 13, 14, 15]),
        (11, None),
    ],
)
def test_best_fit(wanted: int, blocks: list[int] | None) -> None:
    assert best_fit(FREE, wanted) == blocks


def test_first_fit_and_random() -> None:
    assert first_fit(FREE, 3) == [0, 1, 4]
    assert first_fit(FREE, 11) is None
    fit = random_fit(random.Random(1))
    draws = [fit(FREE, 3) for _ in range(20)]
    assert all(draw == sorted(draw) for draw in draws if draw)
    assert len({tuple(draw or ()) for draw in draws}) > 5
    assert fit(FREE, 11) is None


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=60))
def test_edges_at_a_node_differ_and_colours_are_fewest(edges: list[tuple[int, int]]) -> None:
    colours = colour_edges(edges)
    at = Counter(
        (side, edge[side], colour) for edge, colour in zip(edges, colours, strict=True) for side in (0, 1)
    )
    assert all(count == 1 for count in at.values())
    degree = Counter((side, edge[side]) for edge in edges for side in (0, 1))
    assert all(0 <= colour < max(degree.values()) for colour in colours)


def test_the_hash_is_the_documented_one() -> None:
    """BLAKE2b of the decimal numbers with commas, 8 bytes, big-endian: the same everywhere."""
    assert flow_hash(42, 1, 2, 3) == 0xD9A875590E4C0370  # echo -n 42,1,2,3 | b2sum -l 64
