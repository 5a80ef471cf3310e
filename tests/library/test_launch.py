"""Launcher files: a launcher that reads them line by line gets the plan's rings, and with them its f_t."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import monkeytree
from monkeytree.launch import ImpossibleLaunch, hostfile, processes, slurm_hostfile, torchrun_ranks
from monkeytree.plan import Plan
from monkeytree.snapshot import Snapshot

from .support import INSTANCES, planned

EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("hand-*.json"))
SMALL = [*EXAMPLES, *(path for path in sorted(INSTANCES.glob("hand-*.json")) if ".expect" not in path.name)]


def launched_degrees(snapshot: Snapshot, files: dict[str, str]) -> Counter[tuple[str, int]]:
    """f_t of every (rack, rail), counted from what a launcher reads: a host a line, in order."""
    degrees: Counter[tuple[str, int]] = Counter()
    rails = snapshot.fabric.rails
    for job in snapshot.jobs:
        hosts = files[job.id].splitlines()
        for group in job.replica_groups:
            count = len(group.workers) * group.slots_per_worker
            mine, hosts = hosts[:count], hosts[count:]
            ring = [snapshot.rack_of[host].id for host in mine[:: group.slots_per_worker]]
            for here, following in zip(ring, ring[1:] + ring[:1], strict=True):
                for number in range(group.rings if here != following else 0):
                    degrees[here, number % rails] += 1
        assert hosts == []
    return degrees


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_a_launcher_that_reads_the_file_gets_the_plans_fragmentation_degrees(path: Path) -> None:
    snapshot = monkeytree.load_snapshot(path)
    plan = monkeytree.make_plan(snapshot, solver="search")
    files = {job.id: slurm_hostfile(processes(snapshot, plan, job.id)) for job in snapshot.jobs}
    degrees = launched_degrees(snapshot, files)
    for rack, load in plan.racks.items():
        assert [degrees[rack, rail] for rail in range(len(load.after))] == list(load.after)


def document(workers: list[str], **group: Any) -> dict[str, Any]:
    """One job on four nodes in two racks, with room."""
    racks = [{"id": rack, "uplinks": 8, "nodes": {f"{rack}n{i}": 4 for i in (1, 2)}} for rack in ("r1", "r2")]
    groups = [{"id": "0", "workers": workers, **group}]
    return {
        "format": 1, "cluster": "c", "taken_at": "2026-01-01T00:00:00Z", "racks": racks,
        "jobs": [{"id": "A", "mobility": "none", "replica_groups": groups}],
    }  # fmt: skip


def launch(content: dict[str, Any]) -> tuple[Snapshot, Plan]:
    return monkeytree.load_snapshot(content), planned(content)


def test_workers_of_several_slots_start_a_process_a_slot() -> None:
    snapshot, plan = launch(document(["r1n1", "r2n1"], slots_per_worker=2))
    placed = processes(snapshot, plan, "A")
    assert [(one.rank, one.worker, one.node, one.local_rank) for one in placed] == [
        (0, 0, "r1n1", 0),
        (1, 0, "r1n1", 1),
        (2, 1, "r2n1", 0),
        (3, 1, "r2n1", 1),
    ]
    assert hostfile(placed) == "r1n1 slots=2\nr2n1 slots=2\n"
    assert torchrun_ranks(placed) == "r1n1 0 2\nr2n1 1 2\n"


def test_an_order_of_its_own_is_kept() -> None:
    snapshot, plan = launch(document(["r1n1", "r1n2", "r2n1"], order=[2, 0, 1]))
    assert [one.worker for one in processes(snapshot, plan, "A")] == list(plan.rings[0].order)
    assert slurm_hostfile(processes(snapshot, plan, "A")) == "r2n1\nr1n1\nr1n2\n"


def test_a_node_that_comes_back_is_named_where_the_form_cannot_say_it() -> None:
    snapshot, plan = launch(document(["r1n1", "r1n2", "r1n1"], order_fixed=True))
    placed = processes(snapshot, plan, "A")
    assert slurm_hostfile(placed) == "r1n1\nr1n2\nr1n1\n"
    for form in (hostfile, torchrun_ranks):
        with pytest.raises(ImpossibleLaunch, match=r"node 'r1n1' comes back.*--format slurm"):
            form(placed)
    with pytest.raises(ImpossibleLaunch, match="no job 'B'"):
        processes(snapshot, plan, "B")


def test_moved_workers_start_at_their_new_nodes() -> None:
    snapshot = monkeytree.load_snapshot(EXAMPLES[0])
    plan = monkeytree.make_plan(snapshot, solver="search")
    assert plan.moves
    for move in plan.moves:
        here = [
            one
            for one in processes(snapshot, plan, move.job)
            if (one.group, one.worker) == (move.group, move.rank)
        ]
        assert {one.node for one in here} == {move.target}


def test_json_is_strict(tmp_path: Path) -> None:
    from tests.cli.running import monkeytree as command

    path, made = tmp_path / "snapshot.json", tmp_path / "plan.json"
    path.write_text(json.dumps(document(["r1n1", "r1n2", "r1n1"], order_fixed=True)), "utf-8")
    assert command("plan", path, "--format", "json", "--output", made).returncode == 0
    assert command("ranks", path, made).stdout == "r1n1\nr1n2\nr1n1\n"
    rows = json.loads(command("ranks", path, made, "--format", "json").stdout)
    assert rows[2] == {"rank": 2, "group": "0", "worker": 2, "node": "r1n1", "local_rank": 1}
    refused = command("ranks", path, made, "--format", "torchrun")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "impossible_launch" in refused.stderr
    foreign = command("ranks", EXAMPLES[0], made, "--job", "A")
    assert foreign.returncode == 2
    assert "made for another snapshot" in foreign.stderr
    wrong = json.loads(made.read_text("utf-8"))
    wrong["rings"][0]["order"] = [0, 0, 7]
    made.write_text(json.dumps(wrong), "utf-8")
    broken = command("ranks", path, made)
    assert (broken.returncode, broken.stdout, "does not hold" in broken.stderr) == (2, "", True)
