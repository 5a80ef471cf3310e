"""``monkeytree slurm execute`` on a real cluster: workers really move, and nothing is left behind."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

from monkeytree.slurm.hostlist import expand

from .executing import (
    complies,
    nodes_of,
    nothing_is_left,
    one_step_a_node,
    place,
    planned,
    snapshot_of,
    steps_of,
)
from .lab import Lab, eventually

OVERFLOWING = {
    "A": "node[001-005,017-018]",
    "B": "node[006-007,009-011,019-020]",
    "C": "node[012-015,021-022,025-027]",
}
"""Rack 3 has three flows, and two uplinks: two workers of one job must leave it."""


def test_live(lab: Lab, tmp_path: Path) -> None:
    """Two workers move; nobody else's step ends; the next snapshot complies; the accounts tell of it."""
    jobs = place(lab, OVERFLOWING)
    case = planned(lab, tmp_path)
    assert len(case.plan.moves) == 2
    before = steps_of(lab)
    (job,) = case.jobs
    started_on = nodes_of(lab, job)
    done = case.execute("--profile", "live", "--state-command", 'echo "$MT_SOURCE $MT_TARGET" >>moved')
    assert (done.returncode, done.stdout) == (0, "2 of 2 moves are done\n"), done.stderr
    moves = [(move.source, move.target) for move in case.plan.moves]
    assert (tmp_path / "moved").read_text().splitlines() == [" ".join(move) for move in moves]
    sources, targets = ({move[at] for move in moves} for at in (0, 1))
    assert {node for _, node in before - steps_of(lab)} == sources, "only steps of moved workers ended"
    assert {node for _, node in steps_of(lab) - before} == targets
    assert one_step_a_node(lab, list(jobs.values()))
    nothing_is_left(lab, list(jobs.values()))
    assert complies(lab)
    sizes = [("RESIZING", 7), ("RESIZING", 8), ("RESIZING", 7), ("RESIZING", 8), ("RUNNING", 7)]
    assert eventually(lambda: [(at, len(nodes)) for at, nodes in history(lab, job)] == sizes), history(
        lab, job
    )
    assert [history(lab, job)[at][1] for at in (0, -1)] == [started_on, nodes_of(lab, job)]

    # a node that was moved onto is given to nobody else
    probe = lab.submit("P", sorted(targets)[0], script="#!/bin/sh\nsleep 60\n")
    assert eventually(lambda: _reason(lab, probe) == "Resources"), lab.states()
    lab.client.run("scancel", str(probe))
    # and a node that was left can be had, more than once
    for _ in range(2):
        use = lab.submit("U", sorted(sources)[0], "--exclusive", script="#!/bin/sh\nsleep 60\n")
        assert eventually(lambda: lab.states()[use][0] == "RUNNING", 20), _reason(lab, use)  # noqa: B023
        lab.client.run("scancel", str(use))
        assert eventually(lambda: use not in lab.states())  # noqa: B023

    # again: nothing is done twice
    steps = steps_of(lab)
    again = case.execute("--profile", "live")
    assert (again.returncode, again.stdout) == (0, "2 of 2 moves are done\n"), again.stderr
    assert steps_of(lab) == steps


def history(lab: Lab, job: int) -> list[tuple[str, set[str]]]:
    """States of a job with its nodes, in the order of their starts, as slurmdbd has them."""
    told = lab.client.run("sacct", "-X", "-D", "-n", "-P", "-j", str(job), "-o", "State,NodeList")
    rows = (line.split("|") for line in told.splitlines())
    return [(state, set(expand(nodes))) for state, nodes in rows]


def _reason(lab: Lab, job: int) -> str:
    told: str = lab.client.run("squeue", "-h", "-j", str(job), "-o", "%r")
    return told.strip()


