"""The expected snapshots: ``python -m tests.slurm.golden`` writes them anew, to be checked by hand."""

from __future__ import annotations

import json
from typing import Any

from monkeytree.identity import dump_snapshot
from monkeytree.slurm.build import build_snapshot

from .samples import DATA, SETS, reading, site

GOLDEN = DATA / "golden"


def golden_document(name: str) -> dict[str, Any]:
    """Snapshot, warnings and what was left out, as plain data."""
    built = build_snapshot(reading(name), site())
    return {
        "snapshot": dump_snapshot(built.snapshot),
        "warnings": list(built.warnings),
        "left_out": dict(built.left_out),
    }


def main() -> None:
    """Write them all."""
    GOLDEN.mkdir(exist_ok=True)
    for name in SETS:
        text = json.dumps(golden_document(name), indent=1)
        (GOLDEN / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
