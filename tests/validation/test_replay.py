"""Verdicts, controls and reports, on the stand-in for the packet simulator."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

import monkeytree
from monkeytree.snapshot import Snapshot
from monkeytree.validation.junit import junit
from monkeytree.validation.plot import plot
from monkeytree.validation.replay import Replay, replay
from monkeytree.validation.report import report
from monkeytree.validation.table import print_report
from monkeytree.validation.traffic import Knobs
from tests.validation.cases import crowded, document, job, simulator, small
from tests.validation.fluid import Fluid
from tests.wire.samples import snapshots

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SVG = "{http://www.w3.org/2000/svg}"


def played(
    snapshot: Snapshot, *, planned: bool = True, knobs: Knobs | None = None, run: Fluid | None = None
) -> Replay:
    plan = monkeytree.make_plan(snapshot) if planned else None
    return replay(snapshot, plan, knobs or Knobs(), simulator(run, sample_us=5.0))


def told(found: Replay) -> dict[str, Any]:
    """The report, as it is read back from JSON."""
    read: dict[str, Any] = json.loads(json.dumps(report(found, {"profile": "dcqcn"}), allow_nan=False))
    return read


@pytest.mark.parametrize("name", ["hand-02-seed-C", "hand-05-full-swap", "hand-10-one-move-two-racks"])
def test_an_example_is_isolated_after_its_plan_and_not_before(name: str) -> None:
    found = told(played(monkeytree.load_snapshot(EXAMPLES / f"{name}.json")))
    assert found["isolated"]
    assert found["claims_hold"]
    assert found["reasons"] == []
    assert not found["runs"]["before"]["isolated"]
    assert found["runs"]["before"]["slowdown"]["max"] > 1.9
    assert (found["runs"]["plan"]["slowdown"]["max"] or 1.0) < 1.0001
    assert len(found["flows"]) == found["runs"]["plan"]["cross_rack_flows"]


def test_a_placement_as_it_stands_is_judged_flow_by_flow() -> None:
    found = told(played(crowded(), planned=False))
    assert (found["plan_id"], found["isolated"], found["claims_hold"]) == (None, False, True)
    assert set(found["runs"]) == {"placement", "ecmp"}
    assert found["runs"]["placement"]["racks"] == [
        {"rack": rack, "rail": 0, "bound": 1, "flows": 2, "slowed_out": 2, "slowed_in": 2}
        for rack in ("r0", "r1")
    ]
    assert {flow["claimed"] for flow in found["flows"]} == {False}
    assert found["reasons"][0].startswith("4 cross-rack flows are slowed, ")


def test_flows_of_one_job_that_meet_each_other_are_slowed_too() -> None:
    """Measured against the job alone as it runs here, they would look fine."""
    found = told(played(small(job("A", "0.0 1.0", rings=2), uplinks=1), planned=False))
    assert [flow["slowdown"] for flow in found["flows"]] == pytest.approx([2.0] * 4, rel=0.02)


def test_the_prediction_stands_beside_the_measure() -> None:
    for flow in told(played(crowded(), planned=False))["flows"]:
        assert flow["predicted_slowdown"] == pytest.approx(2.0)
        assert flow["flow_model_error"] == pytest.approx(2.0 / flow["slowdown"] - 1)


def test_a_pause_on_the_way_breaks_isolation() -> None:
    """Two 400 Gb/s flows fit an 800 Gb/s uplink, but the stand-in pauses whatever meets."""
    snapshot = small(
        job("A", "0.0 1.0"), job("B", "0.1 1.1"), uplinks=1, fabric={"nic_gbps": 400, "uplink_gbps": 800}
    )
    assert told(played(snapshot))["isolated"]
    found = told(played(snapshot, run=Fluid(pausing=True)))
    assert not found["isolated"]
    assert not found["claims_hold"]
    assert all(flow["paused"] and flow["slowdown"] < 1.001 for flow in found["flows"])


@pytest.mark.parametrize(
    ("run", "reason"),
    [(Fluid(drops=2), "2 packets were dropped"), (Fluid(finished=False), "did not run to its end")],
)
def test_losses_and_unfinished_runs_break_isolation(run: Fluid, reason: str) -> None:
    found = told(played(small(job("A", "0.0 1.0")), run=run))
    assert not found["isolated"]
    assert reason in "; ".join(found["reasons"])


def test_a_flow_without_a_way_breaks_isolation() -> None:
    found = told(played(small(job("A", "0.0 1.0")), knobs=Knobs(dead=(("r0", 0), ("r0", 1)))))
    assert not found["isolated"]
    assert found["reasons"] == ["2 cross-rack flows have no live way"]


def test_the_prediction_knows_of_steps() -> None:
    found = told(played(crowded(), planned=False, knobs=Knobs(steps=3)))
    assert {round(flow["predicted_slowdown"], 6) for flow in found["flows"]} == {2.0}
    assert max(abs(flow["flow_model_error"]) for flow in found["flows"]) < 0.01


def test_a_failed_uplink_shows() -> None:
    snapshot = small(job("A", "0.0 1.0"), job("B", "0.1 1.1"))
    assert told(played(snapshot))["isolated"]
    found = told(played(snapshot, knobs=Knobs(dead=(("r0", 0),))))
    assert not found["isolated"]
    assert found["traffic"]["failed_uplinks"] == [{"rack": "r0", "uplink": 0}]


def test_junit_counts_what_failed() -> None:
    root = ElementTree.fromstring(junit(told(played(crowded(), planned=False))))
    assert (root.get("tests"), root.get("failures")) == ("5", "4")
    cases = root.findall("testsuite/testcase")
    assert len(cases) == 5
    assert len([case for case in cases if case.find("failure") is not None]) == 4
    failure = cases[0].find("failure")
    assert failure is not None
    assert "times slower than its job alone (at most 1.05)" in str(failure.get("message"))
    names = {row.get("name") for row in root.findall("testsuite/properties/property")}
    assert {"plan_id", "placement.slowdown_max", "ecmp.pauses"} <= names


def test_junit_fails_where_no_flow_is_to_blame() -> None:
    root = ElementTree.fromstring(junit(told(played(small(job("A", "0.0 1.0")), run=Fluid(drops=1)))))
    assert root.get("failures") == "1"
    failure = root.find("testsuite/testcase[@classname='fabric']/failure")
    assert failure is not None
    assert "dropped" in str(failure.text)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots(), st.floats(0, 1), st.floats(0, 1))
def test_every_report_can_be_written_in_every_form(
    snapshot: Snapshot, share: float, background: float
) -> None:
    found = played(snapshot, planned=False, knobs=Knobs(ecmp_share=share, background=background))
    document = told(found)
    assert document["isolated"] == all(flow["isolated"] for flow in document["flows"])
    assert ElementTree.fromstring(junit(document)).get("tests") == str(len(document["flows"]) + 1)
    assert ElementTree.fromstring(plot(found, 5.0)).tag == f"{SVG}svg"
    print_report(Console(file=io.StringIO(), width=120), document)


def words(found: Replay) -> str:
    """What people are told."""
    console = Console(file=io.StringIO(), width=1000)
    document = told(found)
    print_report(console, document)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue() + str(junit(document), "utf-8")


def test_nothing_is_said_of_the_claims_of_a_plan_that_there_is_not() -> None:
    said = words(played(crowded(), planned=False))
    assert "not isolated: 4 cross-rack flows are slowed" in said
    assert "plan" not in said.split("Slowdown of cross-rack")[0]
    assert "claim it" not in said


def test_flows_that_were_left_to_hashes_are_not_said_to_be_listed_by_the_plan() -> None:
    jobs = (job(name, f"0.{at} 1.{at}") for at, name in enumerate("ABCD"))
    snapshot = small(*jobs, uplinks=8)
    some = next(
        found
        for found in (played(snapshot, knobs=Knobs(ecmp_share=0.5, seed=seed)) for seed in range(99))
        if not found.subject.isolated and found.subject.claims_hold
        and any(verdict.flow.claimed for verdict in found.subject.crossing)
    )  # fmt: skip
    said = words(some)
    assert "left to the switches' hash: what the plan claims of the others, holds" in said
    assert "lists as sharing" not in said
    assert "does not claim it" not in said
    for seed in range(99):
        found = played(snapshot, knobs=Knobs(ecmp_share=1.0, seed=seed))
        if not found.subject.isolated:
            assert "what it claims, was not tested" in words(found)
            return
    raise AssertionError("no seed has flows collide")


def test_names_are_no_markup() -> None:
    odd = document(job("[bold]A</svg>&\ufffe", "0.0 1.0"), job("B", "0.1 1.1"), uplinks=1)
    for rack in odd["racks"]:
        rack["id"] = f"<[red]{rack['id']}&\uffff"
    found = played(monkeytree.load_snapshot(odd), planned=False)
    out = io.StringIO()
    print_report(Console(file=out, width=200), told(found))
    assert "[bold]A</svg>&" in out.getvalue()
    assert "&lt;[red]r0&amp;\ufffd" in plot(found, 5.0)
    ElementTree.fromstring(junit(told(found)))


def test_the_plot_has_a_panel_for_each_uplink_in_use() -> None:
    root = ElementTree.fromstring(plot(played(crowded(), planned=False), 5.0))
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert "leaf r0 to spine 0" in words
    assert "leaf r1 to spine 0" in words
    assert len(root.findall(f"{SVG}polyline")) == 8  # rate and queue, two uplinks, as it stands and on ECMP


def test_a_plan_without_moves_still_has_its_controls() -> None:
    found = told(played(small(job("A", "0.0 1.0"), job("B", "0.1 1.1"))))
    assert set(found["runs"]) == {"plan", "ecmp", "before"}
    assert found["runs"]["before"]["isolated"]


def test_the_same_twice_is_the_same_document() -> None:
    snapshot = crowded()
    plan = monkeytree.make_plan(snapshot)
    one, other = (
        report(replay(snapshot, plan, Knobs(), replace(simulator(), workers=n)), {}) for n in (1, 4)
    )
    assert one == other
