"""Snapshots to documents and back, and the id of their content."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import monkeytree
from monkeytree.errors import InvalidDocument, UnsupportedMember
from monkeytree.identity import placement_id
from monkeytree.snapshot import Planning, Snapshot
from monkeytree.wire.schema import DocumentSchema, Part
from monkeytree.wire.snapshot import (
    PlanningSchema,
    SnapshotSchema,
    dump_snapshot,
    load_snapshot,
    parse_snapshot,
    snapshot_id,
)
from tests.wire.samples import good, snapshots

quick = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(snapshots())
def test_a_snapshot_reads_back_from_its_document(snapshot: Snapshot) -> None:
    document = dump_snapshot(snapshot)
    assert load_snapshot(document) == snapshot
    assert parse_snapshot(json.dumps(document)) == snapshot
    assert dump_snapshot(load_snapshot(document)) == document


def _shuffled(draw: Callable[[st.SearchStrategy[Any]], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shuffled(draw, value[key]) for key in draw(st.permutations(list(value)))}
    if isinstance(value, list):
        return [_shuffled(draw, item) for item in value]
    return value


@quick
@given(snapshots(), st.data())
def test_the_id_does_not_depend_on_member_order(snapshot: Snapshot, data: st.DataObject) -> None:
    shuffled = _shuffled(data.draw, dump_snapshot(snapshot))
    assert snapshot_id(load_snapshot(shuffled)) == snapshot_id(snapshot)


def test_the_id_does_not_depend_on_explicit_defaults() -> None:
    long = good()
    short = good()
    del short["fabric"], short["planning"], short["sequence"]
    short["taken_at"] = "2030-01-01T00:00:00.5+00:00"
    group = short["jobs"][0]["replica_groups"][0]
    for member in ("rings", "slots_per_worker", "state_gb", "order"):
        del group[member]
    del short["jobs"][0]["mobility"]
    short["racks"][0]["uplinks"] = [1, 0]
    short["racks"][0]["nodes"]["r1n1"] = {"slots": 2.0, "held": 0, "class": "", "labels": {}, "drain": False}
    short["jobs"][0]["classes"] = [""]
    assert snapshot_id(load_snapshot(short)) == snapshot_id(load_snapshot(long))


@pytest.mark.parametrize(
    "change",
    [
        {"cluster": "other"},
        {"labels": {"a": "b"}},
        {"fabric": {"nic_gbps": 200}},
        {"jobs": []},
        {"racks": [*good()["racks"], {"id": "r3", "uplinks": 1, "pod": "p1", "nodes": {}}]},
    ],
)
def test_the_id_depends_on_the_content(change: dict[str, Any]) -> None:
    assert snapshot_id(load_snapshot({**good(), **change})) != snapshot_id(load_snapshot(good()))


def test_the_id_is_the_hash_of_the_stated_text() -> None:
    document = {
        "format": 1, "cluster": "é", "taken_at": "2026-11-29T18:00:00Z", "jobs": [],
        "racks": [{"uplinks": 1, "nodes": {"b": 1, "a": {"slots": 1, "held": 1}}, "id": "r"}],
    }  # fmt: skip
    text = (
        '{"cluster":"é","format":1,"jobs":[],'
        '"racks":[{"id":"r","nodes":{"a":{"held":1,"slots":1},"b":1},"uplinks":1}]}'
    )
    assert snapshot_id(load_snapshot(document)) == sha256(text.encode()).hexdigest()


def test_defaults_are_the_contracts() -> None:
    snapshot = load_snapshot({k: v for k, v in good().items() if k not in ("fabric", "planning")})
    assert (snapshot.fabric.nic_gbps, snapshot.fabric.uplink_gbps, snapshot.fabric.rails) == (400, None, 1)
    assert (snapshot.planning.pause_overhead_s, snapshot.planning.restart_s) == (9.02, 120)
    assert snapshot.racks[1].spines == (0, 2)
    assert snapshot.racks[1].nodes[1].node_class == "h200"
    assert snapshot.jobs[0].replica_groups[0].pinned == {0}


@pytest.mark.parametrize(
    "member",
    ["pod", "order", "classes", "uplink_gbps", "sequence", "traffic_gb", "iteration_s", "remaining_s"],
)
def test_null_means_left_out_where_that_is_the_default(member: str) -> None:
    document = good()
    document["pods"] = []
    for rack in document["racks"]:
        del rack["pod"]
    holder: dict[str, Any] = {
        "pod": document["racks"][0],
        "order": document["jobs"][0]["replica_groups"][0],
        "classes": document["jobs"][0],
        "uplink_gbps": document["fabric"],
        "sequence": document,
        "traffic_gb": document["jobs"][0]["replica_groups"][0],
        "iteration_s": document["jobs"][0]["replica_groups"][0],
        "remaining_s": document["jobs"][0],
    }[member]
    holder.pop(member, None)
    left_out = load_snapshot(document)
    holder[member] = None
    assert load_snapshot(document) == left_out


def test_sources(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(good()), encoding="utf-8-sig")
    expected = load_snapshot(good())
    assert load_snapshot(path) == load_snapshot(str(path)) == expected
    assert load_snapshot(io.BytesIO(path.read_bytes())) == expected
    assert monkeytree.load_snapshot(path) == expected
    with pytest.raises(FileNotFoundError):
        load_snapshot(tmp_path / "none.json")


def test_only_reserved_members_are_told_apart() -> None:
    with pytest.raises(UnsupportedMember) as caught:
        load_snapshot({**good(), "planes": 2, "overlays": []})
    assert [offence.pointer for offence in caught.value.offences] == ["/overlays", "/planes"]
    assert {offence.code for offence in caught.value.offences} == {"unsupported_member"}


def test_the_schema_writes_documents_and_models() -> None:
    snapshot = load_snapshot(good())
    assert SnapshotSchema().dump(snapshot) == dump_snapshot(snapshot)
    assert SnapshotSchema().dump(good()) == good()


def test_a_large_snapshot_loads_whole() -> None:
    racks = [{"id": f"r{r}", "uplinks": 8, "nodes": {f"r{r}n{n}": 8 for n in range(8)}} for r in range(1_024)]
    workers = [f"r{i % 1_024}n{i // 1_024 % 8}" for i in range(65_536)]
    job_list = [
        {"id": f"j{j}", "replica_groups": [{"id": "0", "workers": workers[64 * j : 64 * j + 64]}]}
        for j in range(1_024)
    ]
    document = {**good(), "racks": racks, "pods": [], "jobs": job_list}
    snapshot = load_snapshot(document)
    assert sum(len(job.replica_groups[0].workers) for job in snapshot.jobs) == 65_536


class _Request(DocumentSchema):
    planning = Part(PlanningSchema)


def test_planning_stands_in_other_requests_too() -> None:
    assert _Request().load({"planning": {"max_moves": 3}}) == {"planning": Planning(max_moves=3)}
    with pytest.raises(InvalidDocument) as caught:
        _Request().load({"planning": {"max_moves": -3, "x": 1}, "y": 2})
    assert [o.pointer for o in caught.value.offences] == ["/planning/max_moves", "/planning/x", "/y"]


def test_the_placement_is_told_apart_from_what_is_said_about_it() -> None:
    plain = good()
    told = good()
    told["labels"] = {"taken-by": "cron"}
    told["racks"][0]["nodes"]["r1n1"] = {"slots": 2, "labels": {"row": "7"}}
    told["jobs"][0].update(remaining_s=3600, labels={"tenant": "t2"})
    told["jobs"][0]["replica_groups"][0].update(iteration_s=1.5, traffic_gb=26)
    one, other = load_snapshot(plain), load_snapshot(told)
    assert snapshot_id(one) != snapshot_id(other)
    assert placement_id(one) == placement_id(other)
    told["jobs"][0]["replica_groups"][0]["workers"] = ["r1n1", "r2n1", "r2n1"]
    assert placement_id(load_snapshot(told)) != placement_id(one)
