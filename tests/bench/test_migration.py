"""The benchmark of moves: what was sent has arrived, and the pictures are drawn from a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import migration, migration_figures
from monkeytree.agent.arena import Arena


@pytest.mark.parametrize("way", migration.WAYS)
def test_a_measured_transfer_carries_every_byte(way: str) -> None:
    source, target = (Arena.create([("state", 3_000_001)]) for _ in range(2))
    source.view("state")[:] = bytes(range(256)) * 11_718 + b"end".rjust(193)
    rate = migration._measure(source, target, migration.WAYS[way])
    assert target.view("state") == source.view("state")
    assert rate.gbytes_s > 0


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    phases = [
        {"side": side, "name": name, "started_at": 100.0 + number / 10, "seconds": 0.1}
        for side in ("source", "destination")
        for number, name in enumerate(["ARMED", "PAUSED", "SENDING", "VERIFIED", "DECIDED", "REFORMED"])
    ]
    report = {"phases": phases, "pause_s": 0.5, "wire_s": 0.1, "state_gb": 1.0, "beyond_wire_s_per_gb": 0.4}
    migration_figures.timeline(report, tmp_path / "a" / "timeline.svg")
    assert "verified" in (tmp_path / "a" / "timeline.svg").read_text()
    curve = [
        {"ranks": ranks, "pause_s": [0.1, 0.2], "reformed_s": [0.05], "wire_s": [0.001]}
        for ranks in (2, 4, 8)
    ]
    migration_figures.by_ranks(curve, tmp_path / "ranks.svg")
    assert "gloo ranks" in (tmp_path / "ranks.svg").read_text()
