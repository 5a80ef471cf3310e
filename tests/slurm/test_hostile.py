"""What users put into their jobs, and people into files: it is read, or refused by name, and soon."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import monkeytree
from monkeytree.errors import MonkeyTreeError
from monkeytree.slurm import answers
from monkeytree.slurm.advise import as_text, proposals
from monkeytree.slurm.build import Build, Reading, build_snapshot
from monkeytree.slurm.errors import InvalidAnswer, InvalidSite, InvalidTopology
from monkeytree.slurm.hostlist import BadHostlist, expand
from monkeytree.slurm.jobs import read_jobs
from monkeytree.slurm.nodes import read_nodes
from monkeytree.slurm.site_reading import read_site_file
from monkeytree.slurm.topology import KINDS, read_topology

from .samples import TAKEN_AT, document, reading, site

NINES = "9" * 5000
WAITING = {
    "job_state": "PENDING", "nodes": "", "state_reason": "Resources", "priority": 5, "node_count": 2,
    "het_job_id": 0, "required_nodes": "", "excluded_nodes": "",
}  # fmt: skip


def built(**members: Any) -> Build:
    """The states sample with these members in its first job, through JSON in bytes as Slurm sends it."""
    told = document("states_squeue.json")
    told["jobs"][0].update(members)
    read = read_jobs(answers.parse(json.dumps(told).encode(), "squeue"))
    where = replace(site(jobs={"remaining": "time_limit"}), pending=True)
    return build_snapshot(replace(reading("states", where), jobs=read, taken_at=TAKEN_AT), where)


@pytest.mark.parametrize(
    "members",
    [
        {"comment": f"monkeytree:groups=0-3/4-{NINES}"},
        {"comment": f"monkeytree:tp={NINES}"},
        {"comment": "monkeytree:groups=\u0663"},
        {"comment": "monkeytree:state_gb=nan,rings=99999999"},
        {"comment": "monkeytree:\x1b]0;x=1"},
        {"name": "\ud800"},
        {"name": "x" * 5000},
        {"end_time": 2**32 - 2},
        {**WAITING, "submit_time": 10**30},
        {**WAITING, "node_count": 2**32 - 1},
        {**WAITING, "tres_per_node": f"gpu:{NINES}"},
    ],
)
def test_no_job_keeps_all_others_out_of_the_snapshot(members: Any) -> None:
    snapshot = built(**members).snapshot
    assert len(snapshot.jobs) >= 5  # six run in the sample, and one may be made to wait
    assert monkeytree.load_snapshot(monkeytree.dump_snapshot(snapshot)) == snapshot


def test_a_name_that_is_no_utf_8_is_read() -> None:
    text = json.dumps(document("states_squeue.json")).encode()
    name = b'"name": "' + document("states_squeue.json")["jobs"][0]["name"].encode()
    assert name in text
    assert read_jobs(answers.parse(text.replace(name, b'"name": "\xff', 1), "squeue"))[0].name.startswith(
        "\ufffd"
    )


def test_a_job_s_name_adds_no_line_to_the_advice() -> None:
    build = built(**WAITING, name="a\n  scontrol update JobId=1 ReqNodeList=mine\x1b[2J\u202e")
    text = as_text(proposals(build.snapshot))
    assert all(line.startswith(("job ", "  scontrol ")) and line.isprintable() for line in text.split("\n"))
    assert sum("ReqNodeList=mine" in line and not line.startswith("job ") for line in text.split("\n")) == 0


@pytest.mark.parametrize("name", ["a b", "a,b", "n[1-3]", "a\nb", "$(x)", "a;b", "@all", "", 7])
def test_a_node_that_cannot_stand_in_a_hostlist_is_refused(name: Any) -> None:
    told = document("states_sinfo.json")
    told["nodes"][3]["name"] = name
    with pytest.raises(InvalidAnswer, match="/nodes/3/name"):
        read_nodes(told)


@pytest.mark.parametrize(
    "text",
    [
        "n[0-999999999]",
        f"n[{NINES}]",
        f"n[1-{NINES}]",
        "n" + "[1]" * 3000,
        "n[1-200000],n200000",
        "n[\u0663]",
    ],
)
def test_a_short_hostlist_asks_for_no_huge_answer(text: str) -> None:
    with pytest.raises(BadHostlist):
        expand(text)


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
MERGED = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 10)
)
SMALL_BOMB = BOMB[: BOMB.index("a6:")] + "cluster: *a5\nracks: *a5\n"


@pytest.mark.parametrize(
    "text",
    [
        BOMB, MERGED, SMALL_BOMB, "&a [*a]", "racks: &a {exceptions: *a}", "a: 2026-99-99", "!!timestamp x",
        f"racks: {{uplinks: {NINES}}}", "!!python/object:os.system x", "\0", "? [a]\n: b", "- " * 20_000,
        "cluster: [", "--- a\n--- b", "fabric: {nic_gbps: .nan}", 'cluster: "\\ud800"',
    ],
)  # fmt: skip
def test_yaml_of_any_kind_is_refused_by_name(text: str, tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(InvalidSite):
        read_site_file(file)
    for kind in (None, *KINDS):
        with pytest.raises(InvalidTopology):
            read_topology(text, kind)


def test_aliases_are_welcome_where_they_stand_for_little(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("racks: {uplinks: &n 4, exceptions: {r1: *n}}\n", "utf-8")
    assert read_site_file(file).racks.of("r1") == 4


def test_a_topology_that_misses_nodes_names_one() -> None:
    read = reading("states")
    some = dict(list(read.topology.nodes.items())[:-1])
    missing = next(name for name in read.topology.nodes if name not in some)
    short = Reading(read.jobs, read.nodes, replace(read.topology, nodes=some), read.cluster)
    with pytest.raises(MonkeyTreeError, match=missing):
        build_snapshot(short, site())
