"""Demands that workers which cannot move break by themselves: found by counting alone."""

from __future__ import annotations

from collections import Counter

from monkeytree.placement import sends
from monkeytree.problem import immovable_ranks, may_change
from monkeytree.ring import departures
from monkeytree.snapshot import Job, ReplicaGroup, Snapshot

from .demands import Part


def hopeless_drains(snapshot: Snapshot) -> list[Part]:
    """Draining nodes with a worker that cannot move, in snapshot order."""
    held = {group.workers[rank] for job, group in snapshot.groups for rank in immovable_ranks(job, group)}
    return [Part("drain", node.id) for node in snapshot.node_by_id.values() if node.drain and node.id in held]


def hopeless_racks(snapshot: Snapshot) -> list[Part]:
    """Racks whose bound is broken by what must go on departing from them, in snapshot order."""
    rails = snapshot.fabric.rails
    room = {rack.id: sum(node.usable for node in rack.nodes) for rack in snapshot.racks}
    bounds = {rack.id: snapshot.bound(rack) for rack in snapshot.racks}
    load: Counter[tuple[str, int]] = Counter()
    for job, group in snapshot.groups:
        if sends(group):
            for rack, times in _certain(snapshot, job, group, room).items():
                for rail in range(min(rails, group.rings)):
                    load[rack, rail] += times * group.rings_on_rail(rail, rails)
    over = {rack for (rack, _), flows in load.items() if flows > bounds[rack]}
    return [Part("rack", rack.id) for rack in snapshot.racks if rack.id in over]


def _certain(snapshot: Snapshot, job: Job, group: ReplicaGroup, room: dict[str, int]) -> Counter[str]:
    """Departures of a group that no plan ends, by rack.

    A worker that cannot move keeps its group on a rack. The group departs from there unless it is
    whole there: which others that cannot move, or too few slots, rule out.
    """
    if not may_change(job, group):
        return departures(group.ring_order, [snapshot.rack_of[node].id for node in group.workers])
    held = {snapshot.rack_of[group.workers[rank]].id for rank in immovable_ranks(job, group)}
    slots = len(group.workers) * group.slots_per_worker
    return Counter(rack for rack in held if len(held) > 1 or slots > room[rack])
