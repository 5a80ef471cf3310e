"""A plan with source ports, end to end: POSTed, put to real agents, read by the shim, set on queue pairs."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import structlog

import monkeytree
from monkeytree.agent.labels import parse_table
from monkeytree.agent.verbs import gid_of_address
from monkeytree.checker import check
from monkeytree.cli.embedded import Embedded, embedded, wait_for
from monkeytree.ecmp.label import port_of_label
from monkeytree.wire.agents import Route, RouteTable, dump
from tests.shim.harness import Bench, Run, bench_in
from tests.shim.test_shim import LABEL_AT, RTR

from .conftest import Site, cluster, job
from .nodes import SECRET
from .test_http import client
from .test_routes import planned

Sites = Callable[..., Site]
ADDRESS = {"ipv4": "10.0.{}.{}", "ipv6": "fd00:{}::{}"}
PATIENCE_S = 120.0


def document(family: str, *jobs: dict[str, Any]) -> dict[str, Any]:
    """Jobs on two racks of four nodes and two uplinks, behind switches whose hash is known."""
    racks = [
        {
            "id": f"r{rack}",
            "uplinks": 2,
            "nodes": {
                f"r{rack}n{node}": {"slots": 1, "addresses": [ADDRESS[family].format(rack, node + 1)]}
                for node in range(4)
            },
        }
        for rack in (1, 2)
    ]
    return cluster(*jobs, of=racks, fabric={"hash": {"leaf": {"algorithm": "crc32_lo", "seed": 7}}})


#: One flow too many for two uplinks, and a free node in each rack: a worker moves.
CROWDED = job("A", "r1n0", "r2n0"), job("B", "r1n1", "r2n1"), job("C", "r1n2", "r2n2")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A program over the shim over a fake libibverbs."""
    return bench_in(tmp_path_factory.mktemp("program"))


@contextmanager
def agents_of(site: Site, folder: Path) -> Iterator[Embedded]:
    """An agent a node, as `monkeytree demo --execute` starts them, announced to the site."""
    folder.mkdir()
    with embedded(site.document, folder, SECRET) as made:
        made.start_agents("", "")
        structlog.reset_defaults()  # theirs is for a process of agents alone; here the service logs too
        for node, agent in made.agents.items():
            site.store.agents.announce(site.document["cluster"], node, agent.url, 2, {})
        yield made


def executed(site: Site, plan: str) -> dict[str, Any]:
    """The execution of a plan, POSTed and carried out."""
    api = client(site)
    answer = api.post("/v1/executions", json={"plan_id": plan})
    assert answer.status_code == 202, answer.text
    assert site.run(answer.json["id"]) == "done", api.get(answer.headers["Location"]).text
    found: dict[str, Any] = api.get(answer.headers["Location"]).json
    return found


def served(made: Embedded) -> dict[str, dict[str, Any]]:
    """What each agent serves in /v1/routes, without epochs; empty tables left out."""
    tables = {node: agent.routes() for node, agent in made.agents.items()}
    return {node: {**dump(table), "epoch": None} for node, table in tables.items() if table.routes}


def ports_of(table: Mapping[str, Any]) -> dict[tuple[str, str], list[int]]:
    """The ports of each pair of addresses in a node's table, in order."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for route in table["routes"]:
        found[route["src_ip"], route["dst_ip"]].append(route["port"])
    return found


def connect(program: Bench, public: Path, source: str, target: str, count: int) -> Run:
    """A program that knows nothing of tables connects so many queue pairs between two addresses."""
    env = {
        "MONKEYTREE_VERBS_TABLE": str(public / "routes.txt"),
        "FAKE_VERBS_GID": gid_of_address(source).replace(":", ""),
    }
    remote = gid_of_address(target).replace(":", "")
    run = program.run("connect", "1", str(count), "1", remote, env=env, drop=["MONKEYTREE_VERBS_LOG"])
    assert (run.returncode, run.output, run.errors) == (0, "0 failures\n", "")
    return run


def labels_set(run: Run) -> list[int]:
    """The flow label of each queue pair, in the order in which they were connected."""
    return [
        struct.unpack_from("=I", arguments, LABEL_AT)[0]
        for key, name, arguments in run.calls
        if key and name == "ibv_modify_qp" and struct.unpack_from("=I", arguments, 4)[0] == RTR
    ]


def assert_applied(program: Bench, made: Embedded, tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Agents serve the plan's tables, publish them, and queue pairs carry its labels, which is proved."""
    assert served(made) == tables
    for node in made.agents:
        text = (made.public(node) / "routes.txt").read_text("ascii")
        pairs = ports_of(tables.get(node, {"routes": []}))
        assert parse_table(text) == {pair: tuple(ports) for pair, ports in pairs.items()}
        for pair, ports in pairs.items():
            labels = labels_set(connect(program, made.public(node), *pair, len(ports)))
            wanted = [route["flow_label"] for route in tables[node]["routes"] if route["src_ip"] == pair[0]
                      and route["dst_ip"] == pair[1]]  # fmt: skip
            assert labels == wanted
            assert [port_of_label(label) for label in labels] == ports
        answer = httpx.get(
            f"{made.agents[node].url}/v1/routes/proof",
            headers={"Authorization": f"Bearer {SECRET}"}, timeout=30,
        ).json()  # fmt: skip
        assert answer == {"steered": [list(pair) for pair in pairs], "unsteered": [], "unseen": []}


