"""Source ports of the planner against the checker, which has hashes of its own."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

import monkeytree
from monkeytree.checker import check
from monkeytree.ecmp.epoch import topology_epoch

Document = dict[str, Any]
ALGORITHMS = (
    "crc16_ccitt", "crc16_arc", "crc16_xor1", "crc16_xor2", "crc16_xor4", "crc16_xor8", "crc32", "crc32_lo",
    "crc32_hi", "xor16", "toeplitz", "murmur3",
)  # fmt: skip


def fabric(hash_: Document, *, uplinks: int = 4, pods: bool = False, rails: int = 1) -> Document:
    """Four racks of two nodes, and jobs whose flows leave every rack (and pod)."""
    racks = [
        {
            "id": f"r{r}",
            "uplinks": uplinks,
            **({"pod": f"p{r // 2}"} if pods else {}),
            "nodes": {
                f"n{r}{n}": {"slots": 4, "addresses": [f"10.{rail}.{r}.{n + 1}" for rail in range(rails)]}
                for n in range(2)
            },
        }
        for r in range(4)
    ]
    jobs = [
        {
            "id": name,
            "mobility": "none",
            "replica_groups": [{"id": "0", "rings": rings, "workers": [f"n{r}{n}" for r in path]}],
        }
        for name, rings, n, path in (
            ("A", 2 * rails, 0, (0, 1, 2, 3)),
            ("B", rails, 1, (0, 2)),
            ("C", rails, 1, (1, 3)),
        )
    ]
    listed = [{"id": pod, "uplinks": 4 * uplinks} for pod in ("p0", "p1")] if pods else []
    return {
        "format": 1, "cluster": "lab", "taken_at": "2026-11-29T18:00:00Z",
        "fabric": {"hash": hash_, "rails": rails}, "racks": racks, "jobs": jobs,
        "pods": listed,
    }  # fmt: skip


def planned(document: Document) -> tuple[Any, Any]:
    snapshot = monkeytree.load_snapshot(document)
    return snapshot, monkeytree.make_plan(snapshot, solver="search")


@pytest.mark.parametrize("pods", [False, True], ids=["two tiers", "three tiers"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_flow_is_steered_or_named_and_the_checker_agrees(algorithm: str, pods: bool) -> None:
    rng = random.Random(f"{algorithm}/{pods}")
    leaf = {"algorithm": algorithm, "seed": rng.randrange(2**32), "select": rng.choice(["modulo", "high"])}
    pod = {"algorithm": "crc32", "offset": rng.randrange(32)}
    seeds = {"r1/0": 99, "r2/1": 3}
    document = fabric(
        {"leaf": leaf, "pod": pod, "leaf_seeds": seeds, **({"pod_seeds": {"p0/1": 5}} if pods else {})},
        uplinks=rng.choice([3, 4, 5]), pods=pods, rails=2,
    )  # fmt: skip
    snapshot, plan = planned(document)
    assert check(snapshot, plan) == []
    lost = {index for row in plan.unsteered for index in row.flows}
    for index, flow in enumerate(plan.flows):
        assert (flow.udp_source_port is None) == (index in lost)
    assert len(lost) < len(plan.flows)


def test_a_polarised_fabric_is_named_and_proved() -> None:
    same = {"algorithm": "crc16_ccitt"}
    snapshot, plan = planned(fabric({"leaf": same, "pod": {**same, "seed": 5}}, pods=True))
    assert [row.reason for row in plan.unsteered] == ["polarised"]
    assert check(snapshot, plan) == []


def test_flows_of_one_pair_have_ports_of_their_own() -> None:
    document = fabric({"leaf": {"algorithm": "crc32"}})
    document["fabric"]["uplink_gbps"] = 1600  # four flows an uplink: rings share uplinks
    _, plan = planned(document)
    used = [(f.from_rack, f.to_rack, f.from_rank, f.job, f.udp_source_port) for f in plan.flows]
    assert len(set(used)) == len(used)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"leaf": {"algorithm": "crc32", "fields": ["src", "sport", "dst_qp"]}}, "needs_queue_pair"),
        ({"leaf": {"algorithm": "murmur3", "fields": ["sport", "dst_qp"]}}, "needs_queue_pair"),
        ({"learned": {"version": 1, "epoch": "HERE", "pairs": []}}, "not_learned"),
        ({"learned": {"version": 1, "epoch": "other", "pairs": []}}, "stale_table"),
    ],
)
def test_reasons(change: Document, reason: str) -> None:
    document = fabric(change)
    here = topology_epoch(monkeytree.load_snapshot(fabric({"leaf": {"algorithm": "crc32"}})))
    if change.get("learned", {}).get("epoch") == "HERE":
        document["fabric"]["hash"] = {"learned": {**change["learned"], "epoch": here}}
    snapshot, plan = planned(document)
    assert [(row.reason, len(row.flows)) for row in plan.unsteered] == [(reason, len(plan.flows))]
    assert check(snapshot, plan) == []


def test_a_hash_over_the_queue_pair_is_named_so_even_where_the_tiers_polarise() -> None:
    same = {"algorithm": "crc16_ccitt", "fields": ["src", "dst", "sport", "dst_qp"]}
    for leaf, pod in ((same, same), ({"algorithm": "crc16_ccitt", "fields": ["src"]}, same)):
        document = fabric({"leaf": leaf, "pod": pod}, uplinks=3, pods=True)
        snapshot, plan = planned(document)
        assert "needs_queue_pair" in {row.reason for row in plan.unsteered}
        assert check(snapshot, plan) == []


def test_a_learned_table_steers() -> None:
    epoch = topology_epoch(monkeytree.load_snapshot(fabric({"leaf": {"algorithm": "crc32"}})))
    ports = {str(uplink): [50_000 + uplink, 51_000 + uplink] for uplink in range(4)}
    pairs = [
        {"src": f"10.0.{a}.{n}", "dst": f"10.0.{b}.{n}", "ports": ports}
        for n in (1, 2) for a in range(4) for b in range(4) if a != b
    ]  # fmt: skip
    snapshot, plan = planned(fabric({"learned": {"version": 3, "epoch": epoch, "pairs": pairs}}))
    assert plan.unsteered == ()
    assert {flow.udp_source_port % 1000 - (flow.uplink or 0) for flow in plan.flows} == {0}
    assert check(snapshot, plan) == []
    broken = monkeytree.dump_plan(plan)
    row = next(row for row in broken["flows"] if row["uplink"] != 3)
    row.update(udp_source_port=50_003, flow_label=50_003 - 0xC000)
    assert [fault.code for fault in check(snapshot, broken)] == ["port_unfounded"]


def test_an_adaptive_fabric_gets_no_ports() -> None:
    document = copy.deepcopy(fabric({"leaf": {"algorithm": "crc32"}}))
    document["fabric"]["routing"] = "adaptive"
    snapshot, plan = planned(document)
    assert all(flow.udp_source_port is None for flow in plan.flows)
    assert check(snapshot, plan) == []
