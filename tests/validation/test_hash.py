"""Hash routing: a plan's ports take its flows where its uplinks say, without these being looked at."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

import monkeytree
from monkeytree.errors import InvalidSnapshot
from monkeytree.plan import Plan
from monkeytree.snapshot import Snapshot
from monkeytree.validation.errors import InvalidScenario
from monkeytree.validation.replay import replay
from monkeytree.validation.report import report
from monkeytree.validation.runner import run_scenario
from monkeytree.validation.scenario import traffic_after
from monkeytree.validation.scenario_document import read_scenario
from monkeytree.validation.simulate import Meter, Simulator
from monkeytree.validation.traffic import Knobs
from tests.integration.test_validations import needs_ns3
from tests.validation.cases import document, job, simulator
from tests.validation.fluid import BUFFERS, Fluid

HASH = Knobs(routing="hash")
CRC = {"leaf": {"algorithm": "crc16_ccitt"}, "pod": {"algorithm": "crc32", "offset": 3}}


def addressed(pods: bool = False, hash_: Any = None, form: str = "10.0.{}.{}", **fabric: Any) -> Snapshot:
    """Four racks of four nodes and uplinks; three jobs across all of them, A's ring to be closed up."""
    made = document(
        job("A", "0.0 1.0 2.0 3.0", rings=2), job("B", "0.1 2.1"), job("C", "1.1 3.1 0.2 2.2"),
        racks=4, uplinks=4,
    )  # fmt: skip
    made["fabric"] = {"hash": CRC if hash_ is None else hash_, **fabric}
    for r, rack in enumerate(made["racks"]):
        rack["nodes"] = {
            name: {"slots": 1, "addresses": [form.format(r, n)]} for n, name in enumerate(rack["nodes"])
        }
        if pods:
            rack["pod"] = f"p{r // 2}"
    if pods:
        made["pods"] = [{"id": "p0", "uplinks": 8}, {"id": "p1", "uplinks": 8}]
    return monkeytree.load_snapshot(made)


def told(snapshot: Snapshot, plan: Plan | None, knobs: Knobs, run: Any = None) -> dict[str, Any]:
    made: dict[str, Any] = report(replay(snapshot, plan, knobs, run or simulator()), {"profile": "dcqcn"})
    return made


def without_port(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "udp_source_port"}


@pytest.mark.parametrize("pods", [False, True], ids=["two tiers", "three tiers"])
def test_ports_take_every_flow_where_explicit_paths_do(pods: bool) -> None:
    snapshot = addressed(pods)
    plan = monkeytree.make_plan(snapshot)
    assert plan.unsteered == ()
    steered, hashed = (told(snapshot, plan, knobs) for knobs in (Knobs(), HASH))
    assert [without_port(row) for row in hashed["flows"]] == steered["flows"]
    assert hashed["runs"]["plan"].pop("off_their_uplinks") == 0
    assert hashed["runs"]["plan"] == steered["runs"]["plan"]
    assert hashed["isolated"]
    given = {flow.udp_source_port for flow in plan.flows}
    assert {row["udp_source_port"] for row in hashed["flows"]} == given


def test_with_default_ports_flows_collide() -> None:
    snapshot = addressed()
    plan = monkeytree.make_plan(snapshot)
    found = told(snapshot, plan, replace(HASH, ports="default"))
    assert not found["isolated"]
    assert found["traffic"]["ports"] == "default"
    assert 0 < found["runs"]["plan"]["off_their_uplinks"] <= len(found["flows"])
    assert not any(row["claimed"] or row["steered"] for row in found["flows"])
    assert not told(snapshot, plan, HASH)["runs"]["ecmp"]["isolated"]


@pytest.mark.parametrize("nodes", ["all", "some"])
def test_flows_without_addresses_do_not_get_the_plans_uplinks(nodes: str) -> None:
    """Nothing can steer them: they go where some hash sends them, and nothing is claimed of them."""
    made = monkeytree.dump_snapshot(addressed())
    for rack in made["racks"][: 4 if nodes == "all" else 1]:
        rack["nodes"] = dict.fromkeys(rack["nodes"], 1)
    snapshot = monkeytree.load_snapshot(made)
    plan = monkeytree.make_plan(snapshot)
    lost = {index for row in plan.unsteered for index in row.flows}
    assert {row.reason for row in plan.unsteered} == {"no_address"}
    for given in (plan, None):
        found = told(snapshot, given, HASH)
        unsteered = [row for row in found["flows"] if not row["steered"]]
        assert (len(unsteered), len(found["flows"])) == (len(lost), len(plan.flows))
        assert not any(row["claimed"] or "udp_source_port" in row for row in unsteered)
        run = found["runs"]["plan" if given else "placement"]
        assert 0 < run["off_their_uplinks"] <= len(lost)
        assert found["runs"]["ecmp"]["off_their_uplinks"] >= run["off_their_uplinks"]


