"""Reading and planning 65,536 GPUs: time to ingest, and peak memory in a process of its own."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import monkeytree
from monkeytree.snapshot import Snapshot

from .churn import Shape, cold, one_worker_a_gpu, states
from .measure import quantile, spending
from .table import heading, number, show

AIM_MB = 300
LARGE = Shape(1024, 8)
ROOT = Path(__file__).parent.parent


def report(seed: int, repeats: int, *, quick: bool) -> None:
    """Print ingest and memory."""
    _, state = next(iter(states(LARGE, "seq", seed)))
    by_gpu = one_worker_a_gpu(state)
    heading("Ingest of a 65,536-GPU snapshot")
    rows = [_ingest("a worker a GPU", by_gpu, repeats), _ingest("a worker a server", state, repeats)]
    show(["CPU ms", "MB of JSON", "json.loads", "load_snapshot", "ratio"], rows)
    heading(f"Peak memory of a 65,536-GPU plan (aim: under {AIM_MB} MB)")
    cases = {"churned, a worker a server": state, "churned, a worker a GPU": by_gpu}
    if not quick:
        cases["cold, a worker a server"] = cold(Shape(1024, 8, load=0.93), "seq", seed)
    titles = [
        "a process that loads, plans and ends",
        "start",
        "with the snapshot",
        "with the plan",
        "largest child",
        "plan",
    ]
    show(titles, [[name, *_peaks(snapshot)] for name, snapshot in cases.items()])


def _ingest(name: str, snapshot: Snapshot, repeats: int) -> list[str]:
    text = json.dumps(monkeytree.dump_snapshot(snapshot)).encode()
    plain, ours = [], []
    for _ in range(repeats):
        with spending() as spent:
            json.loads(text)
        plain.append(spent.cpu_ms)
        with spending() as spent:
            monkeytree.load_snapshot(io.BytesIO(text))
        ours.append(spent.cpu_ms)
    ratio = quantile(ours, 0.5) / quantile(plain, 0.5)
    cells = [len(text) / 1e6, quantile(plain, 0.5), quantile(ours, 0.5), ratio]
    return [name, *map(number, cells)]


def _peaks(snapshot: Snapshot) -> list[str]:
    """Peaks in MB, told by a fresh process."""
    with tempfile.TemporaryDirectory(prefix="monkeytree-bench-") as folder:
        file = Path(folder, "snapshot.json")
        file.write_text(json.dumps(monkeytree.dump_snapshot(snapshot)), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "bench.sizes", str(file)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        return ["-", "-", "-", "-", done.stderr.strip().splitlines()[-1]]
    return done.stdout.split(" ", 4)


def peak_mb() -> float:
    """Peak resident memory of this process in MB.

    VmHWM, not ru_maxrss: the latter starts at the size of whoever started us (Linux, exec).
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1e3
    raise RuntimeError("no VmHWM in /proc/self/status: not Linux?")


def _in_a_fresh_process(file: str) -> None:
    peaks = [peak_mb()]
    snapshot = monkeytree.load_snapshot(file)
    peaks.append(peak_mb())
    start = time.monotonic()
    plan = monkeytree.make_plan(snapshot, time_limit_s=120)
    peaks.append(peak_mb())
    child_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    said = f"{plan.status}, {plan.moves_needed} moves, {time.monotonic() - start:.1f} s"
    print(*(f"{peak:.0f}" for peak in (*peaks, child_mb)), said, end="")


if __name__ == "__main__":
    _in_a_fresh_process(sys.argv[1])
