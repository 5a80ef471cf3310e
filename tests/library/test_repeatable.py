"""A repeatable plan depends on no clock: a machine a thousand times slower finds the same one."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

import monkeytree

INSTANCES = Path(__file__).parent.parent / "data" / "instances"
NAMES = sorted(file.name for file in INSTANCES.glob("*.json") if "expect" not in file.name)
SMALL = [name for name in NAMES if (INSTANCES / name).stat().st_size < 60_000 and "cold" not in name]


@pytest.mark.parametrize("name", SMALL)
def test_a_slower_machine_finds_the_same_plan(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = monkeytree.load_snapshot(INSTANCES / name)
    here = monkeytree.make_plan(snapshot, plan_id="p", repeatable=True, time_limit_s=1e6)
    real, start = time.monotonic, time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: start + 1000 * (real() - start))
    there = monkeytree.make_plan(snapshot, plan_id="p", repeatable=True, time_limit_s=1e6)
    monkeypatch.undo()
    assert there.moves == here.moves
    assert there.rings == here.rings
    assert there.flows == here.flows
    assert monkeytree.check(snapshot, here) == []
    assert here.moves_needed == monkeytree.make_plan(snapshot).moves_needed


def test_a_cap_holds_in_it_too() -> None:
    snapshot = monkeytree.load_snapshot(INSTANCES / "hand-02-seed-C.json")
    capped = replace(snapshot, planning=replace(snapshot.planning, max_moves=1))
    plan = monkeytree.make_plan(capped, repeatable=True)
    assert (plan.moves_needed, plan.excess, plan.limited_by) == (0, 1, "max_moves")  # one move helps nothing
    assert monkeytree.check(capped, plan) == []
