"""Answers that real clusters give and samples do not: odd states, GRES of every form, limits of users."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monkeytree.slurm import values
from monkeytree.slurm.advise import as_text, proposals
from monkeytree.slurm.build import Build, Reading, build_snapshot
from monkeytree.slurm.errors import InvalidAnswer, InvalidSite, InvalidTopology
from monkeytree.slurm.jobs import read_jobs
from monkeytree.slurm.nodes import read_nodes
from monkeytree.slurm.site_reading import read_site_file
from monkeytree.slurm.topology import group, read_topology

from .samples import site

TREE = "SwitchName=r1 Nodes=n[1-4]\nSwitchName=r2 Nodes=n[5-8]\nSwitchName=top Switches=r[1-2]\n"


def node(name: str, **more: Any) -> dict[str, Any]:
    """A node with eight GPUs."""
    return {"name": name, "state": "idle", "partitions": ["train"], "gres": "gpu:8", "gres_used": "", **more}


def job(job_id: int, nodes: str, **more: Any) -> dict[str, Any]:
    """A job that runs on these nodes, with all their GPUs."""
    return {
        "job_id": job_id, "job_state": "RUNNING", "nodes": nodes, "partition": "train",
        "gres_detail": ["gpu:8"] * (nodes.count(",") + 1), **more,
    }  # fmt: skip


def waiting(**more: Any) -> dict[str, Any]:
    """A job that waits for two nodes."""
    asks = {"tres_per_node": "gres:gpu:8", "state_reason": "Resources", "priority": 5, "node_count": 2}
    return {"job_id": 9, "job_state": "PENDING", "nodes": "", "partition": "train", **asks, **more}


def built(jobs: list[Any], first: dict[str, Any] | None = None) -> Build:
    """The snapshot of eight nodes, the first of them so."""
    where = replace(site(), pending=True)
    told = [node(f"n{number}") for number in range(1, 9)]
    told[0].update(first or {})
    read = Reading(read_jobs({"jobs": jobs}), read_nodes({"nodes": told}), read_topology(TREE), "lab")
    return build_snapshot(read, where)


@pytest.mark.parametrize(
    "state", ["A_STATE_OF_TOMORROW", "RUNNING,COMPLETING", ["RUNNING", "POWER_UP_NODE"], ["COMPLETING"]]
)
def test_nodes_of_a_job_in_an_unknown_state_are_not_free(state: Any) -> None:
    made = built([job(1, "n1,n2", job_state=state)])
    assert [made.snapshot.node_by_id[name].held for name in ("n1", "n2", "n3")] == [8, 8, 0]
    assert "its nodes are held" in made.left_out["1"]


def test_a_job_in_its_prolog_is_being_started() -> None:
    """With PrologFlags=Alloc Slurm 22.05 calls it running, for the reason Prolog."""
    made = built([job(1, "n1,n2", state_reason="Prolog"), job(2, "n5", state_reason="None")])
    assert made.left_out == {"1": "is running, in its prolog: its nodes are held"}
    assert [one.id for one in made.snapshot.jobs] == ["2"]
    assert made.snapshot.node_by_id["n1"].held == 8


@pytest.mark.parametrize("state", ["COMPLETED", ["CANCELLED"], ["NODE_FAIL"], "TIMEOUT"])
def test_nodes_of_a_job_that_is_over_are_free(state: Any) -> None:
    made = built([job(1, "n1,n2", job_state=state)])
    assert made.snapshot.node_by_id["n1"].held == 0
    assert made.left_out == {}


def test_two_jobs_of_one_id_are_refused() -> None:
    with pytest.raises(InvalidAnswer, match=r"/jobs/1/job_id: is the id of another job already, got 7"):
        read_jobs({"jobs": [job(7, "n1"), job(7, "n2")]})
    old = {**job(7, ""), "job_state": "COMPLETED"}
    assert len(read_jobs({"jobs": [old, job(7, "n2")]})) == 2, "a run of it that is over is no other job"


@pytest.mark.parametrize("state", ["FOO", "down*", "inval", "", [], ["PLANNED"]])
def test_a_node_in_no_known_state_takes_no_worker(state: Any) -> None:
    found = built([], {"state": state}).snapshot.node_by_id["n1"]
    assert (found.held, found.cordoned) == (8, True)


@pytest.mark.parametrize(
    ("gres", "count", "types"),
    [
        ("gpu:h100:8(S:0-1)", 8, ("h100",)),
        ("gpu:8(S:0,1)", 8, ()),
        ("gpu:(null):4(IDX:0-3)", 4, ()),
        ("gpu:(null):0(IDX:N/A)", 0, ()),
        ("gpu:1g.5gb:7", 7, ("1g.5gb",)),
        ("gpu:a100-sxm4-80gb:4(S:0),tmpdisk:100G", 4, ("a100-sxm4-80gb",)),
        ("gpu:a:2(IDX:0-1),gpu:b:1(IDX:2),shard:a:3(0/8,3/8)", 3, ("a", "b")),
        ("gres/gpu:h100=8", 8, ("h100",)),
        ("gres:gpu:2,mps:200", 2, ()),
        ("bandwidth:lustre:no_consume:4G", 0, ()),
        ("gpu:1K", 1024, ()),
        ("gpu", 1, ()),
        ("gpu:8,", 8, ()),
        ("(null)", 0, ()),
    ],
)
def test_generic_resources_of_every_form(gres: str, count: int, types: tuple[str, ...]) -> None:
    read = values.gres({"gres": gres}, "gres", "/nodes/0")
    assert (values.gres_count(read, "gpu"), values.gres_types(read, "gpu")) == (count, types)


@pytest.mark.parametrize("gres", ["gpu:8(S:0-1", "gpu:-1", "gpu:h100:", "gpu:h100:2.5", "8"])
def test_generic_resources_that_are_cut_off_are_refused(gres: str) -> None:
    """Not taken for none: the node would be free of GPUs, or the job without any."""
    with pytest.raises(InvalidAnswer, match=r"/nodes/0/gres: is no generic resource"):
        read_nodes({"nodes": [node("n1", gres=gres)]})
    with pytest.raises(InvalidAnswer, match=r"/jobs/0/gres_detail/0: is no generic resource"):
        read_jobs({"jobs": [job(1, "n1", gres_detail=[gres])]})


def test_wrong_types_of_gres_detail_are_refused_by_its_name() -> None:
    with pytest.raises(InvalidAnswer, match=r"/jobs/0/gres_detail: must be a list"):
        read_jobs({"jobs": [job(1, "n1", gres_detail="gpu:8")]})
    with pytest.raises(InvalidAnswer, match=r"/jobs/0/gres_detail/0: must be a string"):
        read_jobs({"jobs": [job(1, "n1", gres_detail=[8])]})


def test_a_cluster_that_accounts_for_types_only() -> None:
    made = built([job(1, "n1,n5", gres_detail=[], tres_alloc_str="cpu=4,gres/gpu:a=4,gres/gpu:b=4")])
    assert made.snapshot.jobs[0].replica_groups[0].slots_per_worker == 4
    assert values.tres_count("gres/gpu=4,gres/gpu:a=4", "gpu") == 4, "a sum, where there is one, counts"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"state_reason": "QOSMaxJobsPerUserLimit"}, "QOSMaxJobsPerUserLimit"),
        ({"state_reason": "AssocGrpGRES"}, "AssocGrpGRES"),
        ({"state_reason": "Licenses"}, "Licenses"),
        ({"state_reason": "JobArrayTaskLimit"}, "JobArrayTaskLimit"),
        ({"state_reason": "JobHoldMaxRequeue"}, "JobHoldMaxRequeue"),
        ({"state_reason": "PartitionTimeLimit"}, "PartitionTimeLimit"),
        ({"state_reason": "BadConstraints"}, "BadConstraints"),
        ({"state_reason": "None", "resv_name": "maint"}, "reservation maint"),
        ({"partition": "debug"}, "partition debug"),
        ({"features": "fast"}, "asks for fast"),
        ({"features": "fast|slow"}, "asks for fast|slow"),
    ],
)
def test_jobs_that_wait_for_more_than_nodes_are_passed_over(members: Any, why: str) -> None:
    made = built([waiting(**members)])
    assert made.snapshot.pending == ()
    assert why in made.not_pending["9"]


@pytest.mark.parametrize(
    "reason",
    [
        "Resources",
        "Priority",
        "None",
        "",
        "ReqNodeNotAvail, UnavailableNodes:n7",
        "Nodes_required_for_job_are_DOWN",
    ],
)
def test_jobs_that_wait_for_nodes_are_advised(reason: str) -> None:
    assert len(built([waiting(state_reason=reason)]).snapshot.pending) == 1


def test_a_constraint_is_kept_where_classes_tell_it() -> None:
    nodes = [node(f"n{number}", features=["fast"] if number > 6 else []) for number in range(1, 9)]
    where = {"classes": ["partitions", "gres", "features"]}
    told = replace(site(nodes=where), pending=True)
    read = Reading(
        read_jobs({"jobs": [waiting(features="fast")]}),
        read_nodes({"nodes": nodes}),
        read_topology(TREE),
        "lab",
    )
    (one,) = proposals(build_snapshot(read, told).snapshot)
    assert one.require == "n[7-8]"


def test_advice_names_one_task_of_an_array() -> None:
    """By the array's number ``scontrol`` would put all its tasks onto the same nodes."""
    row = waiting(array_job_id=9, array_task_id=None, array_task_string="3-10%2")
    assert "scontrol update JobId=9_3 ReqNodeList=n[1-2]" in as_text(proposals(built([row]).snapshot))


