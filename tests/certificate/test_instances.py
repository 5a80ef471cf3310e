"""Certificates of known snapshots prove their optimum, and nothing that was tampered with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import monkeytree
from monkeytree.certify import certify
from monkeytree.checker.certificate import certificate_faults
from monkeytree.checker.reading import read_placement

from .samples import Document, faults, instance, leaves, made

HALVES = ["hand-01-seed-B", "hand-15-slack-released-by-completion", "loop-1024-16x8-seq-5"]
ONE_LEAF = ["cold-16384-256x8-l2-first-60", "hand-08-rings-knapsack", "loop-4096-64x8-0"]
TREES = ["cold-64x8-l2-seq-100", "gpuworker-1024-16x64-0", "hand-06-full-3cycle", "rings-1024-16x8-l8-0"]
LANDINGS = ["authors-1024-04", "authors-128-00", "fuzz-3008", "loop-1024-16x8-seq-6"]


@pytest.mark.parametrize("name", HALVES + ONE_LEAF + TREES + LANDINGS)
def test_the_optimum_is_certified(name: str) -> None:
    snapshot, moves = instance(name)
    certificate = made(snapshot, moves)
    assert certificate is not None
    assert certificate["bound"] == moves
    assert faults(snapshot, certificate, moves) == []


@pytest.mark.parametrize(("name", "kind"), [(HALVES[0], "rack_halves"), (TREES[0], "relaxation")])
def test_the_cheap_kind_comes_first(name: str, kind: str) -> None:
    snapshot, moves = instance(name)
    certificate = made(snapshot, moves)
    assert certificate is not None
    assert certificate["kind"] == kind


@pytest.mark.parametrize("name", HALVES[:1] + TREES[1:3] + LANDINGS[-2:])
def test_no_certificate_above_the_optimum(name: str) -> None:
    snapshot, moves = instance(name)
    assert made(snapshot, moves + 1) is None


@pytest.mark.parametrize("name", HALVES + TREES + LANDINGS)
def test_one_move_more_is_refused(name: str) -> None:
    snapshot, moves = instance(name)
    certificate = made(snapshot, moves)
    assert certificate is not None
    raised = {**certificate, "bound": moves + 1}
    assert {fault.code for fault in faults(snapshot, raised, moves + 1)} == {"bad_certificate"}
    assert {fault.code for fault in faults(snapshot, certificate, moves - 1)} == {"certificate_bound"}
    assert {fault.code for fault in faults(snapshot, certificate, None)} == {"certificate_bound"}


def _drop_a_branch(certificate: Document) -> None:
    del certificate["tree"]["most"]


def _swap_branches(certificate: Document) -> None:
    tree = certificate["tree"]
    tree["most"], tree["more"] = tree["more"], tree["most"]


def _call_it_a_leaf(certificate: Document) -> None:
    del certificate["tree"]["column"]


def _empty_a_leaf(certificate: Document) -> None:
    leaves(certificate["tree"])[0]["multipliers"] = {}


def _negate_a_leaf(certificate: Document) -> None:
    multipliers = leaves(certificate["tree"])[-1]["multipliers"]
    for row in multipliers:
        multipliers[row] *= -3


def _name_no_row(certificate: Document) -> None:
    certificate["tree"]["multipliers"]["bound 99 0"] = 1


def _name_no_column(certificate: Document) -> None:
    certificate["tree"]["column"] = "whole 99 0"


def _drop_a_rack(certificate: Document) -> None:
    certificate["racks"].pop()


def _turn_the_racks(certificate: Document) -> None:
    certificate["racks"].append(certificate["racks"].pop(0))


def _name_a_rack_twice(certificate: Document) -> None:
    certificate["racks"].append(certificate["racks"][0])


@pytest.mark.parametrize(
    "change",
    [
        _drop_a_branch, _swap_branches, _call_it_a_leaf, _empty_a_leaf, _negate_a_leaf, _name_no_row,
        _name_no_column, _drop_a_rack, _turn_the_racks, _name_a_rack_twice,
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["hand-06-full-3cycle", "cold-32x8-l2-seq-100"])
def test_a_changed_tree_is_refused(name: str, change: Callable[[Document], None]) -> None:
    snapshot, moves = instance(name)
    certificate = made(snapshot, moves)
    assert certificate is not None
    change(certificate)
    assert {fault.code for fault in faults(snapshot, certificate, moves)} == {"bad_certificate"}


def test_every_multiplier_of_a_one_leaf_proof_is_needed() -> None:
    snapshot, moves = instance("loop-1024-32x4-seq-3")
    certificate = made(snapshot, moves)
    assert certificate is not None
    for row in certificate["tree"]["multipliers"]:
        changed = copy.deepcopy(certificate)
        del changed["tree"]["multipliers"][row]
        assert faults(snapshot, changed, moves), row


@pytest.mark.parametrize("name", ["hand-01-seed-B", "cold-16x8-l2-seq-100", "loop-1024-16x8-seq-6"])
def test_a_snapshot_in_which_fewer_moves_do_is_refused(name: str) -> None:
    snapshot, moves = instance(name)
    certificate = made(snapshot, moves)
    assert certificate is not None
    relieved = copy.deepcopy(snapshot)
    for rack in relieved["racks"]:
        rack["uplinks"] += 1
    assert {fault.code for fault in faults(relieved, certificate, moves)} == {"bad_certificate"}


def test_a_plan_that_does_not_comply_has_no_use_for_it() -> None:
    snapshot, moves = instance("hand-01-seed-B")
    plan: Document = {
        "certificate": made(snapshot, moves),
        "lower_bound": moves,
        "undrained": [],
        "excess": 1,
    }
    assert [fault.code for fault in certificate_faults(plan, read_placement(snapshot))] == [
        "certificate_bound"
    ]


def _junk() -> Iterator[Any]:
    yield from (1, "proof", [], True)
    base = {"kind": "relaxation", "bound": 3, "racks": ["r0"], "tree": {}}
    yield {**base, "bound": 0}
    yield {**base, "bound": "3"}
    yield {**base, "racks": "r0"}
    yield {**base, "racks": [["r0"]]}
    yield {**base, "landing": 1}
    yield {**base, "landing": [0]}
    yield {**base, "landing": [-1, 10**9]}
    yield {**base, "tree": []}
    yield {**base, "tree": {"multipliers": []}}
    yield {**base, "tree": {"multipliers": {"moves": 1.5}}}
    yield {**base, "tree": {"multipliers": {"moves": True}}}
    yield {**base, "tree": {"multipliers": {"moves": 10**400}}}
    yield {**base, "tree": {"multipliers": {"moves": -1}}}
    yield {**base, "tree": {"column": ["moves"]}}
    yield {**base, "tree": {"column": "spare 0", "at": "1"}}
    yield {**base, "tree": {"column": "spare 0", "at": 10**400}}


@pytest.mark.parametrize("certificate", list(_junk()), ids=repr)
def test_junk_is_refused(certificate: Any) -> None:
    snapshot, _ = instance("hand-01-seed-B")
    assert {fault.code for fault in faults(snapshot, certificate, 3)} >= {"bad_certificate"}


@pytest.mark.parametrize("certificate", [None, {"kind": "news", "bound": 7}, {}])
def test_nothing_is_claimed_by_none_or_by_kinds_of_later_formats(certificate: Any) -> None:
    snapshot, moves = instance("hand-01-seed-B")
    assert faults(snapshot, certificate, moves) == []


def test_time_that_is_up_leaves_no_certificate() -> None:
    snapshot, moves = instance("cold-64x8-l2-seq-100")
    assert certify(monkeytree.load_snapshot(snapshot), moves, deadline=0.0) is None
