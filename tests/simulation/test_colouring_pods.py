"""Two tiers of colours: flows between pods first, the others in what is left at their racks."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from monkeytree.simulation.systems.colouring import colour_edges, extend_colours

EDGES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=20)


def degree(edges: list[tuple[int, int]]) -> int:
    return max(Counter((side, edge[side]) for edge in edges for side in (0, 1)).values(), default=0)


def clashes(edges: list[tuple[int, int]], colours: list[int]) -> int:
    seen = Counter((side, edge[side], c) for edge, c in zip(edges, colours, strict=True) for side in (0, 1))
    return sum(times - 1 for times in seen.values())


@given(EDGES)
def test_with_nothing_taken_the_degree_is_enough(edges: list[tuple[int, int]]) -> None:
    colours = extend_colours(edges, {}, {}, max(1, degree(edges)))
    assert clashes(edges, colours) == 0


@given(EDGES, EDGES)
def test_twice_the_degree_less_one_is_enough_beside_any_that_are_taken(
    fixed: list[tuple[int, int]], edges: list[tuple[int, int]]
) -> None:
    """A first fit always finds one among as many colours: the paths only have to do no harm."""
    most = max(1, 2 * degree([*fixed, *edges]) - 1)
    before = colour_edges(fixed)
    left: dict[int, set[int]] = {}
    right: dict[int, set[int]] = {}
    for (source, target), colour in zip(fixed, before, strict=True):
        left.setdefault(source, set()).add(colour)
        right.setdefault(target, set()).add(colour)
    colours = extend_colours(edges, left, right, most)
    assert clashes([*fixed, *edges], [*before, *colours]) == 0


@given(EDGES, EDGES, st.integers(1, 6))
def test_where_it_cannot_be_some_share_and_all_have_one(
    fixed: list[tuple[int, int]], edges: list[tuple[int, int]], most: int
) -> None:
    taken: dict[int, set[int]] = {source: {target % most} for source, target in fixed}
    colours = extend_colours(edges, taken, {}, most)
    assert len(colours) == len(edges)
    assert all(0 <= colour < most for colour in colours)
