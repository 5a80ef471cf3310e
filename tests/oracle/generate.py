"""Random valid snapshot documents, with features of the contract mixed in.

A *feature* is a name of :data:`FEATURES`. A test allows a set of them; each allowed one is then switched
on for a snapshot with probability ``chance`` ("slots" more often), so that both single features and
mixtures occur.
``features=()`` makes plain snapshots: one slot a node, one ring a group, the same uplinks everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from random import Random
from typing import Any

from .reading import Document, read, walk

Range = tuple[int, int]

FEATURES = frozenset(
    {
        "classes",  # node classes, and now and then `classes` of a job
        "cordon",
        "drain",
        "gpu_seconds",  # the objective
        "groups",  # several replica groups a job
        "held",
        "kinds",
        "max_moves",
        "mobility",
        "order_fixed",
        "orders",  # given orders, mostly with racks not adjacent
        "pins",
        "pods",
        "rails",
        "rings",  # 0..3
        "slots",  # several slots a node
        "state",  # state_gb, nic_gbps, pause_overhead_s and restart_s off their defaults
        "uplink_gbps",
        "uplinks",  # not the same for each rack: integers from 0, lists with dead spines
        "wide",  # slots_per_worker above 1; wants "slots" too
    }
)
PLACEMENT = frozenset({"slots", "wide", "held", "cordon", "drain", "classes", "pins", "mobility", "groups"})
LOADS = frozenset({"rings", "rails", "uplinks", "uplink_gbps", "pods", "orders", "order_fixed", "groups"})


def tiny_snapshot(rng: Random, *, features: Collection[str] = FEATURES, chance: float = 0.35) -> Document:
    """A snapshot that the brute force solves in tens of milliseconds: at most 8 workers."""
    return random_snapshot(
        rng, racks=(2, 4), nodes=(1, 2), slots=(1, 4), workers=(5, 8), groups=(2, 4), places=10,
        features=features, chance=chance,
    )  # fmt: skip


def small_snapshot(rng: Random, *, features: Collection[str] = FEATURES, chance: float = 0.35) -> Document:
    """A snapshot for checking plans by the thousand: up to 6 racks of 4 nodes and 40 workers."""
    return random_snapshot(
        rng, racks=(3, 6), nodes=(2, 4), slots=(1, 4), workers=(10, 40), groups=(1, 12), places=96,
        features=features, chance=chance,
    )  # fmt: skip


def random_snapshot(
    rng: Random,
    *,
    racks: Range = (2, 4),
    nodes: Range = (1, 2),
    slots: Range = (1, 4),
    workers: Range = (5, 8),
    groups: Range = (2, 4),
    places: int = 10,
    features: Collection[str] = FEATURES,
    chance: float = 0.35,
    troubled: float = 0.75,
) -> Document:
    """A valid snapshot document, most often with something to repair.

    Args:
        racks, nodes, slots: least and most racks, nodes a rack and slots a node.
        workers, groups: least and most workers, and replica groups of all jobs together. Fewer workers
            where the slots do not hold them.
        places: most slots of the cluster, unless ``racks`` and ``nodes`` want more.
        troubled: share of the snapshots that are drawn again (20 times at most) until a leaf or pod is over
            or a worker is on a draining node.
    """
    unknown = set(features) - FEATURES
    if unknown:
        raise ValueError(f"no such features: {sorted(unknown)}")
    on = frozenset(name for name in sorted(features) if rng.random() < chance)
    if "slots" in features and ("wide" in on or rng.random() < 0.4):
        on |= {"slots"}  # where most mixtures get interesting
    tries = 20 if rng.random() < troubled else 1
    for _ in range(tries):
        made = _racks(rng, on, racks, nodes, slots, places)
        snapshot = _snapshot(rng, on, made, rng.randint(*workers), rng.randint(*groups))
        if in_trouble(snapshot):
            break
    return snapshot


def in_trouble(snapshot: Document) -> bool:
    """Whether a leaf or pod is over in the present orders, or a worker is on a draining node."""
    world = read(snapshot)
    loads: Counter[Any] = Counter()
    for group in (group for job in world.jobs for group in job.groups):
        if any(world.places[node].draining for node in group.workers):
            return True
        loads += world.loads(group, *walk(world, [group.workers[rank] for rank in group.order]))
    return world.excess(loads) > 0


def _snapshot(rng: Random, on: frozenset[str], racks: list[Document], workers: int, groups: int) -> Document:
    snapshot: Document = {
        "format": 1,
        "cluster": "random",
        "taken_at": "2026-11-29T18:00:00Z",
        "racks": racks,
        "jobs": [],
    }
    if fabric := _fabric(rng, on):
        snapshot["fabric"] = fabric
    if planning := _planning(rng, on):
        snapshot["planning"] = planning
    if "pods" in on:
        snapshot["pods"] = _pods(rng, racks)
    free = {
        node: given if isinstance(given, int) else given["slots"] - given.get("held", 0)
        for rack in racks
        for node, given in rack["nodes"].items()
    }
    sizes = _group_sizes(rng, workers, groups)
    placed = [group for size in sizes if (group := _group(rng, on, free, size))["workers"]]
    while placed:
        count = rng.randint(1, 3) if "groups" in on else 1
        members, placed = placed[:count], placed[count:]
        snapshot["jobs"].append(_job(rng, on, len(snapshot["jobs"]), members))
    return snapshot


def _fabric(rng: Random, on: frozenset[str]) -> Document:
    fabric: Document = {}
    if "state" in on:
        fabric["nic_gbps"] = rng.choice([100, 200, 400])
    if "uplink_gbps" in on:
        fabric["uplink_gbps"] = int(fabric.get("nic_gbps", 400) * rng.choice([0.5, 1.5, 2, 2, 3]))
    if "rails" in on:
        fabric["rails"] = 2
    return fabric


def _planning(rng: Random, on: frozenset[str]) -> Document:
    planning: Document = {}
    if "gpu_seconds" in on:
        planning["objective"] = "gpu_seconds"
    if "max_moves" in on:
        planning["max_moves"] = rng.choice([0, 1, 1, 2, 3])
    if "state" in on and rng.random() < 0.3:
        planning["pause_overhead_s"] = rng.choice([0.5, 20])
        planning["restart_s"] = rng.choice([5, 30])
    return planning


def _racks(
    rng: Random, on: frozenset[str], racks: Range, nodes: Range, slots: Range, places: int
) -> list[Document]:
    uplinks = rng.choice([0, 1, 1, 1, 1, 2, 2, 2, 3])
    several = "slots" in on
    # One slot a node needs more nodes for as much to choose from.
    counts = [rng.randint(nodes[0], nodes[1] + (not several)) for _ in range(rng.randint(*racks))]
    left = places - sum(counts)  # slots beyond one a node
    made: list[Document] = []
    for number, count in enumerate(counts):
        own = rng.choice([0, 1, 1, 2, 3, [0], [1], [0, 2], [1, 2], []]) if "uplinks" in on else uplinks
        rack: Document = {"id": f"r{number}", "uplinks": own, "nodes": {}}
        for index in range(count):
            share = -(-left // (sum(counts[number:]) - index)) if several and left > 0 else 0
            extra = rng.randint(slots[0] - 1, max(slots[0] - 1, min(slots[1] - 1, 2 * share, left)))
            size = 1 + extra if several else 1
            left -= size - 1
            rack["nodes"][f"r{number}n{index}"] = _node(rng, on, size)
        made.append(rack)
    return made


def _node(rng: Random, on: frozenset[str], slots: int) -> int | Document:
    node: Document = {"slots": slots}
    if "held" in on and rng.random() < 0.3:
        node["held"] = rng.randint(0, min(slots, 2))
    if "cordon" in on and rng.random() < 0.25:
        node["cordoned"] = True
    if "drain" in on and rng.random() < 0.25:
        node["drain"] = True
    if "classes" in on and rng.random() < 0.4:
        node["class"] = rng.choice(["a100", "h200"])
    return slots if len(node) == 1 and rng.random() < 0.7 else node


def _pods(rng: Random, racks: list[Document]) -> list[Document]:
    """Two or three pods of neighbouring racks; writes the racks' ``pod`` members."""
    count = min(len(racks), rng.choice([2, 2, 3]))
    for index, rack in enumerate(racks):
        rack["pod"] = f"p{index * count // len(racks)}"
    return [{"id": f"p{index}", "uplinks": rng.choice([0, 1, 1, 2, 3, 4])} for index in range(count)]