def test_a_layout_that_does_not_fit_keeps_its_rings() -> None:
    made = built([job(1, "n1,n2,n5", comment="monkeytree:tp=8,pp=2")])
    (group_,) = made.snapshot.jobs[0].replica_groups
    assert group_.rings == 8, "with one ring flows would be counted too few"


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        ("monkeytree:tp=8,tp=4", "tp is said twice"),
        ("monkeytree:tp=8, pp=4", "no spaces after commas"),
        ("monkeytree:tp=8 monkeytree:pp=2", "stands in it twice"),
    ],
)
def test_comments_that_say_two_things_are_told(comment: str, why: str) -> None:
    assert any(why in line for line in built([job(1, "n1,n2", comment=comment)]).warnings)


def test_a_key_that_stands_twice_in_a_site_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("racks: {uplinks: 4}\ncluster: a\nracks: {uplinks: 8}\n")
    with pytest.raises(InvalidSite, match="'racks' stands twice in one object, again in line 3"):
        read_site_file(file)


def labelled(**labels: Any) -> str:
    """``kubectl get nodes`` of three workers with these labels and a host of the control plane."""
    items = [
        {"metadata": {"name": f"n{at}", "labels": {k: v[at] for k, v in labels.items()}}} for at in range(3)
    ]
    return json.dumps({"kind": "List", "items": [*items, {"metadata": {"name": "master", "labels": {}}}]})


def test_nodes_without_labels_do_not_hide_the_others() -> None:
    """The control plane bears none; the nodes that Slurm has are grouped all the same."""
    told = read_topology(labelled(**{"fabric.topograph.run/tier-0": "aab"}), source="k8s.json")
    assert group(told, nodes=["n0", "n1", "n2"]).racks == {"a": ("n0", "n1"), "b": ("n2",)}
    with pytest.raises(InvalidTopology, match=r"master: has no fabric\.topograph\.run/tier-0"):
        group(told)


def test_labels_that_say_no_rack_are_refused_by_name() -> None:
    told = read_topology(labelled(**{"fabric.topograph.run/tier-1": "aab"}), source="k8s.json")
    with pytest.raises(
        InvalidTopology, match=r"levels: nothing says which level .* fabric\.topograph\.run/tier-1"
    ):
        group(told, nodes=["n0"])
