"""A fingerprint of the live uplinks, by which a learned table knows its topology."""

from __future__ import annotations

import hashlib
import json

from monkeytree.snapshot import Snapshot


def topology_epoch(snapshot: Snapshot) -> str:
    """16 hex digits of the SHA-256 of rails, pods and the live spines of each rack, by id.

    Any uplink that dies or comes back changes the groups that switches choose from, so all that was
    learned before may be wrong.
    """
    fabric = {
        "rails": snapshot.fabric.rails,
        "pods": sorted([pod.id, pod.uplinks] for pod in snapshot.pods),
        "racks": sorted([rack.id, rack.pod or "", list(rack.spines)] for rack in snapshot.racks),
    }
    text = json.dumps(fabric, separators=(",", ":"), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
