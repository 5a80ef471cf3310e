"""Snapshots from captured answers: what is a worker, what is held, what may move."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import monkeytree
from monkeytree.identity import dump_snapshot
from monkeytree.slurm.build import Build, Reading, build_snapshot
from monkeytree.slurm.errors import InvalidAnswer, InvalidSite, InvalidTopology, SlurmFailed
from monkeytree.slurm.jobs import SlurmJob, read_jobs
from monkeytree.slurm.nodes import SlurmNode, read_nodes
from monkeytree.slurm.topology import read_topology
from monkeytree.wire.snapshot import load_snapshot

from .golden import GOLDEN, golden_document
from .newer import newer_jobs, newer_nodes, newer_sinfo
from .samples import DATA, SETS, document, reading, site


@pytest.mark.parametrize("name", [*SETS])
def test_every_sample_parses_to_the_expected_snapshot(name: str) -> None:
    """The expected documents were checked by hand once; tests/slurm/golden.py writes them."""
    expected = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    found = golden_document(name)
    assert found == expected
    load_snapshot(found["snapshot"])


def build(name: str, **sections: Any) -> Build:
    where = site(**sections)
    made: Build = build_snapshot(reading(name, where), where)
    return made


def job(built: Build, job_id: str) -> Any:
    return next(one for one in built.snapshot.jobs if one.id == job_id)


def test_gpu_nodes_are_eight_slots_and_their_jobs_restart() -> None:
    built = build("gpus")
    assert built.left_out == {}
    assert len(built.snapshot.jobs) == 21
    big = job(built, "30").replica_groups[0]
    assert big.workers[:2] == ("node008", "node014")
    assert big.slots_per_worker == 8
    assert {one.mobility for one in built.snapshot.jobs} == {"restart"}, "GRES cannot be expanded"
    assert built.snapshot.node_by_id["node126"].held == 0
    labels = job(built, "30").labels
    assert labels == {"slurm_job_id": "30", "name": "train106", "user": "root", "partition": "train"}


def test_one_step_a_worker_is_live_and_its_batch_host_pinned() -> None:
    built = build("live")
    for one in built.snapshot.jobs:
        assert one.mobility == "live"
        assert one.replica_groups[0].pinned == {0}, "the batch host"
    found = monkeytree.make_plan(built.snapshot)
    assert (found.status, found.moves_needed) == ("optimal", 2)
    assert monkeytree.check(built.snapshot, found) == []


@pytest.mark.parametrize(
    ("jobs", "mobility", "pinned"),
    [
        ({"profile": "requeue"}, "restart", set()),
        ({"profile": "requeue", "pin_batch_host": "always"}, "restart", {0}),
        ({"profile": "none"}, "none", set()),
        ({"layout": {"mobility": "none"}}, "none", set()),
        ({"layout": {"mobility": "restart"}}, "restart", set()),
        ({"rules": [{"match": {"name": "A"}, "layout": {"mobility": "none"}}]}, "none", set()),
        ({"pin_batch_host": "never"}, "live", set()),
    ],
)
def test_the_site_says_how_jobs_move(jobs: dict[str, Any], mobility: str, pinned: set[int]) -> None:
    first = job(build("live", jobs=jobs), "1")
    assert first.mobility == mobility
    assert first.replica_groups[0].pinned == pinned


@pytest.mark.parametrize("steps", [None, {}, {"1": (("node001", "node002"),)}])
def test_without_a_step_for_each_worker_a_job_is_not_live(steps: Any) -> None:
    where = site()
    read = replace(reading("live"), steps=steps)
    assert job(build_snapshot(read, where), "1").mobility == "restart"
    assume = site(jobs={"steps": "assume"})
    assert job(build_snapshot(read, assume), "1").mobility == "live"


def test_states_of_nodes() -> None:
    nodes = build("states").snapshot.node_by_id
    assert nodes["node001"].drain, "DRAIN"
    assert nodes["node001"].held == 8, "COMPLETING"
    assert nodes["node002"].held == 8, "COMPLETING"
    assert nodes["node030"].drain
    assert (nodes["node031"].cordoned, nodes["node031"].held, nodes["node031"].drain) == (True, 8, False), (
        "DOWN"
    )
    assert (nodes["node032"].cordoned, nodes["node032"].held) == (True, 0), "RESERVED"
    assert nodes["node029"].held == 0
    assert nodes["node010"].accepts
    cordon = build("states", nodes={"draining": "cordon"}).snapshot.node_by_id
    assert (cordon["node030"].cordoned, cordon["node030"].drain) == (True, False)


def test_kinds_of_jobs() -> None:
    built = build("states")
    assert sorted(one.id for one in built.snapshot.jobs) == ["1", "10", "11", "3", "4", "7", "9"]
    assert job(built, "11").labels["slurm_id"] == "3_2", "an array task"
    het = job(built, "4")
    assert het.mobility == "none"
    assert het.replica_groups[0].workers == ("node003", "node004", "node005"), "its components together"
    assert job(built, "7").mobility == "none", "--no-requeue"
    halves = job(built, "7").replica_groups
    assert [group.workers for group in halves] == [("node006",), ("node007",)], "pp=2 of its comment"
    assert halves[0].rings == 4
    assert built.left_out["2"] == "is completing: its nodes are held"
    assert "holds no gpu" in built.left_out["6"]


def with_jobs(name: str, *changes: tuple[int, dict[str, Any]]) -> Reading:
    read = reading(name)
    by_id = dict(changes)
    return replace(read, jobs=tuple(replace(one, **by_id.get(one.job_id, {})) for one in read.jobs))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"states": frozenset({"RUNNING", "CONFIGURING"})}, "is configuring+running: its nodes are held"),
        ({"states": frozenset({"SUSPENDED"})}, "is suspended: its nodes are held"),
        ({"name": "mt:plan:0"}, "carries a plan out: its nodes are held"),
        ({"comment": "mt:plan:0"}, "carries a plan out: its nodes are held"),
    ],
)
def test_what_is_taken_is_held(change: dict[str, Any], why: str) -> None:
    built = build_snapshot(with_jobs("gpus", (7, change)), site())
    assert built.left_out == {"7": why}
    assert [built.snapshot.node_by_id[node].held for node in ("node033", "node034")] == [8, 8]


def test_rules_ignore_jobs() -> None:
    built = build("gpus", jobs={"rules": [{"match": {"name": "train00*", "user": "root"}, "ignore": True}]})
    assert set(built.left_out) == {"1", "2", "3", "4", "5", "7", "8", "9"}
    assert built.snapshot.node_by_id["node033"].held == 8


def test_uneven_workers_do_not_move() -> None:
    gres = ("gpu:h100:8(IDX:0-7)", "gpu:h100:4(IDX:0-3)")
    built = build_snapshot(with_jobs("gpus", (7, {"gres": gres})), site())
    assert job(built, "7").mobility == "none"
    assert job(built, "7").replica_groups[0].slots_per_worker == 4
    assert built.snapshot.node_by_id["node033"].held == 4, "what it holds beyond"
    assert built.snapshot.node_by_id["node034"].held == 4, "all processors are allocated"


def test_slots_used_by_nobody_we_know_are_held() -> None:
    read = reading("gpus")
    gone = replace(read, jobs=tuple(one for one in read.jobs if one.job_id != 7))
    assert build_snapshot(gone, site()).snapshot.node_by_id["node033"].held == 8


def test_whole_nodes_shared_by_two_jobs_stay() -> None:
    built = build_snapshot(reading("states"), site(nodes={"slots": "whole"}))
    shared = built.snapshot.node_by_id["node029"]
    assert (shared.slots, shared.cordoned) == (3, True)
    assert job(built, "11").replica_groups[0].pinned == {0}


@pytest.mark.parametrize(
    ("comment", "groups", "rings"),
    [
        ("", [(0, 1, 2, 3, 4, 5)], 1),
        ("tuning run", [(0, 1, 2, 3, 4, 5)], 1),
        ("monkeytree:tp=8,pp=2,dp=3", [(0, 1, 2), (3, 4, 5)], 8),
        ("a; monkeytree:tp=4,pp=3 b", [(0, 1), (2, 3), (4, 5)], 4),
        ("monkeytree:pp=2,rings=0", [(0, 1, 2), (3, 4, 5)], 0),
        ("monkeytree:groups=0.2.4/1.3.5,orders=0.4.2/1.3.5", [(0, 2, 4), (1, 3, 5)], 1),
        ("monkeytree:groups=0-2/3-5", [(0, 1, 2), (3, 4, 5)], 1),
    ],
)
def test_layouts_of_comments(comment: str, groups: list[tuple[int, ...]], rings: int) -> None:
    built = build_snapshot(with_jobs("gpus", (8, {"comment": comment})), site())
    nodes = [f"node{n:03d}" for n in range(35, 41)]
    found = job(built, "8").replica_groups
    assert [group.workers for group in found] == [tuple(nodes[at] for at in group) for group in groups]
    assert {group.rings for group in found} == {rings}
    assert built.warnings == ()
    if "orders" in comment:
        assert [group.order for group in found] == [(0, 2, 1), (0, 1, 2)]


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        ("monkeytree:tp=3", "tp=3 does not divide its 8 GPUs a node"),
        ("monkeytree:tp=16", "such a group spans nodes"),
        ("monkeytree:pp=4", "pp=4 does not divide its 6 nodes"),
        ("monkeytree:tp=8,pp=2,dp=4", "tp x pp x dp = 64, but it has 48 GPUs"),
        ("monkeytree:groups=0-2/3-9", "not of its workers 0 to 5"),
        ("monkeytree:groups=0-2/2-5", "names a worker twice"),
        ("monkeytree:groups=0-2,orders=0.1", "not of the workers"),
        ("monkeytree:tp", "'tp' is no key=value"),
        ("monkeytree:tp=many", "tp is no number"),
        ("monkeytree:speed=9", "'speed' is no member of a layout"),
        ("monkeytree:mobility=fast", "mobility must be one of"),
        ("monkeytree:groups=0-9999999", "more than 100,000 workers"),
    ],
)
def test_a_layout_that_does_not_fit_is_told_and_counts_as_data_parallel(comment: str, why: str) -> None:
    built = build_snapshot(with_jobs("gpus", (8, {"comment": comment})), site())
    (warning,) = built.warnings
    assert "job 8" in warning
    assert why in warning
    assert len(job(built, "8").replica_groups) == 1
    assert len(job(built, "8").replica_groups[0].workers) == 6


def test_the_environment_and_rules_say_layouts_too() -> None:
    where = site(
        jobs={
            "environment": {"tp": "TP", "pp": "PIPES"},
            "rules": [{"match": {"partition": "train"}, "layout": {"tp": 8, "state_gb": 40}}],
        }
    )
    read = replace(reading("gpus"), environments={8: {"PIPES": "2", "HOME": "/"}, 9: {"PIPES": "x"}})
    built = build_snapshot(read, where)
    assert [group.rings for group in job(built, "8").replica_groups] == [8, 8]
    assert {group.state_gb for group in job(built, "8").replica_groups} == {40.0}
    assert len(built.warnings) == 1
    assert "pp is no number" in built.warnings[0]


def test_partitions_and_gpu_types_are_classes() -> None:
    read = reading("gpus")

    def changed(node: SlurmNode) -> SlurmNode:
        number = int(node.name[4:])
        partitions = ("debug", "train") if number <= 32 else ("train",)
        return replace(node, partitions=partitions, gres="gpu:a100:8" if number > 96 else node.gres)

    built = build_snapshot(replace(read, nodes=tuple(map(changed, read.nodes))), site())
    nodes = built.snapshot.node_by_id
    assert [nodes[f"node{n:03d}"].node_class for n in (1, 40, 100)] == [
        "debug+train/h100",
        "train/h100",
        "train/a100",
    ]
    assert job(built, "8").classes == {"debug+train/h100", "train/h100"}, "its partition, its GPUs"
    assert job(built, "18").classes == {"train/a100"}


def test_pods_and_exceptions() -> None:
    built = build(
        "gpus",
        racks={"uplinks": 4, "exceptions": {"rack02": [0, 2, 3]}},
        topology={"levels": ["level1", "level0"]},
        pods={"uplinks": 8, "exceptions": {"spine01": 6}},
    )
    racks = {rack.id: rack for rack in built.snapshot.racks}
    assert racks["rack02"].spines == (0, 2, 3)
    assert racks["rack02"].pod == "spine01"
    assert [(pod.id, pod.uplinks) for pod in built.snapshot.pods][:2] == [("spine01", 6), ("spine02", 8)]
    with pytest.raises(InvalidSite, match="/racks/exceptions/rack99"):
        build("gpus", racks={"uplinks": 4, "exceptions": {"rack99": 2}})
    with pytest.raises(InvalidSite, match="needs two topology"):
        build("gpus", pods={"uplinks": 8})


def test_nodes_outside_the_topology() -> None:
    small = read_topology("SwitchName=a Nodes=node[001-064]\n")
    read = replace(reading("gpus"), topology=small)
    with pytest.raises(InvalidTopology, match=r"node065.*so are 63 others"):
        build_snapshot(read, site())
    built = build_snapshot(read, site(topology={"unknown": "ignore"}))
    assert len(built.snapshot.node_by_id) == 64
    assert built.left_out["30"] == "runs on node077, which is no node of the snapshot"
    assert build_snapshot(read, site(nodes={"ignore": "node[065-128]"})).warnings == ()


def test_the_cluster_needs_a_name() -> None:
    read = replace(reading("gpus"), cluster=None)
    with pytest.raises(InvalidSite, match="/cluster"):
        build_snapshot(read, site())
    assert build_snapshot(read, site(cluster="east")).snapshot.cluster == "east"


@pytest.mark.parametrize("name", ["squeue.json", "states_squeue.json", "live_squeue.json"])
def test_jobs_in_the_newer_shape_are_the_same(name: str) -> None:
    assert read_jobs(newer_jobs(document(name))) == read_jobs(document(name))


@pytest.mark.parametrize("name", ["sinfo.json", "states_sinfo.json"])
def test_nodes_in_the_newer_shapes_are_the_same(name: str) -> None:
    older = {node.name: node for node in read_nodes(document(name))}
    assert {node.name: node for node in read_nodes(newer_nodes(document(name)))} == older
    grouped = read_nodes(newer_sinfo(document(name)))
    assert {node.name: node for node in grouped} == older


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"job_id": None}, "/jobs/0/job_id"),
        ({"job_id": "one"}, "/jobs/0/job_id"),
        ({"job_state": None}, "/jobs/0/job_state"),
        ({"job_state": 7}, "/jobs/0/job_state"),
        ({"nodes": "node[001-"}, "/jobs/0/nodes"),
        ({"nodes": ""}, "/jobs/0/nodes"),
        ({"nodes": ["node001"]}, "/jobs/0/nodes"),
        ({"requeue": "yes"}, "/jobs/0/requeue"),
        ({"node_count": {"set": True, "number": "six"}}, "/jobs/0/node_count"),
    ],
)
def test_a_malformed_job_is_named(change: dict[str, Any], where: str) -> None:
    answer = document("squeue.json")
    answer["jobs"][0].update(change)
    with pytest.raises(InvalidAnswer) as caught:
        read_jobs(answer)
    assert caught.value.offences[0].pointer == where


@pytest.mark.parametrize(
    ("answer", "where"),
    [
        ({}, "/nodes"),
        ([], "/nodes"),
        ({"nodes": {}}, "/nodes"),
        ({"nodes": [7]}, "/nodes/0"),
        ({"nodes": [{"state": "idle"}]}, "/nodes/0/name"),
        ({"nodes": [{"name": "n1"}]}, "/nodes/0/state"),
        ({"nodes": [{"name": "n1", "state": "idle", "partitions": 7}]}, "/nodes/0/partitions"),
        ({"nodes": [{"name": "n1", "state": "idle"}] * 2}, "/nodes/1/name"),
        ({"sinfo": [{"nodes": {"nodes": ["n1"]}}]}, "/sinfo/0/gres"),
    ],
)
def test_a_malformed_node_is_named(answer: Any, where: str) -> None:
    with pytest.raises(InvalidAnswer) as caught:
        read_nodes(answer)
    assert caught.value.offences[0].pointer == where


def test_truncated_answers_are_named() -> None:
    from monkeytree.slurm.answers import parse

    text = (DATA / "squeue.json").read_text("utf-8")
    with pytest.raises(InvalidAnswer, match="squeue --json: is not JSON"):
        parse(text[: len(text) // 2], "squeue --json")


def test_errors_come_with_good_answers() -> None:
    answer = {"errors": [{"error_number": 1007, "error": "Protocol authentication error"}], "jobs": []}
    with pytest.raises(SlurmFailed, match=r"Protocol authentication error \(1007\)"):
        read_jobs(answer)


def test_a_snapshot_reads_back() -> None:
    built = build(
        "states", labels={"site": "lab"}, fabric={"rails": 4}, planning={"objective": "gpu_seconds"}
    )
    written = dump_snapshot(built.snapshot)
    assert load_snapshot(written) == built.snapshot
    assert built.snapshot.labels == {"site": "lab"}


def test_a_donor_without_nodes_is_nothing() -> None:
    answer = document("live_squeue.json")
    answer["jobs"][0].update(name="mt:plan:0", nodes="", node_count=0)
    read = replace(reading("live"), jobs=read_jobs(answer))
    built = build_snapshot(read, site())
    assert len(built.snapshot.jobs) == 2
    assert built.left_out == {"1": "carries a plan out: its nodes are held"}


def test_a_job_is_a_value() -> None:
    jobs: tuple[SlurmJob, ...] = read_jobs(document("e2e_after_squeue.json"))
    moved = {one.name: one.nodes for one in jobs if one.running}
    assert moved["C"] == tuple(f"node{n:03d}" for n in (12, 13, 14, 15, 25, 26, 27, 28, 29))
    assert [one.ours for one in jobs if one.name == "mt-donor"] == [False, False], "only names that start mt:"
