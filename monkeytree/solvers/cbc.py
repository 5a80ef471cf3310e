"""CBC, as a subprocess on an MPS file: small, free, and killable at any moment.

The binary is Debian's ``cbc`` on PATH or the one that PuLP's wheel carries; PuLP itself is not used,
since its status calls a timeout without an incumbent "Infeasible". What counts as a proof is read
from CBC's own log and solution file. The child is in its own process group and dies with the thread
that started it (PR_SET_PDEATHSIG), so a killed worker leaves no solver behind.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from importlib import util
from pathlib import Path

from monkeytree.errors import SolverFailed, SolverUnavailable
from monkeytree.program import Outcome, Program, judge

from .child import die_with_parent
from .mps import write_mps

NAME = "cbc"
_GRACE_S = 5.0


@functools.cache
def binary() -> str | None:
    """Path of a CBC binary; None where there is none."""
    on_path = shutil.which("cbc")
    if on_path:
        return on_path
    package = util.find_spec("pulp")
    for folder in (package.submodule_search_locations or []) if package else []:
        for found in sorted(Path(folder, "solverdir", "cbc", "linux").glob("*/cbc")):
            if _runs(found):
                return str(found)
    return None


def refusal(program: Program) -> str | None:
    """Why this program cannot be solved here; None if it can."""
    if binary() is None:
        return "no cbc on PATH and none in the pulp package; install coinor-cbc or pulp"
    return None


def solve(program: Program, time_limit_s: float) -> Outcome:
    """Minimise on one thread.

    Raises:
        SolverUnavailable: there is no CBC here.
        SolverFailed: CBC crashed or wrote no readable answer; its last words are in the message.
    """
    path = binary()
    if path is None:
        raise SolverUnavailable(f"cbc: {refusal(program)}")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="monkeytree-cbc-") as folder:
        model, answer = Path(folder, "model.mps"), Path(folder, "answer.txt")
        model.write_text(write_mps(program))
        log = _run(path, model, answer, program.gap(), time_limit_s)
        text = answer.read_text() if answer.exists() else ""
    return read_answer(program, text, log, time.perf_counter() - start)


def read_answer(program: Program, answer: str, log: str, seconds: float) -> Outcome:
    """The outcome told by CBC's solution file and log."""
    version = _match(r"Version:?\s+(\S+)", log) or "unknown"
    if not answer:
        raise SolverFailed(f"cbc wrote no solution file; its last words: {log.strip()[-300:]!r}")
    verdict, *lines = answer.splitlines()
    infeasible = verdict.startswith(("Infeasible", "Integer infeasible"))
    found = not infeasible and "no integer solution" not in verdict
    bound_text = _match(r"Lower bound:\s+(\S+)", log)
    bound = float(bound_text) if bound_text else None
    values = _values(program, lines) if found else None
    if found and verdict.startswith("Optimal") and bound is None and values is not None:
        # Solved before branching: CBC prints no bound then, and the incumbent is its own.
        bound = sum(cost * values[column] for column, cost in program.objective.items())
    return judge(program, values=values, bound=bound, infeasible=infeasible, seconds=seconds, version=version)


def _values(program: Program, lines: list[str]) -> list[float]:
    """Column values of a solution file: ``index name value cost`` a line, zeros left out."""
    values = [0.0] * program.width
    for line in lines:
        parts = line.replace("**", " ").split()
        if len(parts) >= 3 and parts[1].startswith("C"):
            values[int(parts[1][1:])] = float(parts[2])
    return values


def _run(path: str, model: Path, answer: Path, gap: float, time_limit_s: float) -> str:
    command = [path, str(model), "-seconds", f"{max(0.05, time_limit_s):.3f}", "-timeMode", "elapsed"]
    command += ["-ratioGap", "0", "-allowableGap", f"{gap:.6g}", "-solve", "-solution", str(answer)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
        preexec_fn=die_with_parent,
    )
    try:
        log, _ = process.communicate(timeout=time_limit_s + _GRACE_S)
        return log
    except subprocess.TimeoutExpired:
        return "stopped: it did not end at its own time limit"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _runs(path: Path) -> bool:
    """Whether a binary is for this machine (PuLP carries several)."""
    if not os.access(path, os.X_OK):
        return False
    try:
        return subprocess.run([path, "-quit"], capture_output=True, timeout=10).returncode == 0
    except OSError:
        return False


def _match(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found.group(1) if found else None
