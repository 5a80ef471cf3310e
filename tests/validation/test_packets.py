"""The whole way on ns-3: small flows, a few CPU seconds. Left out where the simulator cannot be used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import monkeytree
from monkeytree.errors import MonkeyTreeError
from monkeytree.snapshot import Snapshot
from monkeytree.validation.grouping import Buffers
from monkeytree.validation.profiles import resolve
from monkeytree.validation.replay import Replay, replay
from monkeytree.validation.report import report
from monkeytree.validation.runner import prepare, run_scenario
from monkeytree.validation.scenario import traffic_before
from monkeytree.validation.simulate import Simulator
from monkeytree.validation.traffic import Knobs
from tests.cli.running import EXAMPLES, SEED_C, write
from tests.cli.running import monkeytree as command
from tests.cli.serving import ROOT, environment
from tests.validation.cases import crowded, job, small

PARAMS = {"profile": "dcqcn", "seed": 1}
SHORT = Knobs(flow_bytes=2_000_000)


@pytest.fixture(scope="module", autouse=True)
def _ns3() -> None:
    try:
        prepare()
    except MonkeyTreeError as error:
        pytest.skip(f"no packet simulator here: {error}")


def simulator(workers: int = 2, *, apart: bool = True, **params: Any) -> Simulator:
    given = {**PARAMS, **params}
    return Simulator(run_scenario, given, Buffers.of(resolve(given)), workers, 120.0, apart)


def played(snapshot: Snapshot, **options: Any) -> Replay:
    plan = monkeytree.make_plan(snapshot)
    return replay(snapshot, plan, SHORT, simulator(**options))


def test_isolated_after_the_plan_and_not_before() -> None:
    found = report(played(monkeytree.load_snapshot(SEED_C)), PARAMS)
    assert found["isolated"]
    assert found["runs"]["plan"]["slowdown"]["max"] < 1.01
    assert not found["runs"]["before"]["isolated"]
    assert not found["runs"]["ecmp"]["isolated"]
    assert 1.5 < found["runs"]["before"]["slowdown"]["max"] < 3


def test_the_number_of_processes_changes_nothing() -> None:
    snapshot = monkeytree.load_snapshot(EXAMPLES / "hand-10-one-move-two-racks.json")
    one, three = (report(played(snapshot, workers=n), PARAMS) for n in (1, 3))
    for found in (one, three):
        del found["plan_id"], found["cost"]
    assert one == three


@pytest.mark.parametrize("name", ["hand-02-seed-C", "hand-05-full-swap", "hand-10-one-move-two-racks"])
def test_apart_is_the_same_as_together_where_nothing_is_marked(name: str) -> None:
    snapshot = monkeytree.load_snapshot(EXAMPLES / f"{name}.json")
    apart, together = (played(snapshot, apart=apart).subject for apart in (True, False))
    assert together.outcome.parts <= apart.outcome.parts
    for one, other in zip(apart.flows, together.flows, strict=True):
        assert one.fct_ns == pytest.approx(other.fct_ns, rel=1e-3)


def test_apart_is_the_same_as_together_where_a_job_congests_itself() -> None:
    """PFC only, so that no draw is in it: one rack with an incast-like clash beside a quiet job."""
    snapshot = small(job("A", "0.0 1.0"), job("B", "0.1 1.1"), job("C", "0.2 0.3"), uplinks=1)
    traffic = traffic_before(snapshot, SHORT)
    apart, together = (
        simulator(profile="pfc_only", apart=apart).outcomes([traffic])[0] for apart in (True, False)
    )
    assert (apart.parts, together.parts) == (2, 1)
    for one, other in zip(apart.flows, together.flows, strict=True):
        assert one is not None
        assert other is not None
        assert one.fct_ns == pytest.approx(other.fct_ns, rel=1e-3)


def test_ring_steps_wait_for_each_other() -> None:
    snapshot = small(job("A", "0.0 1.0 1.1"))
    whole, stepped = (
        replay(snapshot, None, replace(SHORT, steps=steps), simulator()).subject for steps in (1, 4)
    )
    for one, four in zip(whole.flows, stepped.flows, strict=True):
        assert one.fct_ns is not None
        assert four.fct_ns is not None
        assert one.fct_ns < four.fct_ns < 2 * one.fct_ns
    assert stepped.isolated


def test_exit_codes(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    command("plan", SEED_C, "--format", "json", "--output", plan)
    short = ("--flow-mb", "1")
    files = {name: tmp_path / name for name in ("r.json", "r.xml", "r.svg")}
    done = command(
        "validate", SEED_C, plan, *short, "--json", files["r.json"], "--junit", files["r.xml"],
        "--plot", files["r.svg"],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "isolated: all 8 cross-rack flows" in done.stdout
    assert json.loads(files["r.json"].read_text("utf-8"))["isolated"]
    assert files["r.xml"].read_text("utf-8").startswith("<?xml")
    assert "<polyline" in files["r.svg"].read_text("utf-8")
    done = command("validate", SEED_C, *short, "--json", "-")
    assert done.returncode == 6, done.stderr
    assert json.loads(done.stdout)["claims_hold"] in (True, False)


def test_a_scenario_runs_as_given(tmp_path: Path) -> None:
    scenario: dict[str, Any] = {
        "format": 1,
        "hosts": 2,
        "switches": [2],
        "links": [[0, 2, 100, 1000], [1, 2, 100, 1000]],
        "flows": [{"id": "f", "src": 0, "dst": 1, "bytes": 1_000_000, "start_ns": 0, "path": None}],
        "params": {"profile": "dcqcn"},
    }
    done = command("validate", "--scenario", write(tmp_path / "s.json", scenario), "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["totals"]["finished"]
    assert result["flows"][0]["fct_ns"] > 80_000
    scenario["params"]["stop_us"] = 20
    done = command("validate", "--scenario", "-", "--json", "-", stdin=json.dumps(scenario))
    assert done.returncode == 7, done.stderr
    assert json.loads(done.stdout)["flows"][0]["fct_ns"] is None
    scenario["links"] = []
    assert command("validate", "--scenario", "-", stdin=json.dumps(scenario)).returncode == 2


def test_two_jobs_on_one_uplink_are_slowed_about_twice() -> None:
    found = replay(crowded(), None, Knobs(flow_bytes=10_000_000), simulator()).subject
    assert not found.isolated
    for verdict in found.crossing:
        assert verdict.slowdown is not None
        assert 1.6 < verdict.slowdown < 2.8
        assert verdict.predicted == pytest.approx(2.0)


@pytest.mark.parametrize("more", [[], ["--json", "-"]])
def test_a_reader_that_has_left_ends_it_as_other_commands(tmp_path: Path, more: list[str]) -> None:
    picture = tmp_path / "r.svg"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "monkeytree.cli", "validate", str(SEED_C), "--flow-mb", "0.5",
         "--plot", str(picture), *more],
        cwd=ROOT, env=environment(), stdout=writer, stderr=subprocess.PIPE, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode == 141, done.stderr
    assert picture.read_text().startswith("<svg")


def test_a_disk_that_is_full_takes_no_verdict_along() -> None:
    done = command("validate", SEED_C, "--flow-mb", "0.5", "--json", "/dev/full")
    assert done.returncode == 2
    assert "cannot use /dev/full: No space left" in done.stderr
    assert done.stdout.startswith("not isolated: ")
