"""Plans that hold have no faults."""

from __future__ import annotations

import copy

import pytest

from monkeytree.checker import check

from .cases import CASES


@pytest.mark.parametrize("case", CASES)
def test_a_right_plan_has_no_fault(case: str) -> None:
    snapshot, plan = CASES[case]()
    assert check(snapshot, plan) == []


@pytest.mark.parametrize("case", CASES)
def test_checking_changes_neither_document(case: str) -> None:
    snapshot, plan = CASES[case]()
    kept = copy.deepcopy((snapshot, plan))
    check(snapshot, plan)
    assert (snapshot, plan) == kept


def test_members_the_reader_does_not_know_are_ignored() -> None:
    snapshot, plan = CASES["moved"]()
    plan["news"] = {"any": "thing"}
    plan["moves"][0]["news"] = 1
    plan["certificate"] = {"kind": "unknown"}
    assert check(snapshot, plan) == []


def test_feasible_is_optimal_without_the_proof() -> None:
    snapshot, plan = CASES["moved"]()
    plan.update(status="feasible", lower_bound=None, limited_by="time")
    assert check(snapshot, plan) == []


def test_racks_that_comply_all_along_may_be_left_out() -> None:
    snapshot, plan = CASES["moved"]()
    del plan["racks"]["r3"]
    assert check(snapshot, plan) == []


def test_flows_that_are_not_steered_may_share_where_it_is_said() -> None:
    snapshot, plan = CASES["spread"]()
    snapshot["fabric"] = {"routing": "ecmp"}
    for flow in plan["flows"]:
        flow["uplink"] = 0
    shared = ((rack, direction) for rack in ("r1", "r2") for direction in ("up", "down"))
    plan["shared_uplinks"] = [
        {"rack": rack, "rail": 0, "uplink": 0, "direction": direction, "flows": flows}
        for (rack, direction), flows in zip(shared, ([0, 2], [1, 3], [1, 3], [0, 2]), strict=True)
    ]
    assert check(snapshot, plan) == []
