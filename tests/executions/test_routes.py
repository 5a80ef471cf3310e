"""Source ports of a plan, put to agents: before anything moves, journalled, resumed, refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

import monkeytree
from monkeytree.adapters import executions_errors as errors
from monkeytree.adapters.executions_journal import LeaseLost
from monkeytree.ecmp import exports
from monkeytree.ecmp.stage import Packet
from monkeytree.ecmp.ways import Ways
from monkeytree.snapshot import Snapshot
from monkeytree.wire.agents import MoveRequest, RouteTable, dump

from .conftest import Site, cluster, job
from .test_http import client

Sites = Callable[..., Site]


def hashed(*jobs: dict[str, Any], uplinks: int = 2, **more: Any) -> dict[str, Any]:
    """Jobs on racks r1 and r2 of five nodes with addresses, behind switches whose hash is known."""
    racks = [
        {
            "id": f"r{rack}",
            "uplinks": uplinks,
            "nodes": {
                f"r{rack}n{node}": {"slots": 1, "addresses": [f"10.0.{rack}.{node}"]} for node in range(5)
            },
        }
        for rack in (1, 2)
    ]
    hash_ = {"leaf": {"algorithm": "crc32_lo", "seed": 7}}
    return cluster(*jobs, of=racks, fabric={"hash": hash_}, **more)


AT_REST = hashed(job("A", "r1n0", "r2n0"), job("B", "r1n1", "r2n1"))
#: One flow too many for two uplinks: a worker moves.
CROWDED = hashed(job("A", "r1n0", "r2n0"), job("B", "r1n1", "r2n1"), job("C", "r1n2", "r2n2"))


def planned(site: Site, plan_id: str) -> dict[str, dict[str, Any]]:
    """The tables of the plan by node, without their epoch."""
    snapshot = monkeytree.load_snapshot(site.document)
    plan = monkeytree.load_plan(orjson.loads(site.store.plan_body(plan_id) or b""))
    tables = exports.for_agents(exports.routes(snapshot, plan), 0)
    return {node: {**table, "epoch": None} for node, table in tables.items()}


def held(site: Site) -> dict[str, dict[str, Any]]:
    """What agents hold, without epochs; empty tables left out."""
    tables = site.nodes.memory.tables
    return {node: {**dump(table), "epoch": None} for node, table in tables.items() if table.routes}


def test_tables_are_in_place_before_any_job_connects_anew(site_of: Sites) -> None:
    site = site_of(CROWDED)
    plan = site.plan()
    execution = site.order(plan)
    assert site.run(execution) == "done"
    moves, tables = _kinds(site, execution)
    (moved,) = moves
    assert len(tables) >= 3
    assert held(site) == planned(site, plan)
    assert held(site)
    assert moved.source in site.nodes.memory.tables, "a node that a worker leaves loses its old table"
    calls = [name for _, name, _ in site.nodes.memory.calls if name != "workers"]
    assert set(calls[: len(tables)]) == {"put_routes"}
    assert calls.count("put_routes") == len(tables)
    epochs = {table.epoch for table in site.nodes.memory.tables.values()}
    assert epochs == {tables[0].epoch}
    assert tables[0].epoch < moved.epoch


def test_a_compliant_plan_puts_its_tables_only(site_of: Sites) -> None:
    site = site_of(AT_REST)
    plan = site.plan()
    execution = site.order(plan)
    assert site.run(execution) == "done"
    assert held(site) == planned(site, plan)
    assert sorted(held(site)) == ["r1n0", "r1n1", "r2n0", "r2n1"]
    assert {name for _, name, _ in site.nodes.memory.calls} == {"put_routes"}
    assert site.store.reservations() == ()
    later = site.order(plan)
    assert site.run(later) == "done"
    old, new = (site.store.executions.steps(one)[0].epoch for one in (execution, later))
    assert (old or 0) < (new or 0)


def test_without_ports_there_is_nothing_to_put(site_of: Sites) -> None:
    site = site_of({**AT_REST, "fabric": {}})
    with pytest.raises(errors.NothingToExecute, match="source ports"):
        site.order(site.plan())


def test_every_node_with_a_table_needs_its_agent_and_no_second_execution(site_of: Sites) -> None:
    site = site_of(AT_REST, agent_gone_s=1e-9)
    plan = site.plan()
    with pytest.raises(errors.AgentMissing, match="'r1n0' \\(and 3 more\\)"):
        site.order(plan)
    site.change(agent_gone_s=60.0)
    site.order(plan)
    with pytest.raises(errors.ExecutionOverlaps, match="node 'r1n0'"):
        site.order(plan)


def test_an_agent_that_refuses_ends_it_before_anything_moves(site_of: Sites) -> None:
    site = site_of(CROWDED)
    execution = site.order(site.plan())
    node = _kinds(site, execution)[1][0].source or ""
    site.nodes.memory.tables[node] = RouteTable(2**40)
    assert site.run(execution) == "failed"
    row = site.store.executions.find(execution)
    assert row.failure_code == "routes_not_put"
    assert "stale_epoch" in (row.failure_message or "")
    moves, tables = _kinds(site, execution)
    assert [step.state for step in moves] == ["skipped"]
    assert [step.source for step in tables if step.state == "failed"] == [node]
    assert site.nodes.named("put_move") == []


def test_with_continue_the_moves_are_made_without_it(site_of: Sites) -> None:
    site = site_of(CROWDED)
    execution = site.order(site.plan(), "continue")
    node = _kinds(site, execution)[1][0].source or ""
    site.nodes.memory.refuse(node, "put_routes", "stale_epoch")
    assert site.run(execution) == "failed"
    assert site.store.executions.find(execution).failure_code == "routes_not_put"
    assert [step.state for step in _kinds(site, execution)[0]] == ["done"]


@pytest.mark.parametrize("after", [1, 3])
def test_what_one_worker_began_to_put_the_next_puts(site_of: Sites, after: int) -> None:
    site = site_of(AT_REST)
    plan = site.plan()
    execution = site.order(plan)
    seen: list[str] = []

    def lose(node: str, name: str, _: str) -> None:
        seen.append(node)
        if len(seen) == after:
            site.store.executions.expire(execution, 1)
            site.store.executions.requeue_expired(9)

    site.nodes.before = lose
    with pytest.raises(LeaseLost):
        site.run_unheld(execution)
    begun = {step.epoch for step in site.store.executions.steps(execution)}
    site.nodes.before = lambda *_: None
    assert site.run(execution) == "done"
    assert {table.epoch for table in site.nodes.memory.tables.values()} == begun
    assert held(site) == planned(site, plan)
    assert {call.name for call in site.store.executions.calls(execution)} == {"make routes"}


def test_a_dry_run_lists_them_first(site_of: Sites) -> None:
    site = site_of(CROWDED)
    plan = site.plan()
    told = client(site).post("/v1/executions", json={"plan_id": plan, "dry_run": True}).json
    first = [call for call in told["calls"] if call["stage"] == "routes"]
    assert told["calls"][: len(first)] == first
    assert {call["node"]: {**call["body"], "epoch": None} for call in first if call["body"]["routes"]} == (
        planned(site, plan)
    )
    assert {(call["method"], call["url"].rpartition(":")[2].partition("/")[2]) for call in first} == {
        ("PUT", "v1/routes")
    }
    assert told["calls"][len(first)]["stage"] == "make"
    assert site.nodes.memory.calls == []


def test_a_transfer_takes_an_uplink_that_no_planned_flow_has(site_of: Sites) -> None:
    document = hashed(job("A", "r1n0", "r2n0"), job("B", "r1n1", "r2n1"))
    for name, node in document["racks"][0][
        "nodes"
    ].items():  # A leaves the rack, since no other node takes it
        node["drain" if name == "r1n0" else "cordoned"] = True
    site = site_of(document, agent_transport="verbs")
    plan = site.plan()
    execution = site.order(plan)
    assert site.run(execution) == "done"
    (moved,) = _kinds(site, execution)[0]
    asked = _move(site, moved.source or "", execution)
    assert asked.uplink_port is not None
    assert _move(site, moved.target or "", execution).uplink_port == asked.uplink_port
    snapshot = monkeytree.load_snapshot(document)
    spine = _spine(snapshot, asked, asked.uplink_port)
    flows = orjson.loads(site.store.plan_body(plan) or b"")["flows"]
    assert (moved.source, moved.target_rack) == ("r1n0", "r2")
    assert {flow["job"] for flow in flows} == {"B"}
    assert spine not in {flow["uplink"] for flow in flows}


def test_other_transports_cannot_choose(site_of: Sites) -> None:
    site = site_of(CROWDED)
    execution = site.order(site.plan())
    assert site.run(execution) == "done"
    (moved,) = _kinds(site, execution)[0]
    assert _move(site, moved.source or "", execution).uplink_port is None


def _kinds(site: Site, execution: str) -> tuple[list[Any], list[Any]]:
    """Its moves, its tables."""
    steps = site.store.executions.steps(execution)
    return [one for one in steps if one.kind == "move"], [one for one in steps if one.kind == "routes"]


def _move(site: Site, node: str, execution: str) -> MoveRequest:
    request: MoveRequest = site.nodes.memory.moves[node, f"{execution}-m0"][0]
    return request


def _spine(snapshot: Snapshot, asked: MoveRequest, port: int) -> int:
    """Where the switches send the transfer."""
    ends = [snapshot.node_by_id[node].addresses[0] for node in (asked.source, asked.target)]
    racks = [snapshot.rack_of[node].id for node in (asked.source, asked.target)]
    assert snapshot.fabric.hash is not None
    way = Ways(snapshot).way(snapshot.fabric.hash, Packet(ends[0], ends[1], port), racks[0], racks[1], 0)
    assert way is not None
    return way[0]
