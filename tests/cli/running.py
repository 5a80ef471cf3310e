"""``monkeytree`` as a user runs it: a process with an exit code and two outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .serving import ROOT, environment

EXAMPLES = ROOT / "examples"
SEED_C = EXAMPLES / "hand-02-seed-C.json"


def monkeytree(
    *arguments: str | Path, stdin: str = "", cwd: Path = ROOT, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run it to its end; it may never print a traceback."""
    command = [sys.executable, "-m", "monkeytree.cli", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env=environment(**env), input=stdin, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stdout + done.stderr
    return done


def write(path: Path, document: Any) -> Path:
    """``document`` as JSON in ``path``."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def tiny(**planning: Any) -> dict[str, Any]:
    """A full cluster of two racks with one uplink each; two jobs lie across both, which a swap heals."""
    racks = [
        {"id": f"r{rack}", "uplinks": 1, "nodes": {f"r{rack}n{node}": 1 for node in (1, 2)}}
        for rack in (1, 2)
    ]
    jobs = [
        {"id": job, "replica_groups": [{"id": "0", "workers": [f"r1n{node}", f"r2n{node}"]}]}
        for job, node in (("A", 1), ("B", 2))
    ]
    taken_at = "2026-11-29T18:00:00Z"
    document = {"format": 1, "cluster": "tiny", "taken_at": taken_at, "racks": racks, "jobs": jobs}
    return {**document, "planning": planning} if planning else document


def hard(**planning: Any) -> dict[str, Any]:
    """A full cluster of 32 racks whose jobs are strewn over all of them: minutes for any solver."""
    racks = [
        {"id": f"r{rack}", "uplinks": 2, "nodes": {f"r{rack}n{node}": 1 for node in range(16)}}
        for rack in range(32)
    ]
    slots = [f"r{rack}n{node}" for node in range(16) for rack in range(32)]
    jobs: list[dict[str, Any]] = []
    at = 0
    while at < len(slots) - 13:
        size = 3 + (7 * len(jobs)) % 11
        jobs.append({"id": f"j{at}", "replica_groups": [{"id": "0", "workers": slots[at : at + size]}]})
        at += size
    document = {"format": 1, "cluster": "hard", "taken_at": "2026-11-29T18:00:00Z"}
    return {**document, "racks": racks, "jobs": jobs, "planning": planning}
