"""The examples that docs/steering.md, docs/savings.md and docs/slurm.md are to be tried with."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from .running import EXAMPLES, monkeytree, write
from .serving import ROOT

STEERING = EXAMPLES / "steering"


def test_a_plan_of_the_steering_example_has_its_ports(tmp_path: Path) -> None:
    snapshot, plan = STEERING / "snapshot.json", tmp_path / "plan.json"
    assert monkeytree("plan", snapshot, "--format", "json", "--output", plan).returncode == 0
    assert monkeytree("check", snapshot, plan).returncode == 0
    done = monkeytree("routes", snapshot, plan)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    assert all(line.startswith("10.0.") and int(line.rpartition("=")[2]) >= 49_152 for line in lines)


def test_its_hash_is_learned_from_its_probes(tmp_path: Path) -> None:
    snapshot = STEERING / "snapshot.json"
    done = monkeytree("probe", "learn", snapshot, STEERING / "probes.json", "--hops", STEERING / "hops.json")
    assert done.returncode == 0, done.stderr
    made = json.loads(snapshot.read_text())
    known, made["fabric"]["hash"] = made["fabric"]["hash"], json.loads(done.stdout)
    learned, plan = write(tmp_path / "learned.json", made), tmp_path / "plan.json"
    assert monkeytree("plan", learned, "--format", "json", "--output", plan).returncode == 0
    document = json.loads(plan.read_text())
    assert document["unsteered"] == []
    # The ports that were learned hold under the hash that gave the answers, by the checker's own code.
    made["fabric"]["hash"] = known
    truth = write(tmp_path / "truth.json", made)
    other = tmp_path / "other.json"
    monkeytree("plan", truth, "--format", "json", "--output", other)
    under = json.loads(other.read_text())
    ports = {_key(flow): flow for flow in document["flows"]}
    assert {flow["uplink"] for flow in under["flows"]} == {0, 1}
    for flow in under["flows"]:
        assert ports[_key(flow)]["uplink"] == flow["uplink"]
        for name in ("udp_source_port", "flow_label"):
            flow[name] = ports[_key(flow)][name]
    assert monkeytree("check", truth, write(tmp_path / "moved.json", under)).returncode == 0


def _key(flow: dict[str, object]) -> tuple[object, ...]:
    return tuple(flow[name] for name in ("job", "group", "ring", "from_rank", "to_rank"))


def test_the_history_has_something_to_save() -> None:
    done = monkeytree("savings", EXAMPLES / "history", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["cluster"], found["snapshots"]) == ("history", 8)
    assert all(rule["net_gpu_h"] > 1 and not rule["unpredicted_intervals"] for rule in found["rules"])


def test_the_answers_of_slurm_make_a_snapshot_to_plan(tmp_path: Path) -> None:
    site, now = tmp_path / "site.yaml", tmp_path / "now.json"
    site.write_text("racks: {uplinks: 2}\n")
    data = ROOT / "tests" / "data" / "slurm"
    done = monkeytree(
        "slurm", "snapshot", "--site", site, "--squeue", data / "live_squeue.json",
        "--sinfo", data / "live_sinfo.json", "--steps", data / "live_steps.txt",
        "--topology", data / "live_topology.conf", "-o", now,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert monkeytree("plan", now).stdout.startswith("optimal: 2 moves")


def test_the_files_are_those_of_the_tool(tmp_path: Path) -> None:
    """Run on a copy: what it writes is what is committed."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("*.pyc", "lingjun*"))
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "examples.py", tmp_path / "tools")
    for folder in ("steering", "history"):
        shutil.rmtree(tmp_path / "examples" / folder)
    subprocess.run([sys.executable, tmp_path / "tools" / "examples.py"], check=True, timeout=120)
    for folder in ("steering", "history"):
        made = {path.name: path.read_text() for path in (tmp_path / "examples" / folder).iterdir()}
        assert made == {path.name: path.read_text() for path in (EXAMPLES / folder).iterdir()}
