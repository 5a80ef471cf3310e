"""``monkeytree savings`` as an operator runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .running import monkeytree, tiny, write


def told(minute: int) -> dict[str, Any]:
    """Two jobs that share an uplink, with all that a prediction needs."""
    document = {**tiny(solver="search"), "taken_at": f"2026-11-29T18:{minute:02d}:00Z"}
    for job in document["jobs"]:
        job["remaining_s"] = 3600
        job["replica_groups"][0].update(traffic_gb=50, iteration_s=4)
    return document


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for minute in (0, 30, 59):
        write(tmp_path / f"{minute}.json", told(minute))
    return tmp_path


def test_json_has_every_rule(folder: Path) -> None:
    write(folder / "other.json", {"no": "snapshot"})
    done = monkeytree(
        "savings", folder, "--json", "--rule", "worthwhile", "--rule", "threshold:1", "--rule", "worthwhile"
    )
    assert done.returncode == 0, done.stderr
    assert "left out" in done.stderr
    answer = json.loads(done.stdout)
    assert (answer["cluster"], answer["snapshots"]) == ("tiny", 3)
    assert [row["rule"] for row in answer["rules"]] == ["worthwhile", "threshold:1"]
    for row in answer["rules"]:
        assert (row["plans"], row["moves"], row["unpredicted_intervals"]) == (1, 2, 0)
        assert row["saved_gpu_h"] == pytest.approx(4 * 59 / 60 * (1 - 1 / (1 + 22 / 73 / 4)))
        assert row["net_gpu_h"] == pytest.approx(row["saved_gpu_h"] - row["lost_gpu_h"])


def test_the_table_is_for_people(folder: Path) -> None:
    done = monkeytree("savings", folder)
    assert done.returncode == 0
    assert "always" in done.stdout
    assert "worthwhile" in done.stdout


def test_the_data_of_a_service_will_do(tmp_path: Path) -> None:
    from monkeytree.adapters.rows import SnapshotRow
    from monkeytree.adapters.settings import Settings
    from monkeytree.adapters.store import Store
    from monkeytree.snapshot import Planning

    data = tmp_path / "data"
    data.mkdir()
    settings = Settings.from_env({"REDIS_URL": "redis://localhost", "MONKEYTREE_DATA": str(data)})
    store = Store(settings.database_url)
    store.create()
    for minute in (0, 30):
        at = 1_700_000_000.0 + minute
        row = SnapshotRow(f"{minute:064d}", "tiny", taken_at=at, sequence=None, received_at=at)
        store.submit(row, json.dumps(told(minute)).encode(), Planning())
    done = monkeytree("savings", "tiny", "--data", data, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["snapshots"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "--data", "no-data"], "is no folder"),
        (["{folder}", "--rule", "threshold:0"], "is no rule"),
        (["{folder}", "--cluster", "east"], "holds no snapshot of cluster 'east'"),
        (["tiny", "--server", "http://127.0.0.1:9"], "cannot be asked"),
    ],
)
def test_wrong_use_is_told(folder: Path, arguments: list[str], words: str) -> None:
    done = monkeytree("savings", *(argument.format(folder=folder) for argument in arguments))
    assert done.returncode == 2
    assert words in done.stderr.replace("\n", " ")
    assert done.stdout == ""


def test_one_snapshot_is_no_history(tmp_path: Path) -> None:
    write(tmp_path / "one.json", told(0))
    done = monkeytree("savings", tmp_path)
    assert done.returncode == 2
    assert "no history" in done.stderr
