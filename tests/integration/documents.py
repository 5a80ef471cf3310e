"""Small snapshot documents."""

from __future__ import annotations

from typing import Any


def snapshot(
    cluster: str = "test", *, does: str = "", sequence: int | None = None, mark: str = "", **more: Any
) -> dict[str, Any]:
    """Two racks of one uplink, both over: two jobs lie across. ``does`` tells the planner what to do."""
    labels = {name: value for name, value in (("test", does), ("mark", mark)) if value}
    document: dict[str, Any] = {
        "format": 1,
        "cluster": cluster,
        "taken_at": "2026-11-29T18:00:00Z",
        "racks": [
            {"id": rack, "uplinks": 1, "nodes": {f"{rack}n{node}": 1 for node in range(3)}}
            for rack in ("r1", "r2")
        ],
        "jobs": [
            {"id": job, "replica_groups": [{"id": "0", "workers": [f"r1n{at}", f"r2n{at}"]}]}
            for at, job in enumerate("AB")
        ],
        "labels": labels,
        **more,
    }
    if sequence is not None:
        document["sequence"] = sequence
    return document
