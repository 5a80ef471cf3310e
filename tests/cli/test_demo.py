"""``monkeytree demo``: end to end, leaving nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import venv
from pathlib import Path

import psutil
import pytest

from monkeytree.adapters.simulator import why_not

from .running import monkeytree
from .serving import ROOT, environment, eventually


@pytest.mark.slow
def test_the_demo_plans_checks_and_leaves_nothing(tmp_path: Path) -> None:
    # Servers of others in the environment are none of its business.
    done = monkeytree(
        "demo", TMPDIR=str(tmp_path), REDIS_URL="redis://no.such.host.invalid", DATABASE_URL="mysql://x"
    )
    assert done.returncode == 0, done.stderr + done.stdout
    for words in (
        "8 racks before, 0 after",
        "solver ",
        "Racks over their bound",
        "Moves by wave",
        "Flows and their uplinks",
    ):
        assert words in done.stdout
    assert "independent checker: the plan holds" in done.stdout
    if why_not() is None or os.environ.get("MONKEYTREE_REQUIRE_NS3") == "1":
        assert "isolated at packet level: all" in done.stdout
        assert "before the moves" in done.stdout
    else:
        assert "no packet-level replay" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_without_ns3_the_demo_says_what_is_missing_and_holds(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    bare = str(tmp_path / "bare" / "bin" / "python")
    done = monkeytree("demo", "--prepare", "false", MONKEYTREE_VALIDATION_PYTHON=bare)
    assert done.returncode == 0, done.stderr + done.stdout
    words = " ".join(done.stdout.split())
    assert words.index("independent checker: the plan holds") < words.index("installing that now")
    assert "no packet-level replay: the ns3 wheel and cppyy are not installed" in words
    assert "pip install 'monkeytree[validation]'" in words


@pytest.mark.slow
def test_the_demo_has_agents_carry_a_plan_out_and_leaves_nothing(tmp_path: Path) -> None:
    done = monkeytree("demo", "--execute", TMPDIR=str(tmp_path), COLUMNS="120")
    assert done.returncode == 0, done.stderr + done.stdout
    words = " ".join(done.stdout.split())
    assert "demo-two-waves.json: 3 jobs with 8 workers in 3 racks" in words
    assert "POST /v1/executions: 202" in words
    assert "wave 1 of 2" in words
    assert "wave 2 of 2" in words
    assert words.count("│ done │") == 4
    assert "host memory" in words, "the second wave swaps on full nodes"
    assert "second snapshot, as the agents see it: the cluster complies" in words
    assert list(tmp_path.iterdir()) == []
    left = [
        process for process in psutil.process_iter(["cmdline"])
        if str(tmp_path) in " ".join(process.info["cmdline"] or [])
    ]  # fmt: skip
    assert left == []


@pytest.mark.slow
def test_a_demo_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "monkeytree.cli", "demo"],
        cwd=ROOT,
        env=environment(TMPDIR=str(tmp_path)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    me = psutil.Process(process.pid)
    assert eventually(lambda: len(me.children()) >= 4)
    family = me.children(recursive=True)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []
    assert list(tmp_path.iterdir()) == []
