"""Whatever happens to the child or is missing here becomes an error that names the cure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from monkeytree.validation import binding, runner
from monkeytree.validation.errors import (
    InvalidScenario,
    SimulationCrashed,
    SimulationTimedOut,
    ValidationUnavailable,
)

from .fabrics import fcts, flow, incast, needs_ns3, run, scenario, star

TINY = star(2, [flow("a", 0, 1, 1000)])
ENDLESS = incast(16, 2_000_000_000)


def test_without_the_wheel_the_cure_is_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValidationUnavailable, match=r"pip install 'monkeytree\[validation\]'"):
        runner.run_scenario(TINY, timeout_s=60)


@needs_ns3
def test_a_compiler_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    broken = tmp_path / "broken++"
    broken.write_text("#!/bin/sh\necho 'fatal error: string: No such file' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(
        ValidationUnavailable, match=r"broken\+\+ could not compile.*No such file.*install g\+\+"
    ):
        runner.run_scenario(TINY, timeout_s=60)


@needs_ns3
@pytest.mark.slow
def test_without_a_compiler_cling_compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    want = fcts(run(TINY))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(binding, "compiler", lambda: None)
    assert binding.build() is None
    # The child, too, must find none: an empty PATH but for what cppyy itself asks for its headers.
    program = "from monkeytree.validation import binding, child\nbinding.compiler = lambda: None\n"
    program += "import sys, os\nos._exit(child.main(sys.argv[1:]))"
    scene = tmp_path / "scenario.json"
    scene.write_text(json.dumps(TINY))
    done = subprocess.run([sys.executable, "-c", program, str(scene)], capture_output=True, check=True)
    assert fcts(json.loads(done.stdout)) == want


@needs_ns3
def test_two_first_uses_at_once_build_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    slow = tmp_path / "slow++"
    log = tmp_path / "calls"
    slow.write_text(
        f'#!/bin/sh\necho x >> {log}\nwhile [ "$1" != -o ]; do shift; done\nsleep 0.5\n: > "$2"\n'
    )
    slow.chmod(0o755)
    monkeypatch.setenv("CXX", str(slow))
    threads = [threading.Thread(target=binding.build) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.read_text() == "x\n"


@needs_ns3
def test_a_killed_child_is_a_crash() -> None:
    runner.prepare()
    threading.Thread(target=_kill_first_child, daemon=True).start()
    with pytest.raises(SimulationCrashed, match="SIGKILL"):
        runner.run_scenario(ENDLESS, timeout_s=120)


def _kill_first_child() -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = stat.read_text().rsplit(")", 1)[1].split()[1]
                words = (stat.parent / "cmdline").read_bytes()
            except (OSError, IndexError):
                continue
            if int(parent) == os.getpid() and b"monkeytree.validation.child" in words:
                os.kill(int(stat.parent.name), signal.SIGKILL)
                return
        time.sleep(0.05)


@needs_ns3
def test_an_endless_run_is_stopped() -> None:
    with pytest.raises(SimulationTimedOut, match="after 4 s"):
        runner.run_scenario(ENDLESS, timeout_s=4)


@needs_ns3
@pytest.mark.parametrize(
    ("ready", "exit_code", "error", "message"),
    [
        ("", 139, ValidationUnavailable, r"exit code 139.*apt-get install g\+\+.*last words"),
        ('{"ready": true}', 133, SimulationCrashed, "exit code 133.*last words"),
        ('{"ready": true}', 0, SimulationCrashed, "exit code 0"),
    ],
)
def test_a_child_that_ends_early(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ready: str,
    exit_code: int,
    error: type[Exception],
    message: str,
) -> None:
    """ns-3 ends its process with 133, Cling without headers with 139."""
    runner.prepare()
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{ready}' >&2\necho 'last words' >&2\nexit {exit_code}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(error, match=message):
        runner.run_scenario(TINY, timeout_s=60)


@needs_ns3
def test_a_child_does_not_outlive_its_parent(tmp_path: Path) -> None:
    runner.prepare()
    scene = tmp_path / "scenario.json"
    scene.write_text(json.dumps(ENDLESS))
    told = tmp_path / "told"
    start = "import subprocess, sys, time; command, told = sys.argv[1:-1], open(sys.argv[-1], 'w')\n"
    start += "print(subprocess.Popen(command, stdout=told, stderr=told).pid, flush=True); time.sleep(300)"
    command = [sys.executable, "-m", "monkeytree.validation.child", "--attached", str(scene)]
    starter = [sys.executable, "-c", start, *command, str(told)]
    with subprocess.Popen(starter, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            _wait(lambda: "ready" in told.read_text() or not _lives(child))
            assert _lives(child), told.read_text()
        finally:
            parent.kill()
    _wait(lambda: not _lives(child))


def _wait(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _lives(process: int) -> bool:
    """By its state: the command line is empty not only of a zombie, but for a moment of what just started."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@needs_ns3
@pytest.mark.parametrize(
    ("document", "message"),
    [
        (scenario(2, [2], [[0, 2, 100, 10]], [flow("a", 0, 1, 1000)]), "no way from host 0 to host 1"),
        (star(2, [flow("a", 0, 1, 1000)], buffer_bytes=1000), "leave no shared buffer"),
    ],
)
def test_what_only_the_fabric_shows_is_refused_too(document: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidScenario, match=message):
        runner.run_scenario(document, timeout_s=120)


@needs_ns3
def test_progress_is_told() -> None:
    told: list[float] = []
    runner.run_scenario(incast(8, 120_000_000), timeout_s=300, on_progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1
