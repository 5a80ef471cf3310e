"""Model objects are checked as the documents they are written as, identity included."""

from __future__ import annotations

from dataclasses import replace

import pytest

import monkeytree
from monkeytree.checker import check
from monkeytree.plan import Plan
from monkeytree.snapshot import Snapshot

from .cases import CASES


def models(case: str) -> tuple[Snapshot, Plan]:
    snapshot_document, plan_document = CASES[case]()
    snapshot = monkeytree.load_snapshot(snapshot_document)
    plan_document["snapshot_id"] = monkeytree.snapshot_id(snapshot)
    return snapshot, monkeytree.load_plan(plan_document)


@pytest.mark.parametrize("case", CASES)
def test_models_that_hold_have_no_fault(case: str) -> None:
    snapshot, plan = models(case)
    assert monkeytree.check(snapshot, plan) == []


@pytest.mark.parametrize("case", CASES)
def test_models_and_documents_may_be_mixed(case: str) -> None:
    snapshot, plan = models(case)
    assert check(monkeytree.dump_snapshot(snapshot), plan) == []
    assert check(snapshot, monkeytree.dump_plan(plan)) == []


def test_a_plan_of_another_snapshot_is_named() -> None:
    snapshot, plan = models("moved")
    faults = check(snapshot, replace(plan, snapshot_id="0" * 64))
    assert [(fault.code, fault.pointer) for fault in faults] == [("wrong_snapshot", "/snapshot_id")]


def test_a_fault_of_a_model_is_found() -> None:
    snapshot, plan = models("moved")
    faults = check(snapshot, replace(plan, pause_s=1.0))
    assert [fault.code for fault in faults] == ["wrong_pause"]
