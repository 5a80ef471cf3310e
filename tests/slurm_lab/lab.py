"""A Slurm cluster of the tests, and what they do to it."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from monkeytree.slurm.client import SlurmClient
from monkeytree.slurm.errors import SlurmFailed

ROOT = Path(__file__).parent.parent.parent
TOOLS = ROOT / "tools" / "slurm_lab"
PATIENCE_S = 60.0
ONE_STEP_A_WORKER = """#!/bin/bash
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    srun -N1 -n1 -w "$node" sleep 600 &
done
wait
"""
SLEEP = "#!/bin/bash\nsleep 600\n"


def eventually(holds: Callable[[], bool], seconds: float = PATIENCE_S, every: float = 0.2) -> bool:
    """Whether ``holds`` comes true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


@dataclass
class Lab:
    """One cluster: its folder and a client of ours."""

    folder: Path
    nodes: int
    client: SlurmClient

    @property
    def conf(self) -> str:
        """Its slurm.conf."""
        return str(self.folder / "slurm.conf")

    @property
    def environment(self) -> dict[str, str]:
        """Ours, speaking to this cluster."""
        return {**os.environ, "SLURM_CONF": self.conf}

    def submit(self, name: str, nodes: str | int, *options: str, script: str = ONE_STEP_A_WORKER) -> int:
        """Submit a batch job, on these nodes (a hostlist) or on so many; its id."""
        where = (
            [f"--nodes={nodes}"]
            if isinstance(nodes, int)
            else [f"--nodelist={nodes}", f"--nodes={self.count(nodes)}"]
        )
        file = self.folder / f"{name}.sh"
        file.write_text(script)
        shape = ["--ntasks-per-node=1", "--cpus-per-task=16", "--output=/dev/null", f"--chdir={self.folder}"]
        return int(
            self.client.run("sbatch", "--parsable", f"--job-name={name}", *where, *shape, *options, str(file))
        )

    @staticmethod
    def count(hostlist: str) -> int:
        """Hosts of a hostlist."""
        from monkeytree.slurm.hostlist import expand

        return len(expand(hostlist))

    def states(self) -> dict[int, tuple[str, str]]:
        """State and nodes of each job that is not over."""
        lines = self.client.run("squeue", "--noheader", "--format=%A|%T|%N").splitlines()
        rows = (line.split("|") for line in lines)
        return {int(job): (state, nodes) for job, state, nodes in rows}

    def running(self, jobs: Sequence[int], *, steps: bool = True) -> None:
        """Wait until they run, with a step on every node."""

        def all_run() -> bool:
            states = self.states()
            if not all(states.get(job, ("", ""))[0] == "RUNNING" for job in jobs):
                return False
            told = self.client.steps().splitlines()
            started = [line for line in told if re.match(r"\d+(_\d+)?\.\d+\|", line)]
            wanted = sum(self.count(states[job][1]) for job in jobs)
            return not steps or len(started) >= wanted

        assert eventually(all_run), (self.states(), self.client.steps())

    def clear(self) -> None:
        """No job, no reservation, every node idle."""
        for line in self.client.run("scontrol", "--oneliner", "show", "reservation").splitlines():
            found = re.match(r"ReservationName=(\S+)", line)
            if found:
                self.client.run("scontrol", "delete", f"ReservationName={found[1]}")
        self.client.run("scancel", "--user=root", "--state=PENDING")
        self.client.run("scancel", "--user=root")
        assert eventually(lambda: not self.states()), self.states()
        if self.idle() < self.nodes:
            every = f"NodeName=node[001-{self.nodes:03d}]"
            for state in ("DOWN", "RESUME"):
                self.client.run("scontrol", "update", every, f"State={state}", "Reason=test")
        assert eventually(lambda: self.idle() == self.nodes), self.client.run("sinfo")

    def idle(self) -> int:
        """Idle nodes."""
        told = self.client.run("sinfo", "--noheader", "--states=idle", "--format=%D %t").split()
        return sum(int(count) for count, state in zip(told[::2], told[1::2], strict=True) if state == "idle")

    def stop_controller(self) -> None:
        """Stop slurmctld as a service manager does: killed with -9 it forgets what it has not saved yet."""
        pid = int((self.folder / "run" / "slurmctld.pid").read_text())
        os.kill(pid, signal.SIGTERM)
        assert eventually(lambda: not Path(f"/proc/{pid}").exists())

    def start_controller(self) -> None:
        """Start it again, and wait for its answers."""
        subprocess.run(["slurmctld", "-f", self.conf], env=self.environment, check=True, timeout=30)

        def answers() -> bool:
            try:
                return "UP" in self.client.run("scontrol", "ping", timeout_s=5)
            except SlurmFailed:
                return False

        assert eventually(answers)

    def rpcs(self) -> int:
        """Requests that slurmctld has had, but for those of sdiag, of nodes and of slurmdbd themselves."""
        told = self.client.run("sdiag")
        ours = (
            "JOB_INFO",
            "JOB_STEP_INFO",
            "NODE_INFO",
            "PARTITION_INFO",
            "TOPO_INFO",
            "FED_INFO",
            "BUILD_INFO",
            "PING",
        )
        rows = re.findall(r"REQUEST_(\w+)\s+\(\s*\d+\) count:(\d+)", told)
        return sum(int(count) for name, count in rows if name in ours)


def free_ports(count: int) -> int:
    """The first of so many neighbouring ports that nobody listens on, below the ephemeral ones."""
    for base in random.sample(range(18_000, 32_000, 200), 70):
        try:
            for port in range(base, base + count):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise AssertionError("no free ports")


@contextmanager
def bring_up(*, nodes: int, gres: bool = False) -> Iterator[Lab]:
    """A cluster with racks of eight, in a folder of its own; both are gone on leaving."""
    options = ["--port-base", str(free_ports(nodes + 2)), *(["--gres"] if gres else [])]
    environment = {**os.environ, "PYTHON": sys.executable}
    folder = Path(tempfile.mkdtemp(prefix="slurm-lab-"))
    folder.chmod(0o755)  # slurmrestd runs as somebody else and must read slurm.conf
    try:
        subprocess.run(
            [str(TOOLS / "up.sh"), str(folder), str(nodes), "8", *options],
            check=True,
            timeout=180,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        yield Lab(folder, nodes, SlurmClient(20.0, str(folder / "slurm.conf")))
    finally:
        down = [sys.executable, str(TOOLS / "down.py"), str(folder), "--remove"]
        subprocess.run(down, check=False, timeout=60)
