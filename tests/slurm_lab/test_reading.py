"""Snapshots of a real cluster: placements, REST, environments, and what they cost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

import monkeytree
from monkeytree.identity import placement_id
from monkeytree.placement import Arrangement, degrees
from monkeytree.slurm.advise import proposals
from monkeytree.slurm.build import build_snapshot
from monkeytree.slurm.errors import SlurmFailed
from monkeytree.slurm.rest import RestClient
from monkeytree.slurm.site import Site
from monkeytree.slurm.site_reading import read_site
from monkeytree.slurm.sources import LiveSource, RestSource
from tests.slurm.samples import site

from .lab import SLEEP, Lab, bring_up, eventually, free_ports

OVERFLOWING = {
    "A": "node[001-005,017-018]",
    "B": "node[006-007,009-011,019-020]",
    "C": "node[012-015,021-022,025-027]",
}
"""Three jobs that give rack03 three flows."""


def overflow(lab: Lab) -> dict[str, int]:
    """Submit them; ids by name."""
    jobs = {name: lab.submit(name, nodes) for name, nodes in OVERFLOWING.items()}
    lab.running(list(jobs.values()))
    return jobs


def test_jobs_that_overflow_a_rack(lab: Lab) -> None:
    jobs = overflow(lab)
    built = build_snapshot(LiveSource(site(), lab.client).read(), site())
    snapshot = built.snapshot
    assert snapshot.cluster == "lab"
    found = degrees(snapshot, Arrangement.of(snapshot)).racks
    assert [found[f"rack{n:02d}", 0] for n in (1, 2, 3, 4)] == [2, 2, 3, 1]
    assert {one.id: one.mobility for one in snapshot.jobs} == {str(job): "live" for job in jobs.values()}
    assert all(one.replica_groups[0].pinned == {0} for one in snapshot.jobs)
    plan = monkeytree.make_plan(snapshot)
    assert (plan.status, plan.moves_needed) == ("optimal", 2)
    assert monkeytree.check(snapshot, plan) == []


def test_what_a_look_costs(lab: Lab) -> None:
    """The table of the client holds on this Slurm: three requests a look, five with steps, one for racks."""
    overflow(lab)
    for where, first, later in ((site(jobs={"profile": "requeue"}), 4, 3), (site(), 6, 5)):
        source = LiveSource(where, lab.client)
        for expected in (first, later, later):
            theirs, mine = lab.rpcs(), lab.client.rpcs
            source.read()
            assert (lab.client.rpcs - mine, lab.rpcs() - theirs) == (expected, expected), where.jobs.profile


@pytest.fixture
def slurmrestd(gpus: Lab) -> Iterator[str]:
    """The URL of a slurmrestd of this cluster."""
    port = free_ports(1)
    command = ["slurmrestd", "-a", "rest_auth/jwt", "-s", "openapi/v0.0.38", f"127.0.0.1:{port}"]
    environment = {**gpus.environment, "SLURM_JWT": "daemon"}
    if os.getuid() == 0:  # it refuses to run as root
        command = ["runuser", "-u", "nobody", "--", *command]
    with (gpus.folder / "log" / "slurmrestd.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def test_slurmrestd_tells_the_same(gpus: Lab, slurmrestd: str) -> None:
    job = gpus.submit("R", "node[003-006,009]", "--gres=gpu:8", script=SLEEP)
    gpus.running([job], steps=False)
    where: Site = read_site(
        {"racks": {"uplinks": 2}, "topology": {"file": str(gpus.folder / "topology.conf")}}
    )
    token = (
        gpus.client.run("scontrol", "token", "username=root", "lifespan=600")
        .strip()
        .removeprefix("SLURM_JWT=")
    )
    client = RestClient(slurmrestd, token)
    assert eventually(lambda: _answers(client))
    told = build_snapshot(RestSource(where, client).read(), where).snapshot
    seen = build_snapshot(LiveSource(where, gpus.client).read(), where).snapshot
    assert client.version == "v0.0.38"
    assert placement_id(told) == placement_id(seen)
    (restarts,) = told.jobs
    assert (restarts.mobility, restarts.replica_groups[0].slots_per_worker) == ("restart", 8)
    # a wrong token comes as HTTP 200 with errors[]
    with pytest.raises(SlurmFailed, match="Slurm answers with an error"):
        RestClient(slurmrestd, "nonsense", version="v0.0.38").jobs()


def _answers(client: RestClient) -> bool:
    try:
        return bool(client.version)
    except SlurmFailed:
        return False


def test_the_environment_of_a_job_says_its_layout(gpus: Lab) -> None:
    job = gpus.submit("E", "node[001-004]", "--gres=gpu:8", "--export=ALL,TP=8,PIPES=2", script=SLEEP)
    gpus.running([job], steps=False)
    where: Site = read_site({"racks": {"uplinks": 2}, "jobs": {"environment": {"tp": "TP", "pp": "PIPES"}}})
    assert eventually(lambda: "TP" in gpus.client.job_environment(job)), "slurmdbd keeps it (job_env)"
    (found,) = build_snapshot(LiveSource(where, gpus.client).read(), where).snapshot.jobs
    assert [group.workers for group in found.replica_groups] == [
        ("node001", "node002"),
        ("node003", "node004"),
    ]
    assert found.replica_groups[0].rings == 8


def test_states_of_a_real_cluster(gpus: Lab) -> None:
    gpus.client.run("scontrol", "update", "NodeName=node014", "State=DRAIN", "Reason=fan")
    gpus.client.run("scontrol", "update", "NodeName=node015", "State=DOWN", "Reason=dead")
    gpus.client.run(
        "scontrol", "create", "reservation", "ReservationName=mt_test", "Nodes=node016",
        "Users=root", "StartTime=now", "Duration=5", "Flags=IGNORE_JOBS",
    )  # fmt: skip
    array = gpus.submit("a", 1, "--array=1-2", "--gres=gpu:4", script=SLEEP)
    het = int(
        gpus.client.run(
            "sbatch",
            "--parsable",
            "--output=/dev/null",
            "-N2",
            "--gres=gpu:8",
            ":",
            "-N1",
            "--gres=gpu:8",
            "--wrap",
            "sleep 600",
        )
    )

    def settled() -> bool:
        snapshot = build_snapshot(LiveSource(site(), gpus.client).read(), site()).snapshot
        return len(snapshot.jobs) == 3 and snapshot.node_by_id["node016"].cordoned

    assert eventually(settled)
    snapshot = build_snapshot(LiveSource(site(), gpus.client).read(), site()).snapshot
    nodes = snapshot.node_by_id
    assert nodes["node014"].drain
    assert (nodes["node015"].cordoned, nodes["node015"].held) == (True, 8)
    by_id = {one.id: one for one in snapshot.jobs}
    assert len(by_id[str(het)].replica_groups[0].workers) == 3
    assert by_id[str(het)].mobility == "none"
    tasks = [one for one in snapshot.jobs if one.labels.get("slurm_id", "").startswith(f"{array}_")]
    assert len(tasks) == 2


def test_advice_that_slurm_follows(lab: Lab) -> None:
    """Two racks are busy to the bound: the job is told nodes, gets them, and no rack is over."""
    filler = [lab.submit("A", "node[001-006,009-014]"), lab.submit("B", "node[007,015]")]
    lab.running(filler)
    job = lab.submit("P", 3, "--hold")
    where: Site = read_site({"racks": {"uplinks": 2}, "pending": True})
    assert (
        "cannot start yet"
        in build_snapshot(LiveSource(where, lab.client).read(), where).not_pending[str(job)]
    )
    lab.client.run("scontrol", "update", f"JobId={job}", "StartTime=now+60")
    lab.client.run("scontrol", "release", str(job))
    read = LiveSource(where, lab.client).read()
    waiting = [one for one in read.jobs if one.job_id == job]
    assert waiting[0].pending
    ready = replace(
        read, jobs=tuple(replace(one, reason="Priority") if one.job_id == job else one for one in read.jobs)
    )
    (found,) = proposals(build_snapshot(ready, where).snapshot)
    assert found.placement.within_bound
    assert len(found.placement.after) == 1
    (command,) = found.commands
    lab.client.run(*command.split())
    lab.client.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    lab.running([job])
    after = build_snapshot(LiveSource(where, lab.client).read(), where).snapshot
    placed = next(one for one in after.jobs if one.id == str(job))
    assert set(placed.replica_groups[0].workers) == set(found.placement.nodes)


@pytest.mark.slow
def test_128_nodes_in_under_a_second() -> None:
    """Our own CPU time for one snapshot, from the answers to the document; requests are counted."""
    with bring_up(nodes=128, gres=True) as big:
        for number in range(15):
            big.submit(f"j{number}", 8, "--gres=gpu:8", script=SLEEP)
        assert eventually(lambda: sum(state == "RUNNING" for state, _ in big.states().values()) == 15)
        source = LiveSource(site(), big.client)
        source.read()
        theirs, before, start = big.rpcs(), big.client.rpcs, time.process_time()
        built = build_snapshot(source.read(), site())
        spent = time.process_time() - start
        assert len(built.snapshot.jobs) == 15
        assert len(built.snapshot.node_by_id) == 128
        assert spent < 1.0, "our own processor time"
        assert (big.client.rpcs - before, big.rpcs() - theirs) == (5, 5)
