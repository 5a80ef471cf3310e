"""``monkeytree slurm execute`` in trouble: killed at each step, jobs that end, nodes and slurmctld down."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from monkeytree.slurm.errors import SlurmFailed

from .executing import Case, complies, nodes_of, nothing_is_left, one_step_a_node, place, planned, write_site
from .lab import Lab, eventually
from .test_execute import OVERFLOWING

ONE_MOVE = {"A": "node[001-005,017]", "B": "node[009-013,018-019]", "C": "node[025-029,020-021]"}
"""One worker must leave rack 3."""
TWO_JOBS = {
    "A": "node[001-003,017]",
    "B": "node[004-005,018]",
    "C": "node[009-013,019-020]",
    "D": "node[025-029,021-022]",
}
"""Rack 3 has four flows: two jobs with a worker there leave it."""


@pytest.mark.slow
def test_killed_at_each_step_of_a_live_move(lab: Lab, tmp_path: Path) -> None:
    jobs = place(lab, ONE_MOVE)
    case = planned(lab, tmp_path)
    calls = case.crash_until_done("--profile", "live")
    killed = [call.split()[1:3] for call in calls if call.startswith("after")]
    assert ["salloc", "--no-shell"] in killed
    assert sum(command == "srun" for command, _ in killed) == 1
    nothing_is_left(lab, list(jobs.values()))
    assert eventually(lambda: one_step_a_node(lab, list(jobs.values()))), lab.client.steps()
    assert complies(lab)
    (job,) = case.jobs
    assert "Restarts=0" in lab.client.run("scontrol", "show", "job", str(job)), "no job started anew"


@pytest.mark.slow
def test_killed_at_each_step_of_a_requeue(lab: Lab, tmp_path: Path) -> None:
    jobs = place(lab, ONE_MOVE)
    case = planned(lab, tmp_path)
    case.crash_until_done("--profile", "requeue")
    nothing_is_left(lab, list(jobs.values()))
    lab.running(list(jobs.values()))
    assert complies(lab)
    (job,) = case.jobs
    assert "Restarts=1" in lab.client.run("scontrol", "show", "job", str(job)), "once, not more"


def test_a_job_ends_meanwhile(lab: Lab, tmp_path: Path) -> None:
    """Its moves are skipped, those of the other job are done."""
    jobs = place(lab, TWO_JOBS)
    case = planned(lab, tmp_path)
    assert len(case.jobs) == 2
    command = 'test -e once || { touch once; scancel "$MT_JOB"; }; sleep 1'
    done = case.execute("--profile", "live", "--state-command", command)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1 of 2 moves are done, 1 skipped as their jobs ended\n"
    assert "job_ended" in done.stderr
    (ended,) = set(jobs.values()) - set(lab.states())
    assert ended in case.jobs
    nothing_is_left(lab, sorted(set(jobs.values()) - {ended}))
    assert complies(lab)


def test_a_node_goes_down(lab: Lab, tmp_path: Path) -> None:
    """The move that needs it is not begun; when it is up again the same command goes on."""
    jobs = place(lab, OVERFLOWING)
    case = planned(lab, tmp_path)
    first, second = case.plan.moves
    (job,) = case.jobs
    command = f"scontrol update NodeName={second.target} State=DOWN Reason=fire"
    stopped = case.execute("--profile", "live", "--state-command", command)
    assert stopped.returncode == 7, stopped.stderr
    assert "(moves_stopped) node_down" in stopped.stderr
    assert "1 of 2 moves are done" in stopped.stderr
    assert first.target in nodes_of(lab, job)
    assert first.source not in nodes_of(lab, job)
    assert second.source in nodes_of(lab, job)
    assert "ReservationName" not in lab.client.run("scontrol", "--oneliner", "show", "reservation")
    with contextlib.suppress(SlurmFailed):  # it may have come back by itself (ReturnToService=2)
        lab.client.run("scontrol", "update", f"NodeName={second.target}", "State=RESUME")
    assert eventually(lambda: lab.idle() == lab.nodes - 23)
    done = case.execute("--profile", "live")
    assert (done.returncode, done.stdout) == (0, "2 of 2 moves are done\n"), done.stderr
    nothing_is_left(lab, list(jobs.values()))
    assert complies(lab)


def test_a_worker_that_does_not_start(lab: Lab, tmp_path: Path) -> None:
    """The new node is given back, and the job goes on with its old worker."""
    jobs = place(lab, ONE_MOVE)
    case = planned(lab, tmp_path)
    (move,) = case.plan.moves
    before = nodes_of(lab, int(move.job))
    stopped = case.execute("--profile", "live", "--start-worker", "echo no such model >&2; exit 3")
    assert stopped.returncode == 7, stopped.stderr
    assert "worker_failed" in stopped.stderr
    assert "no such model" in stopped.stderr
    assert nodes_of(lab, int(move.job)) == before
    nothing_is_left(lab, list(jobs.values()))
    failed = case.execute("--profile", "live", "--state-command", "echo disk full >&2; exit 1")
    assert failed.returncode == 7, failed.stderr
    assert "state_failed" in failed.stderr
    assert "disk full" in failed.stderr
    assert nodes_of(lab, int(move.job)) == before
    nothing_is_left(lab, list(jobs.values()))
    # nobody knows where the state is: no node is given back until somebody does
    unsure = case.execute("--profile", "live", "--state-command", "echo no answer >&2; exit 75")
    assert unsure.returncode == 7, unsure.stderr
    assert "state_unknown" in unsure.stderr
    assert f"keeps both {move.source} and {move.target}" in unsure.stderr
    assert nodes_of(lab, int(move.job)) == before | {move.target}
    known = case.execute("--profile", "live", "--state-command", "exit 7")
    assert known.returncode == 7, known.stderr
    assert "state_failed" in known.stderr
    assert nodes_of(lab, int(move.job)) == before
    nothing_is_left(lab, list(jobs.values()))
    done = case.execute("--profile", "live")
    assert done.returncode == 0, done.stderr
    assert complies(lab)


@pytest.mark.parametrize("profile", ["live", "requeue"])
def test_slurmctld_is_restarted(lab: Lab, tmp_path: Path, profile: str) -> None:
    """It goes away in the middle and comes back later: the execution waits and goes on."""
    jobs = place(lab, ONE_MOVE)
    case = planned(lab, tmp_path)
    _stop_controller_at_first_change(case)
    done = case.execute("--profile", profile)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bin" / "once").exists()
    if profile == "requeue":  # salloc has a longer time limit, and goes on trying by itself
        assert "Slurm does not answer" in done.stderr
    lab.running(list(jobs.values()))
    nothing_is_left(lab, list(jobs.values()))
    assert complies(lab)


def _stop_controller_at_first_change(case: Case) -> None:
    """Right before salloc or requeuehold slurmctld ends, and is started again eight seconds later."""
    case.bin = case.folder / "bin"
    case.bin.mkdir()
    restart = (
        f"test -e {case.bin}/once || {{ touch {case.bin}/once; "
        f"kill $(cat {case.lab.folder}/run/slurmctld.pid); "
        f"(sleep 8; slurmctld -f {case.lab.conf}) >/dev/null 2>&1 & sleep 1; }}"
    )
    for command in ("squeue", "sinfo", "scontrol", "salloc", "scancel", "srun"):
        when = {"salloc": "*", "scontrol": "requeuehold*"}.get(command, "''")
        file = case.bin / command
        file.write_text(
            f'#!/bin/sh\ncase "$*" in {when}) {restart};; esac\nexec {shutil.which(command)} "$@"\n'
        )
        file.chmod(0o755)
    write_site(case.lab, case.folder, bin=str(case.bin), timeout_s=3)


def test_somebody_else_changed_a_job(lab: Lab, tmp_path: Path) -> None:
    """A plan of yesterday is refused, by name, and nothing is changed."""
    place(lab, ONE_MOVE)
    case = planned(lab, tmp_path)
    (job,) = case.jobs
    lab.client.run("scancel", str(job))
    assert eventually(lambda: job not in lab.states())
    refused = case.execute()
    assert refused.returncode == 2
    assert "job_gone" in refused.stderr
