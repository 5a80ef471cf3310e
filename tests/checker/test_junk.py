"""Whatever JSON a plan or snapshot is, the checker answers and does not raise."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monkeytree.checker import CODES, check

from .cases import CASES, Document

NUMBERS = st.integers() | st.floats() | st.sampled_from([-1, 0, 1, 2, 3, 10**400, 1e308])
NAMES = st.text(max_size=3) | st.sampled_from(["A", "B", "0", "n1", "n2", "r1", "r2", "p1", "up", "down"])
SCALARS = st.none() | st.booleans() | NUMBERS | NAMES
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Path of every member and item of ``document``."""
    found: list[tuple[Any, ...]] = []
    steps = document.items() if isinstance(document, dict) else enumerate(document)
    for step, value in steps:
        found.append((*path, step))
        if isinstance(value, dict | list):
            found += places(value, (*path, step))
    return found


def spoil(data: st.DataObject, document: Document, values: st.SearchStrategy[Any]) -> None:
    """Replace some members of ``document``, whatever their depth."""
    for _ in range(data.draw(st.integers(1, 3))):
        *path, last = data.draw(st.sampled_from(places(document)))
        target: Any = document
        for step in path:
            target = target[step]
        target[last] = data.draw(values)


@given(JUNK, JUNK)
def test_junk_never_raises(snapshot: Any, plan: Any) -> None:
    good_snapshot, good_plan = CASES["moved"]()
    assert check(good_snapshot, plan) != []
    assert [fault.code for fault in check(snapshot, good_plan)] == ["snapshot_unreadable"]


@given(st.data(), st.sampled_from(sorted(CASES)))
def test_a_spoilt_plan_never_raises(data: st.DataObject, case: str) -> None:
    snapshot, plan = copy.deepcopy(CASES[case]())
    spoil(data, plan, JUNK)
    assert {fault.code for fault in check(snapshot, plan)} <= set(CODES)


@given(st.data(), st.sampled_from(sorted(CASES)))
def test_a_plan_of_right_types_and_wrong_values_never_raises(data: st.DataObject, case: str) -> None:
    snapshot, plan = copy.deepcopy(CASES[case]())
    spoil(data, plan, st.integers(-2, 9) | NAMES | st.none() | st.booleans())
    assert {fault.code for fault in check(snapshot, plan)} <= set(CODES)


@given(st.data(), st.sampled_from(sorted(CASES)))
def test_a_spoilt_snapshot_never_raises(data: st.DataObject, case: str) -> None:
    snapshot, plan = copy.deepcopy(CASES[case]())
    spoil(data, snapshot, JUNK)
    assert {fault.code for fault in check(snapshot, plan)} <= set(CODES)


@pytest.mark.parametrize("plan", [None, 7, "plan", [], {}, {"state": "ready"}, {"state": ["ready"]}])
def test_what_is_no_plan_is_a_fault(plan: Any) -> None:
    snapshot, _ = CASES["moved"]()
    assert {fault.code for fault in check(snapshot, plan)} == {"malformed"}
