"""What a state command's end means: where the state is, or that nobody can tell."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from monkeytree.cli.errors import Exit
from monkeytree.slurm.execution.between import NOT_MOVED, UNSURE, StateCommand
from monkeytree.slurm.execution.journal import Journal
from monkeytree.slurm.execution.refusals import Stop

from .test_execution import NODES, work_of_moves

WORK = work_of_moves({5: ["n1", "n2", "n3"]}, {5: ["n4", "n2", "n7"]}, list(NODES))
MOVE = WORK.moves[1]


def run(command: str, folder: Path, calls: int = 1, limit_s: float = 30.0) -> str:
    """Code of the Stop that it ends with, "" for none, at the n-th call in a row."""
    journal = Journal(folder / "journal", "p")
    try:
        for _ in range(calls):
            journal.write("moving", move=MOVE.index)
        StateCommand(command, WORK, limit_s, journal)(MOVE, "started")
    except Stop as stop:
        return str(stop.code)
    finally:
        journal.close()
    return ""


@pytest.mark.parametrize(
    ("command", "first", "after_a_crash"),
    [
        ("exit 0", "", ""),
        ("exit 7", "state_failed", "state_failed"),
        ("exit 3", "state_failed", "state_unknown"),
        ("no-such-command", "state_failed", "state_unknown"),
        ("exit 75", "state_unknown", "state_unknown"),
        ("kill -9 $$", "state_unknown", "state_unknown"),
        ("sh -c 'kill -9 $$'; exit $?", "state_unknown", "state_unknown"),
    ],
)
def test_what_an_end_means(command: str, first: str, after_a_crash: str, tmp_path: Path) -> None:
    """After a call that was cut off, a failure tells nothing about what that one did."""
    assert run(command, tmp_path) == first
    (tmp_path / "journal").unlink()
    assert run(command, tmp_path, calls=2) == after_a_crash


def test_an_undone_move_begins_anew(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", "p")
    for event in ("moving", "unmoved", "undone", "moving"):
        journal.write(event, move=MOVE.index)
    with pytest.raises(Stop, match="state_failed"):
        StateCommand("exit 3", WORK, 30.0, journal)(MOVE, "started")
    journal.close()


def test_one_that_takes_too_long_ends_with_all_it_started(tmp_path: Path) -> None:
    assert run(f"sleep 300 & echo $! >{tmp_path}/pid; wait", tmp_path, limit_s=1.0) == "state_unknown"
    pid = int((tmp_path / "pid").read_text())
    ends = time.monotonic() + 60
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_it_is_told_where_the_job_is(tmp_path: Path) -> None:
    """Its nodes after the moves that are done, and the ring orders that the plan gives it."""
    jobs = {5: replace(WORK.jobs[5], orders={"0": (0, 2, 1)})}
    journal = Journal(tmp_path / "journal", "p")
    journal.write("done", move=WORK.moves[0].index)
    StateCommand(f"env >{tmp_path}/env", replace(WORK, jobs=jobs), 30.0, journal)(MOVE, "started")
    journal.close()
    told = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert (told["MT_SOURCE"], told["MT_TARGET"], told["MT_PHASE"]) == ("n3", "n7", "started")
    assert (told["MT_NODES"], told["MT_ORDERS"]) == ("n[2-4]", '{"0": [0, 2, 1]}')


def test_our_own_state_command_speaks_these_codes() -> None:
    assert (NOT_MOVED, UNSURE) == (Exit.NOT_FINISHED, Exit.UNKNOWN)
