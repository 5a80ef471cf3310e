"""What a plan says that it saves and loses."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import monkeytree
from monkeytree.plan import Plan, Predicted
from monkeytree.predict import slowdowns

from .samples import STRETCH, Document, shared, told_at_random

PAUSE_S = 9.02 + 8 / 400


def planned(document: Document) -> Plan:
    snapshot = monkeytree.load_snapshot(document)
    plan = monkeytree.make_plan(snapshot)
    assert monkeytree.check(snapshot, plan) == []
    return plan


def test_two_jobs_on_one_uplink() -> None:
    # Each job's neighbour delays it for the part of the time that it sends. A swap brings each job into one
    # rack, and pauses both.
    plan = planned(shared())
    assert plan.moves_needed == 2
    assert plan.predicted is not None
    assert plan.predicted.saved_gpu_s == pytest.approx(2 * 2 * 1000 * STRETCH / 4)
    assert plan.predicted.lost_gpu_s == pytest.approx(2 * 2 * PAUSE_S)
    assert plan.worthwhile is True


def test_hashing_and_spreading_share_differently() -> None:
    # 3 flows on 2 uplinks. Hashed, either other flow is a neighbour with chance 1/2; spread, only all
    # three at once are too many; folded, two of the three flows have one neighbour.
    for routing, part, power in (("steered", 2 / 3, 1), ("ecmp", 1, 1), ("adaptive", 1 / 2, 2)):
        lateness = 0.0
        for _ in range(3):  # a job that is late sends for longer, which makes the others later
            lateness = part * ((1 + lateness) / (4 + lateness)) ** power
        document = shared(routing=routing, uplinks=2, jobs=3)
        now = slowdowns(monkeytree.load_snapshot(document))
        assert set(now) == {"J0", "J1", "J2"}
        assert now["J0"] == pytest.approx(1 + lateness / 4)


def test_a_compliant_placement_has_nothing_to_save() -> None:
    plan = planned(shared(uplinks=2))
    assert (plan.status, plan.predicted, plan.worthwhile) == ("compliant", Predicted(0.0, 0.0), False)


def test_jobs_that_end_soon_are_left_alone() -> None:
    document = shared(trigger="worthwhile")
    for job in document["jobs"]:
        job["remaining_s"] = 100
    plan = planned(document)
    assert plan.moves_needed == 2  # the plan is made as always
    assert plan.worthwhile is False


@pytest.mark.parametrize("member", ["remaining_s", "traffic_gb", "iteration_s"])
def test_what_is_not_told_is_not_predicted(member: str) -> None:
    document = shared()
    job = document["jobs"][1]
    (job if member in job else job["replica_groups"][0]).pop(member)
    plan = planned(document)
    assert plan.predicted is not None
    assert plan.predicted.saved_gpu_s is None
    assert plan.predicted.lost_gpu_s == pytest.approx(2 * 2 * PAUSE_S)
    assert plan.worthwhile is None


def test_a_job_that_shares_nothing_need_not_tell() -> None:
    document = shared()
    document["racks"][0]["nodes"]["spare"] = 2
    document["jobs"].append({"id": "Q", "replica_groups": [{"id": "0", "workers": ["spare", "spare"]}]})
    assert planned(document).worthwhile is True


def test_draining_is_an_order_and_no_bargain() -> None:
    document = shared(uplinks=2)
    document["racks"][1]["nodes"].update({"r2n0": {"slots": 1, "drain": True}, "r2n9": 1})
    plan = planned(document)
    assert plan.moves_needed == 1
    assert plan.worthwhile is True


def test_flows_without_an_uplink_have_no_slowdown() -> None:
    document = shared(uplinks=2)
    document["racks"][0]["uplinks"] = 0
    document["jobs"].pop()
    plan = planned(document)
    assert plan.predicted is not None
    assert plan.predicted.saved_gpu_s is None


def test_the_document_carries_it() -> None:
    snapshot = monkeytree.load_snapshot(shared())
    plan = monkeytree.make_plan(snapshot)
    document = monkeytree.dump_plan(plan)
    assert set(document["predicted"]) == {"saved_gpu_s", "lost_gpu_s"}
    assert monkeytree.load_plan(document) == plan
    older = {name: value for name, value in document.items() if name not in ("predicted", "worthwhile")}
    read = monkeytree.load_plan(older)
    assert (read.predicted, read.worthwhile) == (None, None)
    assert monkeytree.check(snapshot, read) == []


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_the_longer_the_jobs_run_the_more_is_saved(one: float, other: float) -> None:
    shorter, longer = sorted((one, other))
    saved = []
    for remaining_s in (shorter, longer):
        document = shared()
        for job in document["jobs"]:
            job["remaining_s"] = remaining_s
        predicted = monkeytree.make_plan(monkeytree.load_snapshot(document)).predicted
        assert predicted is not None
        assert predicted.saved_gpu_s is not None
        saved.append(predicted.saved_gpu_s)
    assert 0 <= saved[0] <= saved[1]
    assert saved[1] == pytest.approx(longer * 2 * 2 * STRETCH / 4)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**9))
def test_the_checker_comes_to_the_same_figures(seed: int) -> None:
    snapshot = told_at_random(seed)
    plan = monkeytree.make_plan(snapshot)
    assert monkeytree.check(snapshot, plan) == []
    predicted = plan.predicted
    assert predicted is not None
    if plan.excess == 0 and snapshot.fabric.routing == "steered" and predicted.saved_gpu_s is not None:
        assert predicted.saved_gpu_s >= 0  # nothing is slowed after it
    wrong = replace(plan, predicted=replace(predicted, lost_gpu_s=predicted.lost_gpu_s + 1))
    assert "wrong_prediction" in {fault.code for fault in monkeytree.check(snapshot, wrong)}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**9), st.floats(1, 3))
def test_more_traffic_slows_more(seed: int, factor: float) -> None:
    document: dict[str, Any] = monkeytree.dump_snapshot(told_at_random(seed))
    heavier = deepcopy(document)
    for job in heavier["jobs"]:
        for group in job["replica_groups"]:
            group["traffic_gb"] = factor * group.get("traffic_gb", 1.0)
            group["iteration_s"] = group.get("iteration_s", 1.0)
    for job in document["jobs"]:
        for group in job["replica_groups"]:
            group.setdefault("traffic_gb", 1.0)
            group.setdefault("iteration_s", 1.0)
    slow = slowdowns(monkeytree.load_snapshot(document))
    slower = slowdowns(monkeytree.load_snapshot(heavier))
    assert all(1 <= slow[job] <= slower[job] + 1e-9 for job in slow)


def test_hashed_flows_of_a_leaf_that_has_lost_its_uplinks_are_not_predicted() -> None:
    document = shared(routing="ecmp", uplinks=0, jobs=1)
    document["fabric"]["uplink_gbps"] = 800  # one flow would fit on an uplink twice, but there is none
    document["racks"][0]["nodes"]["r1n9"] = 1
    snapshot = monkeytree.load_snapshot(document)
    plan = monkeytree.make_plan(snapshot)
    assert plan.moves
    assert plan.predicted is not None
    assert plan.predicted.saved_gpu_s is None
    assert monkeytree.check(snapshot, plan) == []


def test_the_largest_figures_there_are_can_be_written_and_read() -> None:
    document = shared()
    for job in document["jobs"]:
        job["remaining_s"] = 1e9
        job["replica_groups"][0].update(iteration_s=1e-6, traffic_gb=1e6)
    snapshot = monkeytree.load_snapshot(document)
    read = monkeytree.load_plan(monkeytree.dump_plan(monkeytree.make_plan(snapshot)))
    assert read.predicted is not None
    assert (read.predicted.saved_gpu_s or 0) > 1e19
    assert monkeytree.check(snapshot, read) == []