def test_a_job_of_somebody_else(lab: Lab, tmp_path: Path) -> None:
    """The new worker is started as the job's owner, by what the job's comment says."""
    flag = lab.folder / "who"
    flag.mkdir(exist_ok=True)
    flag.chmod(0o777)
    script = flag / "worker.sh"
    script.write_text(f"#!/bin/sh\nid -un >{flag}/$MT_TARGET\nexec sleep 600\n")
    script.chmod(0o755)
    comment = f"--comment=monkeytree-worker:{script}"
    jobs = [
        *place(lab, {"A": "node[001-003,017]"}, "--uid=nobody", "--gid=nogroup", comment).values(),
        *place(lab, {"B": "node[009-012,018-019]", "C": "node[025-028,020-021]"}).values(),
    ]
    try:
        case = planned(lab, tmp_path)
        (move,) = case.plan.moves
        done = case.execute("--profile", "live")
        assert done.returncode == 0, done.stderr
        assert (flag / move.target).read_text() == "nobody\n"
        nothing_is_left(lab, jobs)
        assert complies(lab)
    finally:
        lab.client.run("scancel", "--user=nobody")


def test_groups_are_told_by_the_comment(lab: Lab, tmp_path: Path) -> None:
    """Slurm sorts nodes anew after a move; the comment keeps each worker in its group."""
    place(lab, {"A": "node[003,007-008,017-019]"}, "--comment=hello monkeytree:tp=2,pp=3 there")
    place(lab, {"B": "node[009,020]", "C": "node[025,021]", "D": "node[001-002]"})
    case = planned(lab, tmp_path)
    (move,) = case.plan.moves
    assert (move.group, move.source) == ("1", "node017")
    assert "node003" < move.target < "node007", "it comes between the job's nodes"
    done = case.execute("--profile", "live")
    assert done.returncode == 0, done.stderr
    groups = {
        group.id: group.workers
        for job in snapshot_of(lab).jobs
        if job.id == move.job
        for group in job.replica_groups
    }
    assert list(groups.values()) == [
        ("node003", "node007"),
        ("node008", move.target),
        ("node018", "node019"),
    ]
    told = lab.client.run("scontrol", "show", "job", move.job)
    assert re.search(r"Comment=hello monkeytree:tp=2,pp=3,groups=0\.2/3\.1/4\.5,\S+ there", told), told
    assert complies(lab)


def test_requeue(lab: Lab, tmp_path: Path) -> None:
    """Jobs that share nodes are not moved live, as Slurm would give the new node twice; they start anew."""
    jobs = place(lab, OVERFLOWING, exclusive=False)
    case = planned(lab, tmp_path)
    refused = case.execute("--profile", "live")
    assert refused.returncode == 2
    assert "Error (moves_refused)" in refused.stderr
    assert "shared_nodes" in refused.stderr
    (job,) = case.jobs
    done = case.execute("--profile", "auto")
    assert (done.returncode, done.stdout) == (0, "2 of 2 moves are done\n"), done.stderr
    wanted = nodes_of(lab, job)
    assert {move.target for move in case.plan.moves} <= wanted
    assert not {move.source for move in case.plan.moves} & wanted
    nothing_is_left(lab, list(jobs.values()))
    lab.running(list(jobs.values()))
    assert complies(lab)
    assert eventually(lambda: [state for state, _ in history(lab, job)] == ["REQUEUED", "RUNNING"])
    assert all(len(nodes) == 7 for _, nodes in history(lab, job))
    assert rests(lab, job) >= 2, "in the second of its end a node refuses it, and Slurm ends the job"


def rests(lab: Lab, job: int) -> float:
    """Seconds between the end of a job's first run and the start of its second, as slurmdbd has them."""
    told = lab.client.run("sacct", "-X", "-D", "-n", "-P", "-j", str(job), "-o", "Start,End").splitlines()
    (_, ended), (started, _) = (line.split("|") for line in told)
    return (datetime.fromisoformat(started) - datetime.fromisoformat(ended)).total_seconds()


def test_gpus(gpus: Lab, tmp_path: Path) -> None:
    """A job that holds GPUs is refused in live and moved by requeue."""
    one_gpu = ("--gres=gpu:8",)
    place(gpus, {"A": "node[001-003,009-010]", "B": "node[004-006,011-012]"}, *one_gpu, exclusive=False)
    case = planned(gpus, tmp_path, racks={"uplinks": 1})
    assert case.plan.moves
    refused = case.execute("--profile", "live", "--dry-run")
    assert refused.returncode == 2
    assert "gres_in_live" in refused.stderr
    done = case.execute()
    assert done.returncode == 0, done.stderr
    assert complies(gpus, racks={"uplinks": 1})
    assert "ReservationName" not in gpus.client.run("scontrol", "--oneliner", "show", "reservation")


