"""Slurm's own commands, each under a time limit, and counted.

With a dead controller a command waits half a minute, and some wait for ever; nothing here waits longer
than it is told. Each call is one process and the requests to slurmctld that its line in :data:`RPCS` says
(measured with ``sdiag`` on 22.05).
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .answers import parse
from .errors import SlurmFailed, SlurmUnavailable

TIME_LIMIT_S = 20.0
RPCS: Mapping[str, int] = {
    "squeue": 1, "squeue --steps": 2, "sinfo": 2, "scontrol": 1, "scontrol show config": 2,
    "sacct": 0, "sacctmgr": 0,
}  # fmt: skip
"""Requests to slurmctld of one call that reads (sacct and sacctmgr ask slurmdbd)."""
_UNREACHABLE = (
    "unable to contact slurm controller",
    "connection refused",
    "connection timed out",
    "socket timed out",
    "communication connection failure",
    "transport endpoint is not connected",
)


@dataclass
class SlurmClient:
    """The commands of one cluster.

    Attributes:
        timeout_s: seconds that any call may take, unless it says otherwise.
        conf: slurm.conf; by default that of the commands (SLURM_CONF or the one built in).
        bin: folder of the commands; by default they are looked for on PATH.
        calls: how often each command was run, by command and the word or two after it.
    """

    timeout_s: float = TIME_LIMIT_S
    conf: str | None = None
    bin: str | None = None
    calls: Counter[str] = field(default_factory=Counter)

    @property
    def rpcs(self) -> int:
        """Requests that the calls so far meant for slurmctld."""
        return sum(times * _rpcs(call) for call, times in self.calls.items())

    def run(
        self,
        command: str,
        *arguments: str,
        timeout_s: float | None = None,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """What ``command`` prints on standard output.

        Args:
            user: run it as this user (runuser; root only).
            environment: variables beside ours.

        Raises:
            SlurmUnavailable: no such command, no controller, or no end within the time.
            SlurmFailed: it refused; the message holds its words.
        """
        limit = self.timeout_s if timeout_s is None else timeout_s
        path = str(Path(self.bin) / command) if self.bin else command
        argv = ["runuser", "-u", user, "--", path, *arguments] if user else [path, *arguments]
        self.calls[" ".join((command, *arguments[:2]))] += 1
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit,
                check=False,
                stdin=subprocess.DEVNULL,
                env=self._environment(environment),
            )
        except subprocess.TimeoutExpired:
            raise SlurmUnavailable(f"{command} did not answer within {limit:g} s") from None
        except OSError as error:
            raise SlurmUnavailable(f"cannot run {path}: {error.strerror or error}") from None
        if done.returncode:
            raise _failure(command, arguments, done)
        return done.stdout

    def _environment(self, more: Mapping[str, str] | None) -> dict[str, str]:
        ours = {**os.environ, "LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "standard", **(more or {})}
        if self.conf:
            ours["SLURM_CONF"] = self.conf
        return ours

    def jobs(self, *arguments: str) -> Any:
        """``squeue --json``: all jobs that slurmctld knows, those of hidden partitions too."""
        return parse(self.run("squeue", "--json", "--all", *arguments), "squeue --json")

    def nodes(self) -> Any:
        """``sinfo --json``: all nodes."""
        return parse(self.run("sinfo", "--json", "--all"), "sinfo --json")

    def topology(self) -> str:
        """``scontrol show topology``; "" where the cluster has none (topology/none, topology/flat)."""
        return self.run("scontrol", "show", "topology")

    def steps(self) -> str:
        """One line a step: ``JOB.STEP|NODES``; the hidden ones of batch and extern too."""
        return self.run("squeue", "--steps", "--noheader", "--all", "--format=%i|%N")

    def config(self) -> dict[str, str]:
        """``scontrol show config``, by parameter."""
        pairs = (line.partition("=") for line in self.run("scontrol", "show", "config").splitlines())
        return {key.strip(): value.strip() for key, sign, value in pairs if sign}

    def job_environment(self, job_id: int) -> dict[str, str]:
        """The environment with which a batch job was submitted.

        slurmdbd keeps it under ``AccountingStoreFlags=job_env`` (21.08 and newer); {} where it does not.
        """
        told = self.run("sacct", "--jobs", str(job_id), "--env-vars")
        pairs = (line.partition("=") for line in told.splitlines())
        return {key: value for key, sign, value in pairs if sign and key.isidentifier()}


def _rpcs(call: str) -> int:
    """Requests of one call; the longest line of :data:`RPCS` that it begins with counts."""
    known = [line for line in RPCS if call == line or call.startswith(line + " ")]
    return RPCS[max(known, key=len)] if known else 1


def _failure(command: str, arguments: tuple[str, ...], done: subprocess.CompletedProcess[str]) -> SlurmFailed:
    said = " ".join((done.stderr.strip() or done.stdout.strip() or "no message").split())[:500]
    message = f"{' '.join((command, *arguments))} failed ({done.returncode}): {said}"
    if any(words in said.lower() for words in _UNREACHABLE):
        return SlurmUnavailable(message)
    return SlurmFailed(message)
