"""Writes examples/steering/ and examples/history/: `python tools/examples.py`.

The probes are what `monkeytree probe send` would have written on a fabric whose leaves hash by the CRC that
the snapshot names; nothing was sent. The history is made by hand: two jobs stay, one ends, another comes.
"""

from __future__ import annotations

import copy
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import monkeytree
from monkeytree.ecmp import exports
from monkeytree.ecmp.label import FIRST_PORT, LAST_PORT
from monkeytree.ecmp.stage import Packet, choose, hash_value
from monkeytree.fabric_hash import HashStage

EXAMPLES = Path(__file__).parent.parent / "examples"
LEAF = HashStage("crc32", seed=5)
UPLINKS = 2
PROBES = 44
"""Ports a pair: what an affine fit takes, and a few more."""

START = datetime(2026, 11, 29, 6, tzinfo=UTC)
EVERY_S = 1800
SNAPSHOTS = 8
WORK: dict[str, dict[str, float]] = {
    "A": {"traffic_gb": 30.0, "iteration_s": 1.2, "remaining_s": 9 * 3600},
    "B": {"traffic_gb": 24.0, "iteration_s": 1.0, "remaining_s": 6 * 3600},
    "C": {"traffic_gb": 24.0, "iteration_s": 0.9, "remaining_s": 2 * 3600},
    "D": {"traffic_gb": 20.0, "iteration_s": 0.8, "remaining_s": 5 * 3600},
}
ARRIVES = {"D": 5}
"""Number of the first snapshot with it."""


def main() -> None:
    """Write both folders."""
    base = json.loads((EXAMPLES / "hand-02-seed-C.json").read_text("utf-8"))
    _steering(copy.deepcopy(base))
    _history(copy.deepcopy(base))


def _steering(document: dict[str, Any]) -> None:
    document["cluster"] = "steering"
    document["fabric"] = {"hash": {"leaf": {"algorithm": LEAF.algorithm, "seed": LEAF.seed}}}
    for number, rack in enumerate(document["racks"], 1):
        rack["nodes"] = {
            node: {"slots": slots, "addresses": [f"10.0.{number}.{at}"]}
            for at, (node, slots) in enumerate(rack["nodes"].items(), 1)
        }
    snapshot = monkeytree.load_snapshot(document)
    routes = exports.routes(snapshot, monkeytree.make_plan(snapshot))
    pairs = sorted({(route.src_ip, route.dst_ip) for route in routes})
    rng = random.Random(1)
    probes = [
        {"src": src, "dst": dst, "port": port, "hop": _hop(src, dst, port)}
        for src, dst in pairs
        for port in rng.sample(range(FIRST_PORT, LAST_PORT + 1), PROBES)
    ]
    folder = EXAMPLES / "steering"
    _write(folder / "snapshot.json", document)
    _write(folder / "hops.json", {f"10.9.{spine}.1": spine for spine in range(UPLINKS)})
    _write(folder / "probes.json", {"format": 1, "ttl": 2, "dscp": 0, "probes": probes})


def _hop(src: str, dst: str, port: int) -> str:
    return f"10.9.{choose(LEAF, hash_value(LEAF, Packet(src, dst, port)), UPLINKS)}.1"


def _history(document: dict[str, Any]) -> None:
    document["cluster"] = "history"
    jobs = {job["id"]: job for job in document["jobs"]}
    jobs["D"] = {"id": "D", "replica_groups": [{"id": "0", "workers": ["R2n3", "R2n4", "R3n5", "R4n2"]}]}
    for number in range(SNAPSHOTS):
        at = START + timedelta(seconds=number * EVERY_S)
        document["taken_at"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        document["jobs"] = [
            made for name, job in jobs.items() if (made := _running(job, WORK[name], number)) is not None
        ]
        _write(EXAMPLES / "history" / f"{at:%Y-%m-%dT%H%M}.json", document)


def _running(job: dict[str, Any], work: dict[str, float], number: int) -> dict[str, Any] | None:
    """The job as the snapshot of that number has it; None where it has not come, or has ended."""
    since = number - ARRIVES.get(job["id"], 0)
    left = work["remaining_s"] - since * EVERY_S
    if since < 0 or left <= 0:
        return None
    sends = {name: work[name] for name in ("traffic_gb", "iteration_s")}
    return {**job, "remaining_s": left, "replica_groups": [g | sends for g in job["replica_groups"]]}


def _write(path: Path, document: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document) + "\n", "utf-8")


if __name__ == "__main__":
    main()