FULL = {"A": "node[001-008,017-022,031-032]", "B": "node[009-016,023-030]"}
"""No node is free; with one uplink a rack two workers of each must change places."""


def test_a_swap_on_a_full_cluster(lab: Lab, tmp_path: Path) -> None:
    jobs = place(lab, FULL)
    one = {"racks": {"uplinks": 1}}
    case = planned(lab, tmp_path, **one)
    assert len(case.plan.moves) == 4
    assert all(move.staged for move in case.plan.moves)
    refused = case.execute("--profile", "live")
    assert refused.returncode == 2
    assert "no_free_slot" in refused.stderr
    assert not (tmp_path / "journal.jsonl").read_text(), "nothing was begun"
    dry = case.execute("--dry-run")
    assert dry.stdout.count("requeue: job") == 2, "one job starts anew, the other moves live"
    assert dry.stdout.count("live: move") == 2
    done = case.execute()
    assert (done.returncode, done.stdout) == (0, "4 of 4 moves are done\n"), done.stderr
    nothing_is_left(lab, list(jobs.values()))
    assert complies(lab, **one)


def test_the_journal_is_of_one_plan(lab: Lab, tmp_path: Path) -> None:
    place(lab, OVERFLOWING)
    case = planned(lab, tmp_path)
    (tmp_path / "journal.jsonl").write_text(json.dumps({"plan": "another", "event": "begun"}) + "\n")
    refused = case.execute()
    assert refused.returncode == 2
    assert re.search(r"journal\.jsonl is the journal of plan another", refused.stderr)


def test_one_task_of_an_array(lab: Lab, tmp_path: Path) -> None:
    """It has the number of the array: by that number Slurm would requeue, and hold, all tasks."""
    places = ["node[001-005,017-018]", "node[006-007,009-011,019-020]", "node[012-014,021-022,025-026]"]
    array = lab.submit("array", 7, "--exclusive", "--array=0-2", "--hold")
    for task, nodes in enumerate(places):
        lab.client.run("scontrol", "update", f"JobId={array}_{task}", f"ReqNodeList={nodes}")
    lab.client.run("scontrol", "release", str(array))
    assert eventually(lambda: [at for at, _ in lab.states().values()] == ["RUNNING"] * 3), lab.states()
    lab.running(list(lab.states()))
    case = planned(lab, tmp_path)
    (job,) = case.jobs
    assert job == array, "the last task has the array's own number"
    before = {number: restarts(lab, number) for number in lab.states()}
    done = case.execute("--profile", "requeue")
    assert done.returncode == 0, done.stderr
    lab.running(list(before))
    assert {number for number in before if restarts(lab, number) != before[number]} == {job}
    nothing_is_left(lab, list(before))
    assert complies(lab)


def restarts(lab: Lab, job: int) -> str:
    """How often this one job (or task) was requeued."""
    told = lab.client.run("scontrol", "--oneliner", "show", "job", str(job)).splitlines()
    (line,) = (line for line in told if line.startswith(f"JobId={job} "))
    found = re.search(r" Restarts=(\d+)", line)
    assert found is not None
    return found[1]


def test_a_job_of_another_quality_of_service(lab: Lab, tmp_path: Path) -> None:
    """Slurm lets a job take over a donor of its own quality of service only."""
    for words in (("add", "qos", "high"), ("modify", "user", "root", "set", "qos+=high")):
        lab.client.run("sacctmgr", "--immediate", *words)
    jobs = place(lab, OVERFLOWING, "--qos=high", "--time=5")
    case = planned(lab, tmp_path)
    done = case.execute("--profile", "live")
    assert (done.returncode, done.stdout) == (0, "2 of 2 moves are done\n"), done.stderr
    nothing_is_left(lab, list(jobs.values()))
    assert complies(lab)


def test_a_job_that_excludes_the_destination(lab: Lab, tmp_path: Path) -> None:
    """It is not requeued only to wait for a node that it never takes."""
    place(lab, OVERFLOWING, "--exclude=node[008,016,023-024,028-032]")
    case = planned(lab, tmp_path)
    assert case.plan.moves
    refused = case.execute()
    assert refused.returncode == 2
    assert "node_unwanted" in refused.stderr
    assert all(state == "RUNNING" for state, _ in lab.states().values())
