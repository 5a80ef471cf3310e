"""Flows: one for each ring and departure, each with an uplink of its own where there is one."""

from __future__ import annotations

from collections import Counter

import pytest

from monkeytree.plan import Plan
from tests.oracle.reading import Document

from .support import assert_holds, carried_out, job, planned, snapshot


def rack(uplinks: object, *nodes: str, slots: int = 1, **members: object) -> Document:
    return {"uplinks": uplinks, "nodes": dict.fromkeys(nodes, slots), **members}


def compliant(racks: dict[str, Document], *jobs: Document, **members: object) -> Plan:
    document = snapshot(racks, list(jobs), **members)
    plan = planned(document)
    assert_holds(document, plan)
    assert plan.status == "compliant"
    return plan


def test_a_ring_departs_once_from_each_rack_it_touches() -> None:
    racks = {"r1": rack(1, "a", "b"), "r2": rack(1, "c"), "r3": rack(1, "d")}
    plan = compliant(racks, job("A", "a", "b", "c", "d"))
    assert [(flow.from_rank, flow.to_rank, flow.from_rack, flow.to_rack) for flow in plan.flows] == [
        (1, 2, "r1", "r2"),
        (2, 3, "r2", "r3"),
        (3, 0, "r3", "r1"),
    ]


def test_every_ring_sends_its_own_flows_on_its_rail() -> None:
    racks = {"r1": rack(3, "a"), "r2": rack(3, "b")}
    plan = compliant(racks, job("A", "a", "b", rings=9), fabric={"rails": 4})
    from_r1 = [flow for flow in plan.flows if flow.from_rack == "r1"]
    assert [(flow.ring, flow.rail) for flow in from_r1] == [(ring, ring % 4) for ring in range(9)]
    assert plan.racks["r1"].before == (3, 2, 2, 2)


@pytest.mark.parametrize("rings", range(10))
@pytest.mark.parametrize("rails", [1, 4])
def test_rings_spread_over_rails(rings: int, rails: int) -> None:
    racks = {"r1": rack(9, "a"), "r2": rack(9, "b")}
    plan = compliant(racks, job("A", "a", "b", rings=rings), fabric={"rails": rails})
    expected = Counter(ring % rails for ring in range(rings))
    assert plan.racks["r1"].after == tuple(expected[rail] for rail in range(rails))
    assert len(plan.flows) == 2 * rings


def test_no_two_flows_share_an_uplink_where_no_rack_is_over() -> None:
    racks = {name: rack(3, *(f"{name}{at}" for at in range(3))) for name in ("r1", "r2", "r3")}
    jobs = [job(f"J{at}", f"r1{at}", f"r2{at}", f"r3{at}") for at in range(3)]
    plan = compliant(racks, *jobs)
    up = Counter((flow.from_rack, flow.uplink) for flow in plan.flows)
    down = Counter((flow.to_rack, flow.uplink) for flow in plan.flows)
    assert set(up.values()) == set(down.values()) == {1}
    assert plan.shared_uplinks == ()


def test_a_faster_uplink_carries_several_flows() -> None:
    racks = {"r1": rack(1, "a", slots=2), "r2": rack(1, "b", slots=2)}
    jobs = [job("A", "a", "b"), job("B", "a", "b")]
    plan = compliant(racks, *jobs, fabric={"uplink_gbps": 800, "nic_gbps": 400})
    assert plan.racks["r1"].bound == (2,)
    assert plan.shared_uplinks == ()


def test_dead_spines_are_avoided() -> None:
    racks = {"r1": rack([1, 2], "a", slots=2), "r2": rack([0, 2], "b", slots=2)}
    plan = compliant(racks, job("A", "a", "b"))
    assert {flow.uplink for flow in plan.flows} == {2}


def test_leaves_without_a_common_spine_have_no_uplink_and_no_guarantee() -> None:
    racks = {"r1": rack([0], "a"), "r2": rack([1], "b")}
    plan = compliant(racks, job("A", "a", "b"))
    assert {flow.uplink for flow in plan.flows} == {None}
    assert [(group.job, group.group) for group in plan.unguaranteed] == [("A", "0")]


def test_groups_that_are_no_rings_are_not_guaranteed() -> None:
    racks = {"r1": rack(4, "a", slots=4), "r2": rack(4, "b", slots=4)}
    jobs = [job("T", "a", "b", kind="tree"), job("M", "a", "b", kind="all_to_all"), job("R", "a", "b")]
    plan = compliant(racks, *jobs)
    assert [(group.job, group.kind) for group in plan.unguaranteed] == [("T", "tree"), ("M", "all_to_all")]


def test_groups_without_rings_send_nothing() -> None:
    racks = {"r1": rack(0, "a", "b"), "r2": rack(0, "c", "d")}
    plan = compliant(racks, job("A", "a", "c", rings=0), job("B", "b"))
    assert plan.flows == ()


def test_flows_that_leave_their_pod_have_a_core() -> None:
    racks = {
        "r1": rack(2, "a", "b", pod="p1"),
        "r2": rack(2, "c", pod="p1"),
        "r3": rack(2, "d", pod="p2"),
    }
    pods = [{"id": "p1", "uplinks": 2}, {"id": "p2", "uplinks": 2}]
    plan = compliant(racks, job("A", "a", "c"), job("B", "b", "d"), pods=pods)
    crossing = {flow.job: flow.leaves_pod for flow in plan.flows}
    assert crossing == {"A": False, "B": True}
    assert all(flow.pod_uplink in (0, 1) for flow in plan.flows if flow.leaves_pod)
    assert plan.pods["p1"].after == (1,)


def test_a_rack_that_is_over_folds_evenly() -> None:
    """Five pinned flows on two uplinks: three and two."""
    racks = {"r1": rack(2, "a", slots=5), "r2": rack(2, "b", slots=5)}
    jobs = [job(f"J{at}", "a", "b", pinned=[0, 1]) for at in range(5)]
    document = snapshot(racks, jobs)
    plan = planned(document)
    assert_holds(document, plan)
    assert (plan.status, plan.excess, plan.excess_proved) == ("best_effort", 6, True)
    up = Counter(flow.uplink for flow in plan.flows if flow.from_rack == "r1")
    assert sorted(up.values()) == [2, 3]


def test_uplinks_of_the_previous_plan_are_kept() -> None:
    racks = {"r1": rack(3, "a", slots=3), "r2": rack(3, "b", slots=3)}
    jobs = [job(f"J{at}", "a", "b") for at in range(3)]
    document = snapshot(racks, jobs)
    first = planned(document)
    given = {(flow.job, flow.from_rack): flow.uplink for flow in first.flows}
    fewer = carried_out(document, first)
    fewer["jobs"].pop(0)
    kept = {(flow.job, flow.from_rack): flow.uplink for flow in planned(fewer, previous=first).flows}
    assert kept == {key: uplink for key, uplink in given.items() if key[0] != "J0"}