def test_over_ipv6_switches_may_hash_the_label_too() -> None:
    """Flows of the plan carry the label of their port; those that nobody labelled 0."""
    fields = ["flow_label", "src", "dst", "sport"]
    hash_ = {"leaf": {"algorithm": "crc32", "fields": fields}, "pod": {"algorithm": "crc32", "offset": 7}}
    snapshot = addressed(True, hash_, "fd00:1:a{}::a{}")
    plan = monkeytree.make_plan(snapshot)
    assert plan.unsteered == ()
    steered, hashed = (told(snapshot, plan, knobs) for knobs in (Knobs(), HASH))
    assert [without_port(row) for row in hashed["flows"]] == steered["flows"]
    seen: list[Any] = []

    class Noting(Fluid):
        def __call__(self, scenario: Any, **options: Any) -> Any:
            rows = [{**row, "path": None} if "hashed" in row else row for row in scenario["flows"]]
            read_scenario({**scenario, "flows": rows})
            seen.extend(row["hashed"].get("flow_label") for row in rows if "hashed" in row)
            return super().__call__(scenario, **options)

    told(snapshot, plan, replace(HASH, ports="default"), simulator(Noting()))
    assert 0 in seen


def test_the_plans_uplinks_are_not_looked_at() -> None:
    """A plan that lies about its uplinks goes where its ports lead; one with other ports does not."""
    snapshot = addressed()
    plan = monkeytree.make_plan(snapshot)
    liar = replace(plan, flows=tuple(replace(flow, uplink=3 - (flow.uplink or 0)) for flow in plan.flows))
    true_ways = [flow.path for flow in traffic_after(snapshot, plan, HASH).flows]
    assert [flow.path for flow in traffic_after(snapshot, liar, HASH).flows] == true_ways
    other = replace(plan, flows=tuple(replace(flow, udp_source_port=0xC000) for flow in plan.flows))
    assert [flow.path for flow in traffic_after(snapshot, other, HASH).flows] != true_ways


def test_a_dead_uplink_is_hashed_around() -> None:
    snapshot = addressed()
    plan = monkeytree.make_plan(snapshot)
    dead = replace(HASH, dead=(("r0", 0),))
    found = traffic_after(snapshot, plan, dead)
    gone = {found.network.leaf(("r0", 0)), found.network.spine(None, 0)}
    assert all(flow.path and not any({a, b} == gone for a, b in flow.hops) for flow in found.flows)


def test_the_scenarios_say_how_each_way_came_about() -> None:
    """What the simulator gets has the packets and the hashes; its reader finds the same paths from these."""

    class Noting(Fluid):
        def __call__(self, scenario: Any, **options: Any) -> Any:
            given = read_scenario(scenario)
            for flow in scenario["flows"]:
                flow["path"] = None if "hashed" in flow else flow["path"]
                seen.append("hashed" in flow)
            assert [flow.path for flow in read_scenario(scenario).flows] == [
                flow.path for flow in given.flows
            ]
            return super().__call__(
                {
                    **scenario,
                    "flows": [
                        {**row, "path": list(flow.path)}
                        for row, flow in zip(scenario["flows"], given.flows, strict=True)
                    ],
                },
                **options,
            )

    seen: list[bool] = []
    snapshot = addressed(pods=True)
    told(snapshot, monkeytree.make_plan(snapshot), HASH, simulator(Noting()))
    assert any(seen)


