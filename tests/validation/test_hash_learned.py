"""Hash routing by a table learned from probes: what it knows is replayed, and what it does not is named."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

import monkeytree
from monkeytree.ecmp.epoch import topology_epoch
from monkeytree.ecmp.label import FIRST_PORT, LAST_PORT
from monkeytree.ecmp.learn import Probe, learn, table_of
from monkeytree.ecmp.stage import Packet
from monkeytree.ecmp.ways import Ways
from monkeytree.errors import InvalidSnapshot
from monkeytree.fabric_hash import FabricHash, LearnedTable
from monkeytree.plan import Plan
from monkeytree.snapshot import Snapshot
from monkeytree.validation.errors import InvalidScenario
from monkeytree.validation.scenario import traffic_after
from monkeytree.validation.scenario_document import read_scenario
from tests.validation.cases import simulator
from tests.validation.fluid import Fluid
from tests.validation.test_hash import HASH, addressed, scenario, told

AFFINE = {"leaf": {"algorithm": "crc16_ccitt"}, "pod": {"algorithm": "crc32", "offset": 3}}
OTHER = {"leaf": {"algorithm": "murmur3"}, "pod": {"algorithm": "murmur3", "seed": 9}}


def probed(snapshot: Snapshot, count: int, seed: int = 1) -> LearnedTable:
    """What probes tell of the switches of ``snapshot``, whose hash nobody looks at but the probes."""
    hash_, ways, rng = snapshot.fabric.hash, Ways(snapshot), random.Random(seed)
    assert hash_ is not None
    places = {node.addresses[0]: rack.id for rack in snapshot.racks for node in rack.nodes}
    probes, uplinks = [], {}
    for src, dst in permutations(places, 2):
        ends = places[src], places[dst]
        if ends[0] == ends[1]:
            continue
        uplinks[src, dst] = _labels(ways, *ends)
        for port in rng.sample(range(FIRST_PORT, LAST_PORT + 1), count):
            spine, core = ways.way(hash_, Packet(src, dst, port), *ends, 0) or (-1, None)
            probes.append(Probe(src, dst, port, spine if core is None else core))
    return table_of(learn(probes, uplinks), topology_epoch(snapshot))


def _labels(ways: Ways, source: str, target: str) -> list[int]:
    spines = ways.spines(source, target)
    if not ways.leaves_pod(source, target):
        return list(spines)
    return sorted(core for spine in spines for core in ways.cores(source, target, spine))


def with_table(snapshot: Snapshot, table: LearnedTable) -> Snapshot:
    return replace(snapshot, fabric=replace(snapshot.fabric, hash=FabricHash(learned=table)))


def of(plan: Plan, snapshot: Snapshot) -> Plan:
    """The same plan, as if made of ``snapshot``."""
    return replace(plan, snapshot_id=monkeytree.snapshot_id(snapshot))


def bare(rows: Iterable[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


@pytest.mark.parametrize("pods", [False, True], ids=["two tiers", "three tiers"])
@pytest.mark.parametrize(("hash_", "probes"), [(AFFINE, 60), (OTHER, 120)], ids=["affine", "probed"])
def test_a_table_replays_as_its_hash_does_and_as_explicit_paths(hash_: Any, probes: int, pods: bool) -> None:
    real = addressed(pods, hash_)
    table = probed(real, probes)
    assert {pair.method for pair in table.pairs} == {"affine" if hash_ is AFFINE else "probed"}
    learned = with_table(real, table)
    plan = monkeytree.make_plan(learned)
    assert plan.unsteered == ()
    found = told(learned, plan, HASH)
    by_hash = told(real, of(plan, real), HASH)
    explicit = told(learned, plan, replace(HASH, routing="steered"))
    assert found["flows"] == by_hash["flows"]
    assert bare(found["flows"], "udp_source_port") == explicit["flows"]
    assert bare([found["runs"]["plan"]], "unknown_ways") == [by_hash["runs"]["plan"]]
    assert (found["runs"]["plan"]["unknown_ways"], found["isolated"]) == (0, True)
    # The control is any hash: the table does not say where its ports lead.
    assert found["runs"]["ecmp"]["finished"]
    assert "unknown_ways" not in found["runs"]["ecmp"]


@pytest.mark.parametrize("pods", [False, True], ids=["two tiers", "three tiers"])
def test_a_fit_knows_the_default_ports_too(pods: bool) -> None:
    real = addressed(pods, AFFINE)
    learned = with_table(real, probed(real, 60))
    plan = monkeytree.make_plan(learned)
    default = replace(HASH, ports="default")
    found, by_hash = told(learned, plan, default), told(real, of(plan, real), default)
    assert found["flows"] == by_hash["flows"]
    assert found["runs"]["plan"]["unknown_ways"] == 0
    assert not found["isolated"]


def test_what_was_only_probed_is_known_of_those_ports_alone() -> None:
    real = addressed(hash_=OTHER)
    learned = with_table(real, probed(real, 60))
    plan = monkeytree.make_plan(learned)
    found = told(learned, plan, replace(HASH, ports="default"))
    unknown = [row for row in found["flows"] if row.get("unknown")]
    assert len(unknown) == found["runs"]["plan"]["unknown_ways"] > len(found["flows"]) / 2
    for row in unknown:
        assert (row["uplink"], row["fct_ns"], row["isolated"], row["steered"]) == (None, None, False, False)
        assert "is not in the table" in row["unknown"]
    assert not found["isolated"]
    assert f"does not know the way of {len(unknown)} cross-rack flows" in found["reasons"][0]


def test_flows_that_the_plan_could_not_steer_are_named_and_the_others_replayed() -> None:
    real = addressed(hash_=AFFINE)
    whole = probed(real, 60)
    first = monkeytree.make_plan(with_table(real, whole)).flows[0]
    group = next(group for job, group in real.groups if (job.id, group.id) == (first.job, first.group))
    ends = tuple(
        real.node_by_id[group.workers[rank]].addresses[0] for rank in (first.from_rank, first.to_rank)
    )
    table = replace(whole, pairs=tuple(pair for pair in whole.pairs if (pair.src, pair.dst) != ends))
    learned = with_table(real, table)
    plan = monkeytree.make_plan(learned)
    lost = {index for row in plan.unsteered for index in row.flows}
    assert lost
    assert {row.reason for row in plan.unsteered} == {"not_learned"}
    found = told(learned, plan, HASH)
    named = [row for row in found["flows"] if row.get("unknown")]
    assert len(named) == len(lost)
    assert all(row["isolated"] for row in found["flows"] if not row.get("unknown"))
    assert not found["isolated"]
    assert ends[0] in named[0]["unknown"]


def test_flows_without_addresses_are_named_too() -> None:
    real = addressed(hash_=AFFINE)
    made = monkeytree.dump_snapshot(with_table(real, probed(real, 60)))
    made["racks"][0]["nodes"] = dict.fromkeys(made["racks"][0]["nodes"], 1)
    learned = monkeytree.load_snapshot(made)
    plan = monkeytree.make_plan(learned)
    lost = {index for row in plan.unsteered for index in row.flows}
    assert {row.reason for row in plan.unsteered} == {"no_address"}
    found = told(learned, plan, HASH)
    named = [row for row in found["flows"] if row.get("unknown")]
    assert len(named) == len(lost) == found["runs"]["plan"]["unknown_ways"] > 0
    assert {(row["uplink"], "no addresses" in row["unknown"]) for row in named} == {(None, True)}
    assert all(row["isolated"] for row in found["flows"] if not row.get("unknown"))


def test_a_port_that_the_table_does_not_list_proves_nothing() -> None:
    """The plan claims what the table cannot confirm: its claims do not hold."""
    real = addressed(hash_=OTHER)
    table = probed(real, 60)
    learned = with_table(real, table)
    plan = monkeytree.make_plan(learned)
    known = {port for pair in table.pairs for ports in pair.ports.values() for port in ports}
    strange = next(port for port in range(FIRST_PORT, LAST_PORT) if port not in known)
    wrong = replace(plan, flows=(replace(plan.flows[0], udp_source_port=strange), *plan.flows[1:]))
    found = told(learned, wrong, HASH)
    assert found["runs"]["plan"]["unknown_ways"] == 1
    assert not found["claims_hold"]


def test_an_uplink_that_fails_later_makes_the_table_unknown_where_it_led() -> None:
    real = addressed(hash_=AFFINE)
    learned = with_table(real, probed(real, 60))
    plan = monkeytree.make_plan(learned)
    found = traffic_after(learned, plan, replace(HASH, dead=(("r0", 0),)))
    touched = [
        flow for flow in found.flows if flow.crosses_racks and "r0" in (flow.source[0], flow.target[0])
    ]
    assert touched
    assert all("failed since" in flow.unknown for flow in touched)
    others = [flow for flow in found.flows if flow.crosses_racks and flow not in touched]
    assert others
    assert all(flow.path and not flow.unknown for flow in others)


def test_a_stale_table_is_refused_by_name() -> None:
    real = addressed(hash_=AFFINE)
    stale = with_table(real, replace(probed(real, 60), epoch="0123456789abcdef"))
    with pytest.raises(InvalidSnapshot) as refused:
        told(stale, None, HASH)
    (offence,) = refused.value.offences
    assert offence.pointer == "/fabric/hash/learned/epoch"
    assert "probe anew" in offence.message


def test_the_scenario_says_that_a_table_sent_it_there() -> None:
    seen: list[dict[str, Any]] = []

    class Noting(Fluid):
        def __call__(self, scenario: Any, **options: Any) -> Any:
            given = read_scenario(scenario)
            rows = [{**row, "path": None} if "hashed" in row else row for row in scenario["flows"]]
            blind = read_scenario({**scenario, "flows": rows})
            assert [flow.path for flow in blind.flows] == [flow.path for flow in given.flows]
            for row in scenario["flows"]:
                seen.extend(row.get("hashed", {}).get("choices", ()))
            return super().__call__(scenario, **options)

    real = addressed(True, AFFINE)
    learned = with_table(real, probed(real, 60))
    told(learned, monkeytree.make_plan(learned), HASH, simulator(Noting()))
    assert seen
    assert all(set(choice) == {"at", "among", "learned"} for choice in seen)


@pytest.mark.parametrize("node", [0, 5, True, "3", None])
def test_a_table_leads_to_one_of_the_nodes_there_are(node: Any) -> None:
    good = scenario(choices=[{"at": 2, "among": [3, 4], "learned": 4}])
    assert read_scenario(good).flows[0].path == (0, 2, 4, 5, 1)
    with pytest.raises(InvalidScenario, match="learned must be one of among"):
        read_scenario(scenario(choices=[{"at": 2, "among": [3, 4], "learned": node}]))
