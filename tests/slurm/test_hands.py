"""Commands of an execution as Slurm gets them; what jobs themselves do not want; damaged journals."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from monkeytree.slurm.client import SlurmClient
from monkeytree.slurm.errors import MovesRefused
from monkeytree.slurm.execution.hands import Hands
from monkeytree.slurm.execution.journal import Journal
from monkeytree.slurm.execution.preflight import Wanted
from monkeytree.slurm.execution.truth import Reservation, Truth
from monkeytree.slurm.jobs import SlurmJob

from .test_execution import NODES, codes, decided, slurm_job


def told(folder: Path) -> tuple[Hands, Path]:
    """Hands with commands that only write down how they were called, and where."""
    log = folder / "log"
    for command in ("scontrol", "salloc"):
        (folder / command).write_text(f'#!/bin/sh\necho "{command} $*" >>{log}\n')
        (folder / command).chmod(0o755)
    return Hands(SlurmClient(bin=str(folder)), "p", 600, sleep=lambda _seconds: None), log


def everything(folder: Path, job: SlurmJob) -> list[str]:
    """All that is ever done to a job."""
    hands, log = told(folder)
    hands.requeue_and_hold(job)
    hands.hold(job)
    hands.place(job, ["n1", "n2"], "mt_p_0")
    hands.release(job)
    hands.start_now(job)
    hands.leave_reservation(job)
    hands.comment(job, "x")
    hands.absorb(job)
    hands.shrink(job, ["n1"])
    return log.read_text().splitlines()


def test_one_task_of_an_array_is_named_and_no_other(tmp_path: Path) -> None:
    """The last task of an array has the array's number: by it ``requeuehold`` would end every task."""
    task = slurm_job(30, "n[1-3]", array_job_id=30, array_task_id=7)
    said = everything(tmp_path, task)
    assert len(said) == 9
    assert all("30_7" in line for line in said), said


def test_a_job_without_an_array_is_named_by_its_number(tmp_path: Path) -> None:
    said = everything(tmp_path, slurm_job(30, "n[1-3]", array_job_id=0, array_task_id=None))
    assert said[0] == "scontrol requeuehold 30"
    assert said[2] == "scontrol update JobId=30 ReqNodeList=n[1-2] ReservationName=mt_p_0"


def test_a_donor_has_the_quality_of_service_of_its_job(tmp_path: Path) -> None:
    """Slurm answers "Job dependency problem" to any other; and no longer a time than the job may have."""
    hands, log = told(tmp_path)
    hands.donate(0, slurm_job(5, "n[1-3]", qos="high", time_limit=4), "n7")
    hands.donate(0, slurm_job(5, "n[1-3]"), "n7")
    first, second = (line.split() for line in log.read_text().splitlines())
    assert {"--qos=high", "--time=4", "--partition=train", "--dependency=expand:5"} <= set(first)
    assert "--time=10" in second
    assert not [word for word in second if word.startswith("--qos")]


@pytest.mark.parametrize("wanted", ["live", "requeue"])
def test_what_a_job_does_not_want_is_refused(wanted: Wanted) -> None:
    excluding = slurm_job(5, "n[1-3]", excluded_nodes="n[6-7]")
    assert codes(decided(excluding, wanted)) == {"node_unwanted"}
    assert not codes(decided(slurm_job(5, "n[1-3]", excluded_nodes="n6"), wanted))
    asking = slurm_job(5, "n[1-3]", features="(fast|slow)&big")
    nodes = {name: replace(one, features=("fast", "big")) for name, one in NODES.items()}
    same = Truth({5: asking}, frozenset({5}), nodes)
    assert not codes(decided(asking, wanted, truth=same))
    lacking = {**nodes, "n7": replace(NODES["n7"], features=("big",))}
    other = Truth({5: asking}, frozenset({5}), lacking)
    assert codes(decided(asking, wanted, truth=other)) == {"node_unwanted"}


def theirs(hours: float, nodes: set[str]) -> dict[str, Reservation]:
    """A reservation of somebody else that begins in so many hours."""
    starts = (datetime.now() + timedelta(hours=hours)).isoformat(timespec="seconds")
    return {"maint": Reservation("maint", frozenset(nodes), "", starts)}


def test_a_reservation_to_come_is_in_the_way_of_jobs_that_reach_into_it() -> None:
    now = int(datetime.now().timestamp())
    short = slurm_job(5, "n[1-3]", time_limit=60, end_time=now + 3600)
    endless = slurm_job(5, "n[1-3]")
    profiles: tuple[Wanted, ...] = ("live", "requeue")
    for wanted in profiles:
        assert not codes(decided(short, wanted, reservations=theirs(24, {"n7"})))
        for job, hours in ((short, 0.5), (short, -1.0), (endless, 24.0)):
            found = codes(decided(job, wanted, reservations=theirs(hours, {"n7"})))
            assert found == {"destination_reserved"}, (wanted, hours)
    everywhere = theirs(24, set(NODES))  # maintenance of the whole cluster: no worse there than here
    assert not codes(decided(endless, "live", reservations=everywhere))
    assert codes(decided(endless, "requeue", reservations=everywhere)) == {"destination_reserved"}


@pytest.mark.parametrize(
    "entry",
    [
        {"event": "begun"},
        {"event": "begun", "steps": [["fly", 1]]},
        {"event": "begun", "steps": [["live"]]},
        {"event": "done"},
        {"event": "held", "job": "5"},
        {"event": 7},
        {},
    ],
)
def test_a_damaged_journal_is_refused(tmp_path: Path, entry: dict[str, object]) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(json.dumps({"plan": "p", **entry}) + "\n")
    with pytest.raises(MovesRefused, match=r"j\.jsonl is damaged: "):
        Journal(path, "p")
    path.write_text("[" * 50_000 + "\n")
    Journal(path, "p").close()  # no entry at all: what a crash cut off
