"""Equal uplinks: balanced edge colouring of a bipartite multigraph (König 1916, de Werra 1971).

A node of degree d is split into ceil(d / U) copies of degree at most U; the split graph is coloured
with U colours along alternating (Kempe) paths. So each colour meets a node at most ceil(d / U)
times. Without seeds all copies but the last are full, hence also at least floor(d / U) times.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product

PATHS_COMPARED = 16
FREE = -1


def colour_equal(ends: Sequence[tuple[int, int]], seeds: Sequence[int | None], colours: int) -> list[int]:
    """Colour each edge.

    Args:
        ends: source and target node of each edge; a node is never both.
        seeds: wished colour of each edge, or None.
        colours: U, at least 1.

    Returns:
        a colour in 0..U-1 for each edge, at most ceil(d / U) times the same at a node of degree d.
    """
    kept = _keep_seeds(ends, seeds, colours)
    sources = _split([source for source, _ in ends], kept, colours)
    targets = _split([target for _, target in ends], kept, colours)
    copies = list(zip(sources, targets, strict=True))
    painter = _Painter(copies, kept, colours)
    for edge, colour in enumerate(kept):
        if colour is None:
            painter.paint(edge)
    return painter.colour


def _degrees(ends: Sequence[tuple[int, int]]) -> dict[int, int]:
    degrees: dict[int, int] = {}
    for pair in ends:
        for node in pair:
            degrees[node] = degrees.get(node, 0) + 1
    return degrees


def _keep_seeds(
    ends: Sequence[tuple[int, int]], seeds: Sequence[int | None], colours: int
) -> list[int | None]:
    """Seeds in edge order, as long as a colour meets each node at most ceil(d / U) times."""
    degrees = _degrees(ends)
    met: dict[tuple[int, int], int] = {}
    kept: list[int | None] = []
    for pair, seed in zip(ends, seeds, strict=True):
        if seed is not None:
            if all(met.get((node, seed), 0) < -(-degrees[node] // colours) for node in pair):
                for node in pair:
                    met[node, seed] = met.get((node, seed), 0) + 1
            else:
                seed = None
        kept.append(seed)
    return kept


def _split(nodes: Sequence[int], kept: Sequence[int | None], colours: int) -> list[tuple[int, int]]:
    """The copy (node, number) of each edge; edges of one seed at a node are put on different copies."""
    met: dict[tuple[int, int], int] = {}
    filled: dict[tuple[int, int], int] = {}
    copies: list[tuple[int, int]] = []
    for node, seed in zip(nodes, kept, strict=True):
        number = 0
        if seed is not None:
            number = met.get((node, seed), 0)
            met[node, seed] = number + 1
            filled[node, number] = filled.get((node, number), 0) + 1
        copies.append((node, number))
    first_open: dict[int, int] = {}
    for edge, (node, seed) in enumerate(zip(nodes, kept, strict=True)):
        if seed is None:
            number = first_open.get(node, 0)
            while filled.get((node, number), 0) >= colours:
                number += 1
            first_open[node] = number
            filled[node, number] = filled.get((node, number), 0) + 1
            copies[edge] = (node, number)
    return copies


class _Painter:
    """A partial proper colouring of the split graph, extended edge by edge."""

    def __init__(
        self,
        copies: Sequence[tuple[tuple[int, int], tuple[int, int]]],
        seeds: Sequence[int | None],
        colours: int,
    ) -> None:
        numbers: dict[tuple[int, int], int] = {}
        self.ends = [
            (numbers.setdefault(source, len(numbers)), numbers.setdefault(target, len(numbers)))
            for source, target in copies
        ]
        self.seeds = seeds
        self.colour = [FREE] * len(self.ends)
        self.edge_at = [[FREE] * colours for _ in numbers]
        self.compare = any(seed is not None for seed in seeds)
        for edge, seed in enumerate(seeds):
            if seed is not None:
                self._set(edge, seed)

    def paint(self, edge: int) -> None:
        """Colour one more edge; recolours others only where its ends have no free colour in common."""
        source, target = self.ends[edge]
        at_source, at_target = self.edge_at[source], self.edge_at[target]
        for colour, taken in enumerate(at_source):
            if taken == FREE and at_target[colour] == FREE:
                self._set(edge, colour)
                return
        colour, other, path = self._best_path(source, target)
        self._flip(path, colour, other)
        self._set(edge, colour)

    def _best_path(self, source: int, target: int) -> tuple[int, int, list[int]]:
        """(colour, other, path): flipping the path frees ``colour`` at both ends, disturbing least."""
        at_source, at_target = self.edge_at[source], self.edge_at[target]
        if not self.compare:
            alpha, beta = at_source.index(FREE), at_target.index(FREE)
            return alpha, beta, self._path(target, alpha, beta)
        free_at_source = [colour for colour, taken in enumerate(at_source) if taken == FREE]
        free_at_target = [colour for colour, taken in enumerate(at_target) if taken == FREE]
        options: list[tuple[int, int, int, int, list[int]]] = []
        for alpha, beta in islice(product(free_at_source, free_at_target), PATHS_COMPARED):
            for node, colour, other in ((target, alpha, beta), (source, beta, alpha)):
                path = self._path(node, colour, other)
                disturbed = sum(self.colour[edge] == self.seeds[edge] for edge in path)
                options.append((disturbed, len(path), colour, other, path))
        _, _, colour, other, path = min(options)
        return colour, other, path

    def _path(self, node: int, first: int, second: int) -> list[int]:
        """Edges from ``node`` coloured first, second, first, ... in turn; it never closes a circle,
        since ``second`` is free at ``node``."""
        path: list[int] = []
        edge = self.edge_at[node][first]
        while edge != FREE:
            path.append(edge)
            source, target = self.ends[edge]
            node = target if node == source else source
            first, second = second, first
            edge = self.edge_at[node][first]
        return path

    def _flip(self, path: Sequence[int], first: int, second: int) -> None:
        for edge in path:
            self._clear(edge)
        for number, edge in enumerate(path):
            self._set(edge, first if number % 2 else second)

    def _set(self, edge: int, colour: int) -> None:
        self.colour[edge] = colour
        for node in self.ends[edge]:
            self.edge_at[node][colour] = edge

    def _clear(self, edge: int) -> None:
        for node in self.ends[edge]:
            self.edge_at[node][self.colour[edge]] = FREE
