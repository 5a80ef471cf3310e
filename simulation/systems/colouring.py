"""Edge colouring of a bipartite multigraph with as many colours as its largest degree (König)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

Edge = tuple[int, int]


def colour_edges(edges: Sequence[Edge]) -> list[int]:
    """A colour for each edge (from a left node, to a right node); no two at one node are equal.

    Edges are coloured one by one; where the two ends lack different colours, the path that alternates
    between the two is flipped. Colours are 0 to the largest degree - 1.
    """
    left_degree = Counter(source for source, _ in edges)
    right_degree = Counter(target for _, target in edges)
    most = max([*left_degree.values(), *right_degree.values()], default=0)
    # at[side][node][colour]: the edge of that colour there, or -1.
    at: tuple[dict[int, list[int]], dict[int, list[int]]] = (
        {node: [-1] * most for node in left_degree},
        {node: [-1] * most for node in right_degree},
    )
    colours = [-1] * len(edges)
    for index, (source, target) in enumerate(edges):
        here, there = at[0][source], at[1][target]
        free_here, free_there = here.index(-1), there.index(-1)
        if there[free_here] >= 0:
            _flip(edges, colours, at, target, free_here, free_there)
        colours[index] = free_here
        here[free_here] = there[free_here] = index
    return colours


def _flip(
    edges: Sequence[Edge],
    colours: list[int],
    at: tuple[dict[int, list[int]], dict[int, list[int]]],
    target: int,
    one: int,
    other: int,
) -> None:
    """Swap the colours along the path from the right node ``target`` that starts with colour ``one``."""
    path = []
    side, node, colour = 1, target, one
    while (index := at[side][node][colour]) >= 0:
        path.append(index)
        side = 1 - side
        node = edges[index][side]
        colour = other if colour == one else one
    for index in path:
        for side in (0, 1):
            at[side][edges[index][side]][colours[index]] = -1
    for index in path:
        colours[index] = other if colours[index] == one else one
        for side in (0, 1):
            at[side][edges[index][side]][colours[index]] = index
