"""A conflict cannot be met, and without any one of its parts it can: checked by brute force."""

from __future__ import annotations

import time
from dataclasses import asdict
from random import Random

import pytest

import monkeytree
from monkeytree.explain import Conflict, conflict
from tests.oracle.brute import brute_force
from tests.oracle.generate import FEATURES, tiny_snapshot
from tests.oracle.reading import Document

from .naive import can_be_met, without_one
from .test_because import lab


def found(document: Document, seconds: float = 20.0) -> Conflict | None:
    return conflict(monkeytree.load_snapshot(document), deadline=time.monotonic() + seconds)


@pytest.mark.parametrize("seed", range(150))
def test_every_part_is_needed(seed: int) -> None:
    document = tiny_snapshot(Random(seed), features=FEATURES - {"max_moves"} if seed % 4 else ())
    best = brute_force(document)
    result = found(document)
    if (best.undrained, best.excess) == (0, 0):
        assert result is None
        return
    assert result is not None
    parts = {kind: list(names) for kind, names in asdict(result).items()}
    assert not can_be_met(document, parts)
    for fewer in without_one(parts):
        assert can_be_met(document, fewer), fewer
    if best.undrained:
        assert not result.racks
        assert not result.pods


def test_a_pinned_worker_on_a_draining_node() -> None:
    document = lab({"a": {"slots": 1, "drain": True}, "b": 1}, A={"workers": ["a"], "pinned": [0]}, B=["b"])
    assert found(document) == Conflict(jobs=("A",), drains=("a",))


def test_jobs_that_only_together_leave_no_room() -> None:
    """Three groups of two on two racks of three: one has to be split, and there are no uplinks."""
    document = lab({"a": 3}, {"b": 3}, {"c": 3}, A=["a", "a"], B=["b", "b"], C=["a", "b"], D=["c"])
    document["racks"][2]["nodes"]["c"] = {"slots": 3, "cordoned": True}
    result = found(document)
    assert result is not None
    assert (result.jobs, result.pods, result.drains) == (("A", "B", "C"), (), ())


def test_the_cap_on_moves_is_no_conflict() -> None:
    document = lab({"a": 2}, {"b": 1}, A=["a", "b"])
    document["planning"] = {"max_moves": 0}
    assert found(document) is None


def test_no_time_no_conflict() -> None:
    assert found(lab({"a": 1}, {"b": 1}, A=["a", "b"]), seconds=-1.0) is None


def test_a_group_too_large_for_a_rack_and_too_loud_for_any() -> None:
    """Six workers of two rings on racks of four with one uplink: all but one rack is over wherever it is."""
    racks = [{f"{name}{number}": 1 for number in range(4)} for name in "abcdefgh"]
    loud = {"workers": [*racks[0], *list(racks[1])[:2]], "rings": 2}
    document = lab(*racks, uplinks=1, loud=loud, B=["c0", "d0"], C=["d1", "e0"])
    result = found(document)
    assert result is not None
    assert (result.jobs, len(result.racks)) == (("loud",), 7)


def test_pinned_workers_on_one_rack_are_enough() -> None:
    """Large clusters are told from the rack that no plan can mend, without solving them whole."""
    racks = [{f"{rack}/{number}": 8 for number in range(8)} for rack in range(300)]
    pinned = {
        f"j{number}": {"workers": [f"7/{number}", f"8/{number}"], "pinned": [0, 1]} for number in range(4)
    }
    others = {f"k{number}": [f"{number}/{number % 8}", f"{number + 1}/0"] for number in range(200)}
    result = found(lab(*racks, uplinks=3, **pinned, **others))
    assert result is not None
    assert (len(result.jobs), len(result.racks)) == (4, 1)
    assert set(result.jobs) == set(pinned)


def test_switches_that_a_smaller_question_leaves_out_may_have_seeds_of_their_own() -> None:
    document = lab({"n1": 1}, {"n2": 1}, {"n3": 1}, A=["n1", "n2"])
    document["fabric"] = {
        "hash": {
            "leaf": {"algorithm": "crc32"},
            "leaf_seeds": {f"{rack['id']}/0": 1 for rack in document["racks"]},
        }
    }
    assert found(document) is not None