def plan_of(site: Site, plan_id: str) -> dict[str, Any]:
    """The plan's document, which holds by the checker."""
    body: dict[str, Any] = orjson.loads(site.store.plan_body(plan_id) or b"")
    assert check(monkeytree.load_snapshot(site.document), monkeytree.load_plan(body)) == []
    return body


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_a_plan_at_rest_puts_the_labels_of_its_flows_on_queue_pairs(
    site_of: Sites,
    program: Bench,
    tmp_path: Path,
    family: str,
) -> None:
    site = site_of(document(family, *CROWDED[:2]), agent_call_s=20.0)
    plan = site.plan()
    assert {flow["udp_source_port"] is None for flow in plan_of(site, plan)["flows"]} == {False}
    with agents_of(site, tmp_path / "nodes") as made:
        done = executed(site, plan)
        assert [step["state"] for step in done["steps"]] == ["done"] * 4
        tables = planned(site, plan)
        assert sorted(tables) == ["r1n0", "r1n1", "r2n0", "r2n1"]
        assert_applied(program, made, tables)
        # Of a pair that no flow has, and of a node that sends nothing, queue pairs are left alone.
        one, other = (ADDRESS[family].format(1, node) for node in (1, 4))
        assert labels_set(connect(program, made.public("r1n0"), one, other, 2)) == [0, 0]
        assert labels_set(connect(program, made.public("r1n3"), other, one, 2)) == [0, 0]
    # The agents are gone: the table that is left says nothing any more.
    (pair, *_) = ports_of(tables["r1n0"])
    assert labels_set(connect(program, made.public("r1n0"), *pair, 1)) == [0]


def test_after_a_move_the_new_node_sends_by_the_plan_and_the_old_one_no_more(
    site_of: Sites,
    program: Bench,
    tmp_path: Path,
) -> None:
    site = site_of(document("ipv6", *CROWDED), agent_call_s=20.0, agent_patience_s=30.0, lease_s=60.0)
    plan = site.plan()
    body = plan_of(site, plan)
    (move,) = body["moves"]
    with agents_of(site, tmp_path / "nodes") as made:
        stale = Route("fd00:9::1", "fd00:9::2", 50_000, job="before")
        made.agents[move["from"]].put_routes(RouteTable(0, (stale,)))
        made.start_workers()
        assert wait_for(lambda: len(made.workers()) == 6, lambda: None, PATIENCE_S)
        done = executed(site, plan)
        kinds = {kind: [s for s in done["steps"] if s["kind"] == kind] for kind in ("move", "routes")}
        assert {step["state"] for steps in kinds.values() for step in steps} == {"done"}
        tables = planned(site, plan)
        assert move["from"] not in tables
        assert {step["from"] for step in kinds["routes"]} == {*tables, move["from"]}
        assert_applied(program, made, tables)
        where = {(worker.job, worker.rank): node for node, worker in made.workers()}
        assert where[move["job"], move["rank"]] == move["to"]
        again = monkeytree.make_plan(monkeytree.load_snapshot(made.snapshot(sequence=2)))
        assert (again.status, again.moves) == ("compliant", ())
