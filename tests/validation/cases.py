"""Small placements whose replay can be worked out by hand."""

from __future__ import annotations

from typing import Any

import monkeytree
from monkeytree.snapshot import Snapshot
from monkeytree.validation.simulate import Simulator
from tests.validation.fluid import BUFFERS, Fluid


def document(*jobs: dict[str, Any], racks: int = 2, uplinks: Any = 2, nodes: int = 4, **members: Any) -> Any:
    """Racks r0, r1, ... of one-slot nodes r0n0, r0n1, ...; ``jobs`` as :func:`job` makes them."""
    return {
        "format": 1,
        "cluster": "small",
        "taken_at": "2026-11-29T18:00:00Z",
        "racks": [
            {"id": f"r{r}", "uplinks": uplinks, "nodes": {f"r{r}n{n}": 1 for n in range(nodes)}}
            for r in range(racks)
        ],
        "jobs": list(jobs),
        **members,
    }


def job(name: str, workers: str, **group: Any) -> dict[str, Any]:
    """A job of one group; ``workers`` are nodes as "0.1 1.1": r0n1 and r1n1."""
    nodes = ["r{}n{}".format(*worker.split(".")) for worker in workers.split()]
    return {"id": name, "replica_groups": [{"id": "0", "workers": nodes, **group}]}


def small(*jobs: dict[str, Any], **members: Any) -> Snapshot:
    """The snapshot of :func:`document`."""
    return monkeytree.load_snapshot(document(*jobs, **members))


def crowded() -> Snapshot:
    """Two racks of one uplink, two jobs across both: over, and a swap heals it."""
    return small(job("A", "0.0 1.0"), job("B", "0.1 1.1"), uplinks=1, nodes=2)


def simulator(
    run: Fluid | None = None, *, workers: int = 2, apart: bool = True, **params: float
) -> Simulator:
    """A simulator on the stand-in."""
    return Simulator(run or Fluid(), {"profile": "dcqcn", "seed": 1, **params}, BUFFERS, workers, 60.0, apart)
