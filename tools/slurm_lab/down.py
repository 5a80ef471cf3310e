"""Ends the cluster that up.sh started: ``down.py DIR [--remove]``.

Only processes of that cluster are ended: its daemons, which name DIR on their command line or in
SLURM_CONF, and what its jobs started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

DAEMONS = ("slurmd", "slurmctld", "slurmdbd", "slurmstepd", "slurmrestd", "mariadbd", "munged")
PATIENCE_S = 5.0


def main() -> None:
    """The command line."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    conf = folder / "slurm.conf"
    if conf.exists():
        cancel(conf)
        end(folder)
    if "--remove" in sys.argv[2:]:
        shutil.rmtree(folder, ignore_errors=True)


def cancel(conf: Path) -> None:
    """Cancel all jobs, so that their steps end by themselves; a dead controller does not hold us up."""
    command = ["scancel", "--state=RUNNING,PENDING,SUSPENDED", "--user=root"]
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    try:
        subprocess.run(command, env=environment, timeout=5, capture_output=True, check=False)
    except (subprocess.TimeoutExpired, OSError):
        return
    time.sleep(0.5)


def end(folder: Path) -> None:
    """Ask all processes to end, slurmctld and slurmd before the database, then kill what is left."""
    for names in (("slurmctld", "slurmd"), DAEMONS):
        for process in processes(folder, names):
            send(process, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        while processes(folder, names) and time.monotonic() < deadline:
            time.sleep(0.1)
    for process in [*processes(folder, DAEMONS), *job_processes(folder)]:
        send(process, signal.SIGKILL)


def processes(folder: Path, names: tuple[str, ...]) -> list[int]:
    """The daemons of the cluster in ``folder`` that go by ``names``."""
    found = []
    for process in every_process():
        words = read(process, "cmdline").split("\0")
        name = Path(words[0]).name.partition(":")[0]
        ours = any(f"{folder}/" in word for word in words) or belongs(folder, process)
        if name in names and ours:
            found.append(process)
    return found


def job_processes(folder: Path) -> list[int]:
    """What jobs of the cluster started and left behind."""
    return [
        one for one in every_process() if belongs(folder, one) and "\0SLURM_JOB_ID=" in read(one, "environ")
    ]


def belongs(folder: Path, process: int) -> bool:
    """Whether its environment names the cluster's configuration."""
    return f"SLURM_CONF={folder}/slurm.conf" in read(process, "environ").split("\0")


def every_process() -> list[int]:
    """All but this one."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdecimal() and int(entry) != os.getpid()]


def read(process: int, what: str) -> str:
    """A file of /proc, "" where the process is gone or not ours."""
    try:
        return Path(f"/proc/{process}/{what}").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def send(process: int, number: signal.Signals) -> None:
    """Signal it, if it is still there."""
    with contextlib.suppress(OSError):
        os.kill(process, number)


if __name__ == "__main__":
    main()