def _group_sizes(rng: Random, workers: int, groups: int) -> list[int]:
    """``workers`` cut at random into at most ``groups`` parts of at least one."""
    groups = min(groups, workers)
    cuts = sorted(rng.sample(range(1, workers), groups - 1))
    return [end - start for start, end in zip([0, *cuts], [*cuts, workers], strict=True)]


def _group(rng: Random, on: frozenset[str], free: dict[str, int], size: int) -> Document:
    """A replica group of at most ``size`` workers, its slots taken from ``free``."""
    group: Document = {"id": "0", "workers": []}
    wide = rng.choice([1, 2, 2, 4]) if "wide" in on else 1
    if wide > 1:
        group["slots_per_worker"] = wide
    packed = rng.random() < 0.2
    for _ in range(size):
        roomy = [node for node, slots in free.items() if slots >= wide]
        if not roomy:
            break
        node = roomy[0] if packed else rng.choice(roomy)
        free[node] -= wide
        group["workers"].append(node)
    ranks = list(range(len(group["workers"])))
    if "rings" in on:
        group["rings"] = rng.choice([0, 1, 1, 2, 2, 3])
    if "state" in on:
        group["state_gb"] = rng.choice([0.5, 4.0, 12.0, 30.0])
    if "orders" in on and rng.random() < 0.7:
        group["order"] = rng.sample(ranks, len(ranks))
    if "order_fixed" in on and rng.random() < 0.3:
        group["order_fixed"] = True
    if "pins" in on and rng.random() < 0.5:
        group["pinned"] = sorted(rng.sample(ranks, rng.randint(0, len(ranks))))
    if "kinds" in on:
        group["kind"] = rng.choice(["ring", "tree", "all_to_all", "other"])
    return group


def _job(rng: Random, on: frozenset[str], number: int, groups: list[Document]) -> Document:
    for index, group in enumerate(groups):
        group["id"] = str(index)
    job: Document = {"id": f"j{number}", "replica_groups": groups}
    if "mobility" in on:
        job["mobility"] = rng.choice(["live", "live", "restart", "restart", "none"])
    if "classes" in on and rng.random() < 0.3:
        job["classes"] = sorted(rng.sample(["", "a100", "h200"], rng.randint(1, 3)))
    return job
