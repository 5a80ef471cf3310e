"""Solves in child processes: they die with their parent, and print nothing on its stdout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0

SOLVE = """
from monkeytree.solvers import {solver}
from tests.library.programs import market_split
{solver}.solve(market_split(), 600.0)
"""

PLAN = """
import json, sys
import monkeytree
from tests.library.test_solvers import contested
plan = monkeytree.make_plan(monkeytree.load_snapshot(contested()), solver=sys.argv[1])
json.dump({"status": plan.status, "solver": plan.solver.name}, sys.stdout)
"""


def start(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("solver", ["highs", "cbc"])
def test_a_solver_dies_with_its_parent_killed_in_mid_solve(solver: str) -> None:
    parent = start(SOLVE.format(solver=solver))
    try:
        seen = psutil.Process(parent.pid)
        # Until a child has used some time of its own: it is past its start, in the solve.
        assert eventually(lambda: any(child.cpu_times().user > 0.3 for child in living(seen)))
        children = living(seen)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
    assert children
    assert eventually(lambda: not any(is_alive(child) for child in children))


def living(parent: psutil.Process) -> list[psutil.Process]:
    return [child for child in parent.children(recursive=True) if is_alive(child)]


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("solver", ["highs", "cbc"])
def test_no_child_is_left_when_the_time_is_over(solver: str) -> None:
    code = SOLVE.replace("600.0", "0.5").format(solver=solver)
    left = "import psutil; print(len(psutil.Process().children(recursive=True)))"
    out, err = start(code + left).communicate(timeout=WAIT_S)
    assert (out, err) == (b"0\n", b"")


@pytest.mark.parametrize("solver", ["auto", "search", "split", "gurobi", "highs", "cbc"])
def test_planning_leaves_stdout_to_its_caller(solver: str) -> None:
    out, err = start(PLAN, solver).communicate(timeout=WAIT_S)
    assert err == b""
    assert json.loads(out)["status"] == "optimal"
