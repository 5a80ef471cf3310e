"""Slurm moves the allocation, agents move the state: ``slurm execute`` with ``slurm state``, for real."""

from __future__ import annotations

import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil

from monkeytree.plan import Move
from monkeytree.slurm.execution.names import donor_name, tag_of

from .executing import Case, complies, nodes_of, nothing_is_left, place, planned
from .lab import Lab, eventually
from .training import Training, training

TRAINED = "node[001-002,017-018]"
OTHERS = {"B": "node[009-011,019-021]", "C": "node[025-027,022-024]"}
"""Rack 3 has three flows, and two uplinks: the two workers of the trained job are the fewest to leave it."""
SLOW = "--fault hold:PAUSED:2"
"""For the agent of a new node: its mover stands still for so many seconds when the job has paused."""


def options(job: Training, *, worker: str = "", state: str = "") -> list[str]:
    """Of ``slurm execute``: a live execution whose state agents move."""
    return [
        "--profile", "live", "--start-worker", f"{job.start_worker} {worker}", "--state-command",
        f"{job.state_command} {state}",
    ]  # fmt: skip


def kill_when_paused(case: Case, job: Training, move: Move, *, alone: bool) -> None:
    """Carry out, and kill it -9 once the job has paused for ``move``; ``alone``: not its state command.

    No answer of that is heard before.
    """
    name = donor_name(tag_of(case.plan.id), case.plan.moves.index(move))
    earlier = len(job.attempts(move.target, name))
    gate = case.folder / f"killed-{move.rank}"
    wait = f'; code=$?; until [ $MT_RANK != {move.rank} ] || [ -e "{gate}" ]; do sleep 0.1; done; exit $code'
    process = subprocess.Popen(
        case.command(*options(job, worker=SLOW, state=wait)), cwd=case.folder, env=case.lab.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def paused() -> bool:
        attempts = job.attempts(move.target, name)[earlier:]
        return any(phase.name == "PAUSED" for one in attempts for phase in one.phases)

    try:
        assert eventually(paused, every=0.05), job.logs()
        family = [] if alone else psutil.Process(process.pid).children(recursive=True)
    finally:
        process.kill()
        code = process.wait(30)
        gate.touch()
    for one in family:
        with suppress(psutil.NoSuchProcess):
            if "srun" not in one.name():  # that carries the new worker's step
                one.kill()
    assert code == -signal.SIGKILL, "it was in the middle of it"


def test_agents_move_the_state(lab: Lab, tmp_path: Path) -> None:
    """A move that fails is undone; one whose execution dies is done once; no bit of the training is lost."""
    others = place(lab, OTHERS)
    with training(lab, "A", TRAINED, tmp_path / "job") as job:
        case = planned(lab, tmp_path)
        first, second = case.plan.moves
        assert {int(move.job) for move in case.plan.moves} == {job.job}
        before = nodes_of(lab, job.job)

        # the new node takes too long over the state: the job trains on where it was, and the node goes back
        failed = case.execute(*options(job, worker=SLOW, state="--pause 1"))
        assert failed.returncode == 7, failed.stderr
        assert "state_failed" in failed.stderr
        assert re.search(r"\(state_not_moved\) (pause_timeout|job_aborted): ", failed.stderr), failed.stderr
        assert f"it goes on at {first.source}" in failed.stderr
        assert nodes_of(lab, job.job) == before
        nothing_is_left(lab, [*others.values(), job.job])
        assert job.ranks() == dict(enumerate(job.nodes))
        assert job.goes_on()

        # killed in the pause of a move, without the state command that it had started, and with it
        kill_when_paused(case, job, first, alone=True)
        kill_when_paused(case, job, second, alone=False)
        done = case.execute(*options(job))
        assert (done.returncode, done.stdout) == (0, "2 of 2 moves are done\n"), done.stderr

        places = dict(enumerate(job.nodes)) | {move.rank: move.target for move in (first, second)}
        assert eventually(lambda: job.ranks() == places), job.logs()
        assert nodes_of(lab, job.job) == set(places.values())
        for index, move in enumerate((first, second)):
            name = donor_name(tag_of(case.plan.id), index)
            ends = [status.state for status in job.attempts(move.target, name)]
            assert ends.count("RELEASED") == 1, (move, ends)
        nothing_is_left(lab, [*others.values(), job.job])
        assert complies(lab)
        assert job.goes_on()
        job.assert_bit_identical(job.finish())
