"""Clusters above the size that is solved whole at once: what the stages claim, and the caps they keep.

The larger cluster is a tiny one with padding that changes nothing (see ``support.padded``).
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

import monkeytree
from tests.oracle.brute import brute_force
from tests.oracle.reading import Document

from .support import INSTANCES, as_json, assert_claims, assert_holds, job, padded, planned, snapshot


def instance(name: str, **planning: Any) -> Document:
    document: Document = json.loads((INSTANCES / f"{name}.json").read_text())
    document["planning"] = {**document.get("planning", {}), **planning}
    return document


def several_sites() -> Document:
    """One move brings A whole onto r3, by entering a node there of another class than the one it is on."""
    racks: dict[str, Document] = {
        "r0": {"uplinks": 1, "nodes": {"x": 1, "y": {"slots": 1, "class": "q"}}},
        "r3": {"uplinks": 1, "nodes": {"c": 1, "d": {"slots": 1, "class": "h200"}}},
    }
    return snapshot(racks, [job("A", "x", "d", rings=3)])


def beside_a_drain() -> Document:
    """A is whole on r0 but for a draining node; it stays whole by moving to another node of r0."""
    racks: dict[str, Document] = {
        "r0": {
            "uplinks": 0,
            "nodes": {"a": {"slots": 1, "drain": True}, "b": {"slots": 1, "cordoned": True}, "c": 1},
        },
        "r1": {"uplinks": 0, "nodes": {"d": 2}},
    }
    return snapshot(racks, [job("A", "a", "b")])


@pytest.mark.parametrize("solver", ["auto", "search", "split", "highs", "cbc"])
@pytest.mark.parametrize("build", [several_sites, beside_a_drain])
def test_the_relaxed_bound_holds_where_a_rack_has_several_sites(build: Any, solver: str) -> None:
    document = padded(build())
    best = brute_force(build())
    plan = planned(document, solver=solver)
    assert_claims(plan, assert_holds(document, plan), best)
    assert (plan.status, plan.moves_needed, plan.lower_bound) == ("optimal", 1, 1)


@pytest.mark.parametrize(
    ("name", "cap"), [("cold-32x8-l2-seq-100", 3), ("loop-16384-256x8-0", 2), ("loop-2048-32x8-seq-0", 0)]
)
def test_a_cap_on_moves_is_kept_and_named(name: str, cap: int) -> None:
    document = instance(name, max_moves=cap)
    plan = planned(document, time_limit_s=3)
    assert_holds(document, plan)
    assert plan.moves_needed <= cap
    assert (plan.status, plan.limited_by) == ("best_effort", "max_moves")


@pytest.mark.parametrize("limit_s", [1, 10])
@pytest.mark.parametrize("name", ["loop-16384-256x8-0", "loop-2048-32x8-seq-0"])
def test_gpu_seconds_claim_only_what_is_proved(name: str, limit_s: int) -> None:
    document = instance(name, objective="gpu_seconds")
    plan = planned(document, time_limit_s=limit_s)
    assert_holds(document, plan)
    proved = (
        plan.objective.lower_bound is not None and plan.objective.lower_bound >= plan.objective.value - 1e-6
    )
    assert (plan.status == "optimal") == proved
    assert proved or not plan.objective.ties_proved


@pytest.mark.parametrize("solver", ["auto", "highs", "cbc"])
@pytest.mark.parametrize(
    "name",
    [
        "authors-2048-16",
        "cold-16x8-l2-seq-100",
        "cold-32x8-l2-seq-100",
        "cold-64x8-l2-seq-100",
        "cold-16384-256x8-l2-first-60",
        "gpuworker-1024-16x64-0",
        "loop-1024-16x8-first-l1-3",
        "loop-65536-1024x8-uneven-0",
        "rings-2048-32x8-l8-uneven-0",
    ],
)
def test_no_time_at_all_still_gives_a_plan_that_holds(name: str, solver: str) -> None:
    document = instance(name)
    plan = planned(document, solver=solver, time_limit_s=0.05)
    assert_holds(document, plan)
    assert plan.excess == 0 or (plan.status, plan.limited_by) == ("best_effort", "time")
    assert as_json(plan)["state"] == "ready"


def test_less_time_never_claims_more() -> None:
    """The bound that a short solve reports holds for the long one."""
    document = instance("loop-1024-16x8-first-l1-3")
    bounds = [planned(document, solver="highs", time_limit_s=limit).lower_bound for limit in (0.1, 0.5, 60.0)]
    assert all(bound is None or bound <= 10 for bound in bounds)
    assert bounds[-1] == 10


def test_a_time_limit_of_the_call_overrides_the_snapshots() -> None:
    document = instance("cold-64x8-l2-seq-100", time_limit_s=0.05, solver="cbc")
    assert planned(document).limited_by == "time"
    assert planned(document, time_limit_s=60, solver="auto").status == "optimal"
    assert monkeytree.load_snapshot(document).planning.time_limit_s == 0.05


def cold(racks: int, nodes: int, rings: int) -> Document:
    """Jobs of 2, 4 or 8 workers thrown anywhere: far from any answer that a search meets."""
    rng = Random(1)
    free = [f"r{rack}n{node}" for rack in range(racks) for node in range(nodes)]
    rng.shuffle(free)
    jobs: list[Document] = []
    while len(free) > 4:
        workers = [free.pop() for _ in range(min(rng.choice([2, 4, 8]), len(free)))]
        jobs.append(job(f"j{len(jobs)}", *workers, rings=rng.choice([rings, rings // 2, rings - 1])))
    layout: dict[str, Document] = {
        f"r{rack}": {"uplinks": rings, "nodes": {f"r{rack}n{node}": 1 for node in range(nodes)}}
        for rack in range(racks)
    }
    return snapshot(layout, jobs)


def test_the_search_leaves_the_programs_their_time() -> None:
    """HiGHS alone proves the 111 moves of this cluster of 256 slots in about a second."""
    document = cold(racks=4, nodes=64, rings=32)
    plan = planned(document, solver="auto", time_limit_s=8)
    assert_holds(document, plan)
    assert (plan.status, plan.moves_needed) == ("optimal", 111)


def test_a_licence_too_small_for_the_ties_does_not_cost_the_proof() -> None:
    """Gurobi's restricted licence takes the split programs of 2,048 cold GPUs, not the whole for its ties."""
    loaded = monkeytree.load_snapshot(INSTANCES / "cold-32x8-l2-seq-100.json")
    plan = monkeytree.make_plan(loaded, solver="gurobi", time_limit_s=60)
    assert (plan.status, plan.moves_needed, plan.lower_bound) == ("optimal", 34, 34)
    assert not plan.objective.ties_proved
    assert monkeytree.check(loaded, plan) == []
