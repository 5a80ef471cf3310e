"""Theorem 1's sequential fill: a placement with at most two fragmented jobs a rack always exists.

Order the groups anyhow and fill the racks from left to right. Each rack then holds the tail of one
group, whole groups, and the head of one group, so at most two groups are fragmented in it (paper,
section 5.1). It ignores where workers are now, so it costs far more moves than the program; it is
the reason a bound of two (times the most rings) can always be met, and a feasibility certificate.
"""

from __future__ import annotations

from collections.abc import Sequence


def sequential_fill(sizes: Sequence[int], capacities: Sequence[int]) -> list[dict[int, int]]:
    """Workers of each group by rack, filled in the given order.

    Args:
        sizes: workers of each group.
        capacities: worker slots of each rack.

    Raises:
        ValueError: if the groups do not fit.
    """
    if sum(sizes) > sum(capacities):
        raise ValueError(f"{sum(sizes)} workers do not fit into {sum(capacities)} slots")
    counts: list[dict[int, int]] = []
    rack, free = 0, capacities[0] if capacities else 0
    for size in sizes:
        placed: dict[int, int] = {}
        left = size
        while left:
            while not free:
                rack += 1
                free = capacities[rack]
            here = min(left, free)
            placed[rack] = here
            left -= here
            free -= here
        counts.append(placed)
    return counts
