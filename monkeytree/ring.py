"""Ring orders: where a group's ring departs, and the order that departs least.

A group's ring *departs* from a place (rack or pod) once for each hop of its cyclic order whose next
worker is in another place. With the workers of a place adjacent it departs once from each place it
touches, the least there is (paper, section 3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Place = TypeVar("Place", bound=Hashable)


def departures(order: Sequence[int], place_of: Sequence[Place]) -> Counter[Place]:
    """Departures of the cyclic ``order`` from each place; ``place_of[i]`` is the place of rank i."""
    places = [place_of[rank] for rank in order]
    return Counter(here for here, there in zip(places, places[1:] + places[:1], strict=True) if here != there)


def least_departures(place_of: Iterable[Place]) -> Counter[Place]:
    """Departures with the workers of each place adjacent: one a place, none if there is only one."""
    places = set(place_of)
    return Counter(places) if len(places) > 1 else Counter()


def same_cycle(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two orders are the same directed cycle."""
    if len(one) != len(other):
        return False
    if not one:
        return True
    try:
        shift = other.index(one[0])
    except ValueError:
        return False
    return list(one) == [*other[shift:], *other[:shift]]


def settled_order(
    order: Sequence[int],
    before: Sequence[str],
    after: Sequence[str],
    pod_of: Mapping[str, str | None],
    preferred: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The order a group takes once it gives up its own: the same cycle where that departs least.

    Args:
        order: ranks in the ring order in force.
        before, after: rack of each rank before and after the moves.
        pod_of: pod of each rack id; None where there are no pods.
        preferred: another order to take the sequence of racks from, such as a previous plan's.
    """
    if departures(order, after) == least_departures(after):
        pods = [pod_of.get(rack) for rack in after]
        if departures(order, pods) == least_departures(pods):
            return tuple(order)
    return adjacent_order(order, before, after, pod_of, preferred)


def adjacent_order(
    order: Sequence[int],
    before: Sequence[str],
    after: Sequence[str],
    pod_of: Mapping[str, str | None],
    preferred: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """An order in which the workers of a pod, then of a rack, are adjacent.

    Pods and racks keep the cyclic sequence in which ``preferred`` (by default ``order``) meets them
    before the moves, and new ones come last: so flows between racks that both stay keep their ends,
    and their uplinks. Arguments as for :func:`settled_order`.
    """
    sequence = preferred or order
    first_rack: dict[str, int] = {}
    first_pod: dict[str | None, int] = {}
    for position, rack in enumerate([before[rank] for rank in sequence] + [after[rank] for rank in order]):
        first_rack.setdefault(rack, position)
        first_pod.setdefault(pod_of.get(rack), position)
    position_of = {rank: position for position, rank in enumerate(order)}

    def key(rank: int) -> tuple[int, int, int]:
        rack = after[rank]
        return first_pod[pod_of.get(rack)], first_rack[rack], position_of[rank]

    return tuple(sorted(order, key=key))
