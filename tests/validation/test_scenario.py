"""From placements to flows: NICs, ways, bytes, and what the options change."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import monkeytree
from monkeytree.errors import InvalidPlan
from monkeytree.placement import sends
from monkeytree.snapshot import Snapshot
from monkeytree.validation.network import undirected
from monkeytree.validation.scenario import traffic_after, traffic_before
from monkeytree.validation.traffic import BACKGROUND, Knobs, Traffic, hashed, jobs_alone
from tests.validation.cases import crowded, document, job, small
from tests.wire.samples import snapshots

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
AS_IS = Knobs()


def names(traffic: Traffic, flow: int) -> list[str]:
    """The way of a flow in words."""
    network = traffic.network
    return [network.names.get(node, f"nic {node}") for node in traffic.flows[flow].path]


def test_every_hop_of_a_ring_is_a_flow_from_nic_to_nic() -> None:
    traffic = traffic_before(small(job("A", "0.0 0.1 1.0")), AS_IS)
    assert traffic.network.hosts == 3
    assert names(traffic, 0) == ["nic 0", "leaf r0", "nic 1"]
    assert names(traffic, 1) == ["nic 1", "leaf r0", "spine 0", "leaf r1", "nic 2"]
    assert names(traffic, 2) == ["nic 2", "leaf r1", "spine 0", "leaf r0", "nic 0"]
    assert [flow.size for flow in traffic.flows] == [20_000_000] * 3


def test_a_worker_has_a_nic_for_each_ring_on_the_leaf_of_its_rail() -> None:
    snapshot = small(job("A", "0.0 1.0", rings=3), fabric={"rails": 2})
    traffic = traffic_before(snapshot, AS_IS)
    assert traffic.network.hosts == 6
    assert [flow.source for flow in traffic.flows] == [
        ("r0", 0), ("r1", 0), ("r0", 1), ("r1", 1), ("r0", 0), ("r1", 0),
    ]  # fmt: skip
    assert names(traffic, 2)[1:-1] == ["leaf r0 rail 1", "spine 0", "leaf r1 rail 1"]


def test_dead_spines_are_left_out() -> None:
    traffic = traffic_before(small(job("A", "0.0 1.0"), uplinks=[1, 3]), AS_IS)
    spines = {name for name in traffic.network.names.values() if name.startswith("spine")}
    assert spines == {"spine 1", "spine 3"}


def test_a_flow_between_pods_goes_over_its_core() -> None:
    given = document(job("A", "0.0 1.0"), pods=[{"id": "p", "uplinks": 4}, {"id": "q", "uplinks": 4}])
    for rack, pod in zip(given["racks"], "pq", strict=True):
        rack["pod"] = pod
    traffic = traffic_before(monkeytree.load_snapshot(given), AS_IS)
    core = traffic.flows[0].label
    assert core is not None
    assert names(traffic, 0)[1:-1] == [
        "leaf r0", f"spine {core % 2} of pod p", f"core {core}", f"spine {core % 2} of pod q", "leaf r1",
    ]  # fmt: skip


def test_bytes_come_from_the_group_and_are_scaled() -> None:
    snapshot = small(job("A", "0.0 1.0", traffic_gb=0.5), job("B", "0.1 1.1"))
    flows = traffic_before(snapshot, Knobs(flow_bytes=1_000_000, scale=0.1)).flows
    assert [flow.size for flow in flows] == [50_000_000] * 2 + [100_000] * 2


def test_rates_are_the_fabrics() -> None:
    snapshot = small(job("A", "0.0 1.0"), fabric={"nic_gbps": 200, "uplink_gbps": 800})
    traffic = traffic_before(snapshot, AS_IS)
    hops = traffic.flows[0].hops
    assert [traffic.network.by_ends[undirected(hop)].gbps for hop in hops] == [200, 800, 800, 200]


@quick
@given(snapshots())
def test_every_way_is_live_and_every_hop_has_one_flow(snapshot: Snapshot) -> None:
    traffic = traffic_before(snapshot, AS_IS)
    expected = sum(len(group.workers) * group.rings for _, group in snapshot.groups if sends(group))
    assert len(traffic.flows) == expected == traffic.network.hosts
    for flow in traffic.flows:
        labels = traffic.network.labels(flow.source, flow.target)
        assert bool(flow.path) == (flow.source == flow.target or bool(labels))
        assert all(undirected(hop) in traffic.network.by_ends for hop in pairwise(flow.path))
        assert flow.label is None or flow.label in labels


@quick
@given(snapshots())
def test_a_job_alone_never_meets_itself_on_an_uplink(snapshot: Snapshot) -> None:
    traffic, k = traffic_before(snapshot, AS_IS), snapshot.fabric.flows_per_uplink
    alone = jobs_alone(traffic, k)
    assert sorted(flow.name for of in alone.values() for flow in of.flows) == sorted(
        flow.name for flow in traffic.flows
    )
    for of in alone.values():
        load = Counter(hop for flow in of.flows if flow.source != flow.target for hop in flow.hops[1:-1])
        assert max(load.values(), default=0) <= k
        for flow, own in zip([f for f in traffic.flows if f.job == of.flows[0].job], of.flows, strict=True):
            assert not flow.path or len(flow.path) == len(own.path)


def test_a_plan_puts_each_flow_on_its_uplink() -> None:
    snapshot = monkeytree.load_snapshot(EXAMPLES / "hand-02-seed-C.json")
    plan = monkeytree.make_plan(snapshot)
    traffic = traffic_after(snapshot, plan, AS_IS)
    crossing = [flow for flow in traffic.flows if flow.crosses_racks]
    found = {(f.job, f.ring, f.from_rank, f.source[0], f.target[0], f.label) for f in crossing}
    assert found == {(f.job, f.ring, f.from_rank, f.from_rack, f.to_rack, f.uplink) for f in plan.flows}
    assert all(flow.claimed and flow.steered for flow in crossing)
    load = Counter(hop for flow in crossing for hop in flow.hops)
    assert set(load.values()) == {1}


def test_a_plan_of_another_snapshot_is_refused() -> None:
    plan = monkeytree.make_plan(crowded())
    with pytest.raises(InvalidPlan, match="is another snapshot than the one given"):
        traffic_after(small(job("A", "0.0 1.0")), plan, AS_IS)


def test_a_plan_that_lacks_a_flow_is_refused() -> None:
    snapshot = small(job("A", "0.0 1.0"))
    plan = monkeytree.make_plan(snapshot)
    with pytest.raises(InvalidPlan, match="has no flow for ring 0 of group '0' of job 'A' from rank 1"):
        traffic_after(snapshot, replace(plan, flows=plan.flows[:1]), AS_IS)
    with pytest.raises(InvalidPlan, match="/rings/0/order"):
        traffic_after(snapshot, replace(plan, rings=(replace(plan.rings[0], order=(0, 0)),)), AS_IS)


def test_flows_on_a_shared_uplink_and_of_other_kinds_are_not_claimed() -> None:
    assert not any(flow.claimed for flow in traffic_before(crowded(), AS_IS).flows)
    assert not any(
        flow.claimed for flow in traffic_before(small(job("A", "0.0 1.0", kind="tree")), AS_IS).flows
    )
    assert all(flow.claimed for flow in traffic_before(small(job("A", "0.0 1.0")), AS_IS).flows)


def test_where_the_fabric_does_not_steer_a_hash_decides() -> None:
    flows = traffic_before(small(job("A", "0.0 1.0"), fabric={"routing": "ecmp"}), AS_IS).flows
    assert not any(flow.steered or flow.claimed for flow in flows)


def test_the_control_is_the_same_flows_hashed() -> None:
    traffic = traffic_before(monkeytree.load_snapshot(EXAMPLES / "hand-02-seed-C.json"), AS_IS)
    one, same, other = hashed(traffic, 1), hashed(traffic, 1), hashed(traffic, 2)
    assert one.flows == same.flows != other.flows
    assert [f.name for f in one.flows] == [f.name for f in traffic.flows]
    assert not any(f.steered for f in one.flows if f.crosses_racks)


def test_a_part_of_the_flows_unsteered() -> None:
    snapshot = monkeytree.load_snapshot(EXAMPLES / "lingjun_P8_podfit_multi_load95.json")
    crossing = [
        [f for f in traffic_before(snapshot, Knobs(ecmp_share=share)).flows if f.crosses_racks]
        for share in (0.0, 0.3, 1.0)
    ]
    loose = [sum(not flow.steered for flow in flows) / len(flows) for flows in crossing]
    assert loose[0] == 0
    assert 0.1 < loose[1] < 0.5
    assert loose[2] == 1


def test_a_failed_uplink_sends_its_flows_elsewhere() -> None:
    snapshot = small(job("A", "0.0 1.0"), job("B", "0.1 1.1"))
    traffic = traffic_before(snapshot, Knobs(dead=(("r0", 0),)))
    assert {flow.label for flow in traffic.flows} == {1}
    assert sum(not flow.steered for flow in traffic.flows) == 2
    lost = traffic_before(snapshot, Knobs(dead=(("r0", 0), ("r1", 1))))
    assert all(flow.path == () for flow in lost.flows)


def test_background_joins_nics_of_its_own() -> None:
    snapshot = small(job("A", "0.0 1.0"), racks=4)
    extra = [f for f in traffic_before(snapshot, Knobs(background=0.5)).flows if f.job == BACKGROUND]
    assert len(extra) == 2
    assert all(f.source != f.target and f.path and not f.crosses_racks for f in extra)
    assert {f.src for f in extra}.isdisjoint({0, 1})
