"""Theorem 1 of the paper: the sequential fill leaves at most two fragmented groups in a rack."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monkeytree.fill import sequential_fill

SIZES = st.lists(st.integers(0, 20), max_size=30)
CAPACITIES = st.lists(st.integers(0, 12), max_size=30)


@given(SIZES, CAPACITIES)
def test_at_most_two_fragmented_groups_a_rack(sizes: list[int], capacities: list[int]) -> None:
    if sum(sizes) > sum(capacities):
        with pytest.raises(ValueError, match=f"{sum(sizes)} workers do not fit into {sum(capacities)} slots"):
            sequential_fill(sizes, capacities)
        return
    counts = sequential_fill(sizes, capacities)
    assert [sum(placed.values()) for placed in counts] == sizes
    used: Counter[int] = Counter()
    fragments: Counter[int] = Counter()
    for placed in counts:
        used.update(placed)
        if len(placed) > 1:
            fragments.update(placed.keys())
    assert all(used[rack] <= capacity for rack, capacity in enumerate(capacities))
    assert all(count > 0 for placed in counts for count in placed.values())
    assert max(fragments.values(), default=0) <= 2


def test_by_hand() -> None:
    assert sequential_fill([3, 2, 4], [4, 4, 4]) == [{0: 3}, {0: 1, 1: 1}, {1: 3, 2: 1}]
    assert sequential_fill([], []) == []
    assert sequential_fill([1], [0, 0, 1]) == [{2: 1}]
