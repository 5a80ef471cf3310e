"""``monkeytree plan``: exit codes, outputs, options."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from .running import EXAMPLES, SEED_C, hard, monkeytree, tiny, write
from .serving import ROOT, environment, eventually


def plan_document(*arguments: str | Path, code: int = 0, stdin: str = "") -> dict[str, Any]:
    done = monkeytree("plan", *arguments, "--format", "json", stdin=stdin)
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_plan_as_tables() -> None:
    done = monkeytree("plan", SEED_C)
    assert done.returncode == 0
    assert "optimal: 2 moves" in done.stdout
    assert "proved least (lower bound 2)" in done.stdout
    assert "Racks over their bound" in done.stdout
    assert "Flows and their uplinks" in done.stdout


@pytest.mark.parametrize("solver", ["auto", "search", "split", "gurobi", "cbc", "highs"])
def test_every_solver_by_name(solver: str) -> None:
    plan = plan_document(SEED_C, "--solver", solver)
    assert (plan["status"], plan["moves_needed"], plan["lower_bound"]) == ("optimal", 2, 2)
    assert plan["solver"]["name"] == solver or solver in ("auto", "split")


def test_standard_input_and_an_output_file(tmp_path: Path) -> None:
    plan = plan_document("-", stdin=SEED_C.read_text("utf-8"))
    out = tmp_path / "plan.json"
    done = monkeytree(
        "plan", SEED_C, "--format", "json", "--output", out, "--previous", "-", stdin=json.dumps(plan)
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads(out.read_text("utf-8"))["snapshot_id"] == plan["snapshot_id"]


def test_nothing_to_do_is_compliant(tmp_path: Path) -> None:
    document = {**tiny(), "jobs": tiny()["jobs"][:1]}
    assert plan_document(write(tmp_path / "one.json", document))["status"] == "compliant"


def test_flags_override_planning(tmp_path: Path) -> None:
    snapshot = write(tmp_path / "tiny.json", tiny(max_moves=0, solver="cbc"))
    stuck = plan_document(snapshot, code=3)
    assert (stuck["status"], stuck["limited_by"], stuck["moves_needed"]) == ("best_effort", "max_moves", 0)
    healed = plan_document(snapshot, "--max-moves", "2", "--solver", "highs")
    assert (healed["status"], healed["moves_needed"], healed["solver"]["name"]) == ("optimal", 2, "highs")


def test_an_objective_by_flag() -> None:
    assert plan_document(SEED_C, "--objective", "gpu_seconds")["objective"]["name"] == "gpu_seconds"


@pytest.mark.parametrize("solver", ["cplex", ""])
def test_unknown_solvers_are_refused_by_name(solver: str) -> None:
    done = monkeytree("plan", SEED_C, "--solver", solver)
    assert done.returncode == 2
    assert "unknown_solver" in done.stderr or "invalid_snapshot" in done.stderr
    assert (solver or "solver") in done.stderr
    assert done.stdout == ""


def test_every_offence_is_listed(tmp_path: Path) -> None:
    document = tiny()
    document["racks"][0]["uplinks"] = -1
    document["jobs"][0]["replica_groups"][0]["workers"][0] = "nowhere"
    document["surprise"] = 1
    done = monkeytree("plan", write(tmp_path / "bad.json", document))
    assert done.returncode == 2
    assert "invalid_snapshot" in done.stderr
    for pointer in ("/racks/0/uplinks", "/surprise"):
        assert pointer in done.stderr


@pytest.mark.parametrize(
    "text", ["", "no json", "[1, 2", '{"format": 1, "format": 1}', "[]", "null", "NaN", "\x00"]
)
def test_bad_text_is_bad_input(text: str) -> None:
    done = monkeytree("plan", "-", stdin=text)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nowhere.json"],
        [str(EXAMPLES)],
        [],
        [str(SEED_C), "--time-limit", "0"],
        [str(SEED_C), "--time-limit", "nan"],
        [str(SEED_C), "--max-moves", "-1"],
        [str(SEED_C), "--previous", str(SEED_C)],
        [str(SEED_C), "--bogus"],
    ],
)
def test_wrong_usage_is_bad_input(arguments: list[str]) -> None:
    done = monkeytree("plan", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["cbc", "highs"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_plan_and_its_solver(tmp_path: Path, solver: str, number: int, code: int) -> None:
    process = _plan_for_long(tmp_path, solver)
    family = _solving_family(process, solver)
    process.send_signal(number)
    assert process.wait(20) == code
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_kill_9_of_plan_ends_its_solver(tmp_path: Path) -> None:
    process = _plan_for_long(tmp_path, "cbc")
    family = _solving_family(process, "cbc")
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []


def _plan_for_long(tmp_path: Path, solver: str) -> subprocess.Popen[bytes]:
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "monkeytree.cli", "plan", str(write(tmp_path / "hard.json", hard()))]
    return subprocess.Popen(
        [*command, "--solver", solver, "--time-limit", "100"],
        cwd=ROOT,
        env=environment(TMPDIR=str(tmp_path / "tmp")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _solving_family(process: subprocess.Popen[bytes], solver: str) -> list[psutil.Process]:
    """The children of a plan, as soon as one of them solves."""
    me = psutil.Process(process.pid)

    def solving() -> bool:
        children = me.children(recursive=True)
        # HiGHS solves in a fork of ours, CBC is a program; `cbc -quit` only asks whether it runs here
        return any("-solve" in child.cmdline() or solver == "highs" for child in children)

    assert eventually(lambda: process.poll() is not None or solving())
    assert process.poll() is None, "it was over too soon to be stopped"
    return me.children(recursive=True)


def test_a_reader_that_leaves_early_hears_nothing() -> None:
    command = [sys.executable, "-m", "monkeytree.cli", "plan", str(SEED_C), "--format", "json"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(60) == -signal.SIGPIPE
