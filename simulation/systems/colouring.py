"""Edge colouring of a bipartite multigraph with as many colours as its largest degree (König)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set

Edge = tuple[int, int]
Taken = Mapping[int, Set[int]]


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


def extend_colours(edges: Sequence[Edge], taken_left: Taken, taken_right: Taken, most: int) -> list[int]:
    """As :func:`colour_edges` with colours 0 to ``most`` - 1, where some are taken at some nodes.

    Such an extension need not exist: an edge for which no path can be flipped gets the colour that the
    fewest others at its two nodes have.
    """
    at: tuple[defaultdict[int, dict[int, int]], defaultdict[int, dict[int, int]]] = (
        defaultdict(dict),
        defaultdict(dict),
    )
    shared: Counter[tuple[int, int, int]] = Counter()
    colours = [-1] * len(edges)
    for index, (source, target) in enumerate(edges):
        here = [c for c in range(most) if c not in at[0][source] and c not in taken_left.get(source, ())]
        there = [c for c in range(most) if c not in at[1][target] and c not in taken_right.get(target, ())]
        colour = next((c for c in here if c in set(there)), None)
        if colour is None:
            colour = _make_room(edges, colours, at, (taken_left, taken_right), target, here, there)
        if colour is None:
            crowd = [
                (c not in here) + (c not in there) + shared[0, source, c] + shared[1, target, c]
                for c in range(most)
            ]
            colours[index] = crowd.index(min(crowd))
            shared[0, source, colours[index]] += 1
            shared[1, target, colours[index]] += 1
            continue
        at[0][source][colour] = at[1][target][colour] = index
        colours[index] = colour
    return colours


def _make_room(
    edges: Sequence[Edge],
    colours: list[int],
    at: tuple[defaultdict[int, dict[int, int]], defaultdict[int, dict[int, int]]],
    taken: tuple[Taken, Taken],
    target: int,
    here: Sequence[int],
    there: Sequence[int],
) -> int | None:
    """Free at ``target`` a colour of ``here`` by flipping a path whose nodes have both colours to give."""
    for one in here:
        for other in there:
            path = _path(edges, at, taken, target, one, other)
            if path is None:
                continue
            for index in path:
                for side in (0, 1):
                    del at[side][edges[index][side]][colours[index]]
            for index in path:
                colours[index] = other if colours[index] == one else one
                for side in (0, 1):
                    at[side][edges[index][side]][colours[index]] = index
            return one
    return None


def _path(
    edges: Sequence[Edge],
    at: tuple[defaultdict[int, dict[int, int]], defaultdict[int, dict[int, int]]],
    taken: tuple[Taken, Taken],
    target: int,
    one: int,
    other: int,
) -> list[int] | None:
    """The alternating path from the right node ``target``; None where one of its colours is taken."""
    path: list[int] = []
    side, node, colour = 1, target, one
    while colour not in taken[side].get(node, ()):
        index = at[side][node].get(colour)
        if index is None:
            return path
        path.append(index)
        side = 1 - side
        node = edges[index][side]
        colour = other if colour == one else one
    return None
