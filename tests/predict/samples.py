"""Small clusters for predictions."""

from __future__ import annotations

import random
from typing import Any

import monkeytree
from monkeytree.snapshot import Snapshot

Document = dict[str, Any]

STRETCH = 22 / 73
"""How much longer a job of :func:`shared` sends with one neighbour. Each sends 1 s of 4: a quarter longer;
then 5/4 s of 17/4, which is 5/17 longer; then 22/17 s of 73/17."""


def shared(
    *, routing: str = "steered", uplinks: int = 1, jobs: int = 2, minute: int = 0, **planning: Any
) -> Document:
    """Two racks; each job has a worker in either, so each rack sends ``jobs`` flows over its uplinks.

    Each job sends 50 GB of 4 s, a quarter of the time at 400 Gb/s, and has 1,000 s to go.
    """
    racks = [
        {"id": f"r{rack}", "uplinks": uplinks, "nodes": {f"r{rack}n{node}": 1 for node in range(jobs)}}
        for rack in (1, 2)
    ]
    rows = [
        {
            "id": f"J{index}",
            "remaining_s": 1000,
            "replica_groups": [
                {
                    "id": "0",
                    "workers": [f"r1n{index}", f"r2n{index}"],
                    "traffic_gb": 50,
                    "iteration_s": 4,
                    "state_gb": 1,
                }
            ],
        }
        for index in range(jobs)
    ]
    return {
        "format": 1, "cluster": "lab", "taken_at": f"2026-11-29T18:{minute:02d}:00Z",
        "fabric": {"nic_gbps": 400, "routing": routing}, "racks": racks, "jobs": rows,
        "planning": {"solver": "search", **planning},
    }  # fmt: skip


def told_at_random(seed: int) -> Snapshot:
    """A small full cluster of random shape; most groups and jobs say all that a prediction needs."""
    draw = random.Random(seed)
    pods = draw.choice([0, 0, 1, 2])
    fabric = {
        "nic_gbps": 100,
        "uplink_gbps": 100 * draw.choice([1, 1, 2, 3]),
        "rails": draw.choice([1, 1, 2]),
        "routing": draw.choice(["steered", "ecmp", "adaptive"]),
    }
    racks: list[Document] = []
    for number in range(draw.randint(2, 5)):
        nodes: dict[str, Any] = {f"r{number}n{node}": 2 for node in range(3)}
        if draw.random() < 0.1:
            nodes[f"r{number}n0"] = {"slots": 2, "drain": True}
        pod = {"pod": f"p{number % pods}"} if pods else {}
        racks.append({"id": f"r{number}", "uplinks": draw.randint(1, 4), "nodes": nodes, **pod})
    slots = [node for rack in racks for node in rack["nodes"] for _ in range(2)]
    draw.shuffle(slots)
    jobs: list[Document] = []
    while len(slots) > 4 and len(jobs) < 7:
        sizes = [draw.randint(2, 4)] if draw.random() < 0.7 else [2, 2]
        groups = [_group(draw, str(at), [slots.pop() for _ in range(size)]) for at, size in enumerate(sizes)]
        job: Document = {"id": f"j{len(jobs)}", "replica_groups": groups}
        if draw.random() < 0.97:
            job["remaining_s"] = draw.uniform(0, 5000)
        jobs.append(job)
    document = {
        "format": 1, "cluster": "c", "taken_at": "2026-11-29T18:00:00Z", "fabric": fabric, "racks": racks,
        "jobs": jobs, "planning": {"solver": "search", "time_limit_s": 1},
    }  # fmt: skip
    if pods:
        document["pods"] = [{"id": f"p{pod}", "uplinks": draw.randint(1, 4)} for pod in range(pods)]
    return monkeytree.load_snapshot(document)


def _group(draw: random.Random, name: str, workers: list[str]) -> Document:
    group: Document = {"id": name, "workers": workers, "rings": draw.randint(1, 4)}
    if draw.random() < 0.97:
        group["traffic_gb"] = draw.uniform(0.1, 20)
    if draw.random() < 0.97:
        group["iteration_s"] = draw.uniform(0.5, 5)
    return group
