"""Ports in the forms that programs read: each reader gets what it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import monkeytree
from monkeytree.agent.labels import Labels, parse_table
from monkeytree.ecmp.exports import as_lines, by_node, for_agents, routes
from monkeytree.ecmp.label import label_of_port
from monkeytree.offence_log import OffenceLog
from monkeytree.wire.agent_schemas import RouteTableSchema
from tests.checker.test_steering import fabric, planned
from tests.cli.running import monkeytree as command
from tests.cli.running import write

CRC = {"leaf": {"algorithm": "crc16_ccitt"}}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("routes")
    document = fabric(CRC, rails=2)
    _, plan = planned(document)
    return write(folder / "snapshot.json", document), write(folder / "plan.json", monkeytree.dump_plan(plan))


def test_every_steered_flow_is_in_every_form() -> None:
    snapshot, plan = planned(fabric(CRC, rails=2))
    found = routes(snapshot, plan)
    assert len(found) == len(plan.flows) > 0
    ports = parse_table(as_lines(found))
    assert sum(map(len, ports.values())) == len(found)
    for route in found:
        assert route.port in ports[route.src_ip, route.dst_ip]
        assert route.src_ip in snapshot.node_by_id[route.node].addresses
    assert {node: len(rows) for node, rows in by_node(found).items()} == {
        node: len(body["routes"]) for node, body in for_agents(found, 3).items()
    }


def test_queue_pairs_get_the_labels_of_their_rings_in_turn() -> None:
    snapshot, plan = planned(fabric(CRC))
    labels = Labels(parse_table(as_lines(routes(snapshot, plan))))
    for route in routes(snapshot, plan):
        assert labels.next_label(route.src_ip, route.dst_ip) == route.flow_label == label_of_port(route.port)


def test_an_agent_reads_its_table() -> None:
    snapshot, plan = planned(fabric(CRC, pods=True))
    for body in for_agents(routes(snapshot, plan), epoch=7).values():
        log = OffenceLog()
        table: Any = RouteTableSchema.read(body, log, ())
        assert log.listed == []
        assert table.epoch == 7
        assert all(0xC000 <= route.port <= 0xFFFF for route in table.routes)


def test_moved_workers_send_from_their_new_nodes() -> None:
    document = fabric(CRC, uplinks=1)
    for job in document["jobs"]:
        job["mobility"] = "live"
    snapshot, plan = planned(document)
    assert plan.moves
    at = {(j.id, g.id, rank): node for j, g in snapshot.groups for rank, node in enumerate(g.workers)}
    at |= {(move.job, move.group, move.rank): move.target for move in plan.moves}
    senders = sorted(at[flow.job, flow.group, flow.from_rank] for flow in plan.flows)
    assert senders == sorted(route.node for route in routes(snapshot, plan))


@pytest.mark.parametrize("form", ["lines", "json", "agents"])
def test_the_command_writes_them(files: tuple[Path, Path], form: str) -> None:
    done = command("routes", *files, "--format", form)
    assert (done.returncode, done.stderr) == (0, "")
    if form == "lines":
        assert parse_table(done.stdout)
        return
    tables = json.loads(done.stdout)
    one = json.loads(command("routes", *files, "--format", form, "--node", "n00").stdout)
    assert one == {"n00": tables["n00"]}


def test_the_command_says_what_is_not_steered(files: tuple[Path, Path], tmp_path: Path) -> None:
    document = json.loads(files[0].read_text())
    for rack in document["racks"][:1]:
        rack["nodes"]["n00"] = 4
    _, plan = planned(document)
    done = command(
        "routes", write(tmp_path / "s", document), write(tmp_path / "p", monkeytree.dump_plan(plan))
    )
    assert done.returncode == 3
    assert "flows cannot be steered: no_address" in done.stderr
    assert parse_table(done.stdout)


def test_a_plan_that_does_not_hold_is_told(files: tuple[Path, Path], tmp_path: Path) -> None:
    for member, value in (("rail", 7), ("from_rank", 99), ("job", "nobody")):
        document = json.loads(files[1].read_text())
        document["flows"][0][member] = value
        done = command("routes", files[0], write(tmp_path / "plan.json", document))
        assert (done.returncode, "does not hold" in done.stderr, done.stdout) == (2, True, ""), done.stderr


def test_wrong_input_is_told(files: tuple[Path, Path], tmp_path: Path) -> None:
    assert "no node" in command("routes", *files, "--node", "nowhere").stderr
    document = json.loads(files[0].read_text())
    document["cluster"] = "other"
    done = command("routes", write(tmp_path / "other.json", document), files[1])
    assert (done.returncode, "made for another snapshot" in done.stderr) == (2, True)
    document["fabric"] = {"rails": 2}
    _, plan = planned(document)
    done = command(
        "routes", write(tmp_path / "s", document), write(tmp_path / "p", monkeytree.dump_plan(plan))
    )
    assert (done.returncode, "no fabric.hash" in done.stderr) == (2, True)
