"""A snapshot document as the oracle reads it: defaults filled in, rights of each rank worked out.

Nothing is validated: the documents come from tests. Terms and defaults: docs/contract.md, section 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Document = dict[str, Any]


class Score(NamedTuple):
    """What a plan costs, in lexicographic order; ``gpu_seconds`` is None for objective ``moves``."""

    undrained: int
    excess: int
    gpu_seconds: float | None
    moves: int
    jobs_paused: int
    summed_f: int

    def key(self) -> tuple[float, ...]:
        """A tuple to compare; GPU-seconds to 1e-6."""
        return tuple(0.0 if value is None else round(value, 6) for value in self)


@dataclass(frozen=True)
class Place:
    """One node. ``room``: slots - held; ``accepts``: neither cordoned nor draining."""

    rack: str
    pod: str | None
    room: int
    accepts: bool
    draining: bool
    node_class: str


@dataclass(frozen=True)
class Group:
    """One replica group. ``movable``: its ranks that may move; ``free_order``: may be reordered."""

    id: str
    workers: tuple[str, ...]
    order: tuple[int, ...]
    rings: int
    slots: int
    state_gb: float
    movable: tuple[int, ...]
    free_order: bool


@dataclass(frozen=True)
class Job:
    """One job; ``classes`` are the node classes that its workers may move to."""

    id: str
    restarts: bool
    classes: frozenset[str]
    groups: tuple[Group, ...]

    @property
    def slots(self) -> int:
        """Slots of all its workers."""
        return sum(group.slots * len(group.workers) for group in self.groups)


@dataclass(frozen=True)
class World:
    """A snapshot; ``bounds`` has a key (rack, rail) for each leaf and (pod, None) for each pod."""

    places: Mapping[str, Place]
    bounds: Mapping[tuple[str, int | None], int]
    rails: int
    nic_gbps: float
    jobs: tuple[Job, ...]
    by_gpu_seconds: bool
    max_moves: int | None
    pause_overhead_s: float
    restart_s: float

    def loads(self, group: Group, racks: Mapping[str, int], pods: Mapping[str, int]) -> Counter[Any]:
        """f added by ``group``, by key of ``bounds``, from its departures by rack and by pod."""
        added: Counter[Any] = Counter()
        for rack, departures in racks.items():
            for ring in range(group.rings):
                added[rack, ring % self.rails] += departures
        for pod, departures in pods.items():
            added[pod, None] += departures * group.rings
        return added

    def excess(self, loads: Mapping[Any, int]) -> int:
        """Sum of f over its bound, of the leaves and pods that are over."""
        return sum(max(0, f - self.bounds[key]) for key, f in loads.items())

    def summed_f(self, loads: Mapping[Any, int]) -> int:
        """Sum of f over the leaves (pods left out)."""
        return sum(f for (_, rail), f in loads.items() if rail is not None)

    def gpu_seconds(self, job: Job, state_gb: float | None) -> float:
        """Job-slots x pause of a paused job; ``state_gb``: the largest that moves, None if only reordered."""
        if state_gb is None:
            return job.slots * self.pause_overhead_s
        if job.restarts:
            return job.slots * self.restart_s
        return job.slots * (self.pause_overhead_s + state_gb * 8 / self.nic_gbps)


def walk(world: World, nodes: Sequence[str]) -> tuple[Counter[str], Counter[str]]:
    """Departures by rack and by pod of a ring that visits ``nodes`` in this cyclic order."""
    racks: Counter[str] = Counter()
    pods: Counter[str] = Counter()
    for name, following in zip(nodes, [*nodes[1:], *nodes[:1]], strict=True):
        here, there = world.places[name], world.places[following]
        if here.rack != there.rack:
            racks[here.rack] += 1
        if here.pod is not None and here.pod != there.pod:
            pods[here.pod] += 1
    return racks, pods


def read(snapshot: Document) -> World:
    """The world of a snapshot document."""
    fabric, planning = snapshot.get("fabric", {}), snapshot.get("planning", {})
    nic_gbps = fabric.get("nic_gbps", 400)
    per_uplink = max(1, int(fabric.get("uplink_gbps", nic_gbps) // nic_gbps))
    rails = fabric.get("rails", 1)
    bounds: dict[tuple[str, int | None], int] = {}
    places: dict[str, Place] = {}
    for rack in snapshot["racks"]:
        uplinks = rack["uplinks"]
        live = uplinks if isinstance(uplinks, int) else len(uplinks)
        bounds |= {(rack["id"], rail): live * per_uplink for rail in range(rails)}
        places |= {name: _place(rack, node) for name, node in rack["nodes"].items()}
    for pod in snapshot.get("pods", []):
        bounds[pod["id"], None] = pod["uplinks"] * per_uplink
    return World(
        places=places,
        bounds=bounds,
        rails=rails,
        nic_gbps=nic_gbps,
        jobs=tuple(_job(job, places) for job in snapshot["jobs"]),
        by_gpu_seconds=planning.get("objective", "moves") == "gpu_seconds",
        max_moves=planning.get("max_moves"),
        pause_overhead_s=planning.get("pause_overhead_s", 9.02),
        restart_s=planning.get("restart_s", 120),
    )


def _place(rack: Document, node: int | Document) -> Place:
    given: Document = {"slots": node} if isinstance(node, int) else node
    draining = given.get("drain", False)
    return Place(
        rack=rack["id"],
        pod=rack.get("pod"),
        room=given["slots"] - given.get("held", 0),
        accepts=not draining and not given.get("cordoned", False),
        draining=draining,
        node_class=given.get("class", ""),
    )


def _job(job: Document, places: Mapping[str, Place]) -> Job:
    mobility = job.get("mobility", "live")
    on = {places[node].node_class for group in job["replica_groups"] for node in group["workers"]}
    return Job(
        id=job["id"],
        restarts=mobility == "restart",
        classes=frozenset(job.get("classes", on)),
        groups=tuple(_group(group, mobility) for group in job["replica_groups"]),
    )


def _group(group: Document, mobility: str) -> Group:
    workers = group["workers"]
    free = mobility != "none" and not group.get("order_fixed", False)
    pinned = group.get("pinned", [])
    return Group(
        id=group["id"],
        workers=tuple(workers),
        order=tuple(group.get("order", range(len(workers)))),
        rings=group.get("rings", 1),
        slots=group.get("slots_per_worker", 1),
        state_gb=group.get("state_gb", 12.0),
        movable=tuple(rank for rank in range(len(workers)) if free and rank not in pinned),
        free_order=free,
    )
