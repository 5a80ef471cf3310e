"""Where every worker is, in which ring order, and what that costs the leaves.

An :class:`Arrangement` is the part of a placement that a plan changes: the node of each rank and the
ring order of each group. Degrees (f_t of the paper, section 3) are computed from it alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from .ring import departures
from .snapshot import Rack, ReplicaGroup, Snapshot


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Node of each rank and ring order of each group, indexed as ``Snapshot.groups``."""

    nodes: tuple[tuple[str, ...], ...]
    orders: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(snapshot: Snapshot) -> Arrangement:
        """The arrangement a snapshot was taken of."""
        return Arrangement(
            nodes=tuple(group.workers for _, group in snapshot.groups),
            orders=tuple(group.ring_order for _, group in snapshot.groups),
        )


@dataclass(frozen=True, slots=True)
class Degrees:
    """Fragmentation degrees.

    Attributes:
        racks: f_t of each leaf, by (rack id, rail).
        pods: the same one tier up, by pod id, all rails together.
    """

    racks: Mapping[tuple[str, int], int]
    pods: Mapping[str, int]


def sends(group: ReplicaGroup) -> bool:
    """Whether a group can send flows at all: it has rings, and somebody to send to."""
    return group.rings > 0 and len(group.workers) > 1


def degrees(snapshot: Snapshot, arrangement: Arrangement) -> Degrees:
    """f_t of every leaf and pod that ``arrangement`` loads (others are absent: zero)."""
    rails = snapshot.fabric.rails
    rack_of = snapshot.rack_of
    racks: Counter[tuple[str, int]] = Counter()
    pods: Counter[str] = Counter()
    for (_, group), nodes, order in zip(snapshot.groups, arrangement.nodes, arrangement.orders, strict=True):
        if not sends(group):
            continue
        first = rack_of[nodes[0]]
        places = [rack_of[node] for node in nodes]
        if places.count(first) == len(places):
            continue
        for rack, times in departures(order, [place.id for place in places]).items():
            for rail in range(min(rails, group.rings)):
                racks[rack, rail] += times * group.rings_on_rail(rail, rails)
        if snapshot.pods:
            for pod, times in departures(order, [place.pod for place in places]).items():
                pods[str(pod)] += times * group.rings
    return Degrees(racks, pods)


def rack_excess(snapshot: Snapshot, found: Degrees, rack: Rack) -> int:
    """Sum of f_t - lambda_t over the leaves of ``rack`` that are over."""
    bound = snapshot.bound(rack)
    return sum(max(0, found.racks.get((rack.id, rail), 0) - bound) for rail in range(snapshot.fabric.rails))


def total_excess(snapshot: Snapshot, found: Degrees) -> int:
    """Sum of f_t - lambda_t over the leaves and pods that are over."""
    leaves = sum(rack_excess(snapshot, found, rack) for rack in snapshot.racks)
    return leaves + sum(max(0, found.pods.get(pod.id, 0) - snapshot.pod_bound(pod)) for pod in snapshot.pods)


def over_bound(snapshot: Snapshot) -> dict[str, int]:
    """Excess of each rack that is over its bound as the snapshot stands (racks over only)."""
    found = degrees(snapshot, Arrangement.of(snapshot))
    excess = {rack.id: rack_excess(snapshot, found, rack) for rack in snapshot.racks}
    return {rack: value for rack, value in excess.items() if value > 0}
