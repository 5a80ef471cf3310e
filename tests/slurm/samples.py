"""Captured answers of real Slurm programs (22.05.8), and readings of them.

``squeue``/``sinfo``: 128 nodes with GPUs. ``states``: 32 nodes with every state of interest (drained, down,
reserved, completing, an array, a heterogeneous job). ``live``: 32 nodes without GPUs, one step a worker.
Fields that are not read were cut out of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from monkeytree.slurm.build import Reading
from monkeytree.slurm.site import Site
from monkeytree.slurm.site_reading import read_site
from monkeytree.slurm.sources import read_files

DATA = Path(__file__).parent.parent / "data" / "slurm"
TAKEN_AT = "2026-11-29T19:02:00Z"
SETS: dict[str, tuple[str, str, str, str | None]] = {
    "gpus": ("squeue.json", "sinfo.json", "scontrol_show_topology.txt", None),
    "states": ("states_squeue.json", "states_sinfo.json", "states_topology.conf", "states_steps.txt"),
    "live": ("live_squeue.json", "live_sinfo.json", "live_topology.conf", "live_steps.txt"),
}


def document(name: str) -> Any:
    """A sample as plain data."""
    return json.loads((DATA / name).read_text("utf-8"))


def site(**sections: Any) -> Site:
    """A site with two uplinks a rack unless told otherwise."""
    made: Site = read_site({"racks": {"uplinks": 2}, **sections})
    return made


def reading(name: str, where: Site | None = None) -> Reading:
    """One of the sets, read."""
    squeue, sinfo, topology, steps = (None if file is None else DATA / file for file in SETS[name])
    assert squeue is not None
    assert sinfo is not None
    read: Reading = read_files(where or site(), squeue, sinfo, topology, steps, TAKEN_AT)
    return read