def scenario(**hashed: Any) -> dict[str, Any]:
    """Hosts 0 and 1 behind switches 2 and 5, with 3 and 4 between them."""
    choice = {"at": 2, "among": [3, 4], "hash": {"algorithm": "crc32"}}
    packet = {"src": "10.0.0.1", "dst": "10.0.1.1", "udp_source_port": 50_000, "choices": [choice], **hashed}
    links = [
        [0, 2, 100, 1000],
        [1, 5, 100, 1000],
        *([2, m, 100, 1000] for m in (3, 4)),
        *([m, 5, 100, 1000] for m in (3, 4)),
    ]
    flow = {"id": 0, "src": 0, "dst": 1, "bytes": 9000, "path": None, "hashed": packet}
    return {
        "format": 1,
        "routing": "hash",
        "hosts": 2,
        "switches": [2, 3, 4, 5],
        "links": links,
        "flows": [flow],
    }


def test_a_scenario_is_routed_by_its_hashes() -> None:
    taken = {read_scenario(scenario(udp_source_port=port)).flows[0].path for port in range(50_000, 50_040)}
    assert taken == {(0, 2, 3, 5, 1), (0, 2, 4, 5, 1)}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"src": "10.0.0"}, "/flows/0/hashed/src"),
        ({"udp_source_port": 0}, "/flows/0/hashed/udp_source_port"),
        ({"choices": 3}, "/flows/0/hashed/choices"),
        ({"choices": [{"at": 2, "among": []}]}, "/flows/0/hashed/choices/0"),
        ({"choices": [{"at": 2, "among": [], "hash": {}}]}, "/flows/0/hashed/choices/0"),
        (
            {"choices": [{"at": 2, "among": [3], "hash": {"algorithm": "md5"}}]},
            "/flows/0/hashed/choices/0/hash/algorithm",
        ),
        (
            {"choices": [{"at": 2, "among": [3], "hash": dict.fromkeys(map(str, range(1_100)), 0)}]},
            "/flows/0/hashed/choices/0/hash/0",
        ),
        ({"choices": []}, "/flows/0/hashed/choices"),
        ({"choices": [{"at": 2, "among": [5], "hash": {"algorithm": "crc32"}}]}, "/flows/0/hashed/choices"),
        ({"choices": [{"at": 2, "among": [0], "hash": {"algorithm": "crc32"}}]}, "/flows/0/hashed/choices"),
        ({"extra": 1}, "/flows/0/hashed"),
        ({"flow_label": 2**20}, "/flows/0/hashed/flow_label"),
        (
            {"choices": [{"at": 2, "among": [3], "hash": {"algorithm": "crc32", "fields": ["flow_label"]}}]},
            "/flows/0/hashed/choices/0/hash/fields/0",
        ),
    ],
)
def test_a_wrong_hashed_flow_is_refused(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidScenario) as refused:
        read_scenario(scenario(**change))
    assert pointer in [offence.pointer for offence in refused.value.offences]


def test_a_path_that_is_not_where_the_hashes_lead_is_refused() -> None:
    good = scenario()
    path = list(read_scenario(good).flows[0].path)
    wrong = copy.deepcopy(good)
    wrong["flows"][0]["path"] = [*path[:2], 7 - path[2], *path[3:]]
    with pytest.raises(InvalidScenario, match="not where the hashes lead"):
        read_scenario(wrong)
    unsaid = {**good, "routing": "given"}
    with pytest.raises(InvalidScenario, match="needs routing to be hash"):
        read_scenario(unsaid)


@pytest.mark.parametrize(
    "hash_",
    [
        {"learned": {"version": 1, "epoch": "e", "pairs": []}},
        {"leaf": {"algorithm": "crc32", "fields": ["dst_qp"]}},
    ],
)
def test_what_cannot_be_hashed_is_refused(hash_: Any) -> None:
    with pytest.raises(InvalidSnapshot):
        told(addressed(hash_=hash_), None, HASH)


@needs_ns3
def test_the_packets_agree() -> None:
    """The same in the packet simulator itself, flow by flow."""
    snapshot = addressed(pods=True)
    plan = monkeytree.make_plan(snapshot)
    packets = [
        told(
            snapshot, plan, replace(knobs, flow_bytes=400_000),
            Simulator(run_scenario, {"profile": "dcqcn", "seed": 1}, BUFFERS, 2, 60.0, True, Meter()),
        )
        for knobs in (Knobs(), HASH)
    ]  # fmt: skip
    assert [without_port(row) for row in packets[1]["flows"]] == packets[0]["flows"]
    assert packets[1]["isolated"]
