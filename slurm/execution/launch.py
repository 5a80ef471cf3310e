"""Starts the new worker: a step of its own on the new node, as the job's owner."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from ..client import SlurmClient
from ..jobs import SlurmJob
from .names import donor_name
from .work import Work, WorkerMove

MARK = re.compile(r"(?:^|\s|;)monkeytree-worker:(\S+)")


def worker_command(job: SlurmJob, given: str | None, site: str | None) -> str | None:
    """How a worker of ``job`` is started: the option, the job's comment, the site file, in this order."""
    said = MARK.search(job.comment)
    return given or (said[1] if said else None) or site


class Worker:
    """The process of ``srun`` that carries the new worker's step; it outlives us.

    Attributes:
        process: it; a session of its own, so that nothing that ends us ends it.
    """

    def __init__(
        self, client: SlurmClient, job: SlurmJob, command: str, work: Work, told: Mapping[str, str]
    ) -> None:
        """Start it.

        Raises:
            OSError: there is no srun.
        """
        move = work.move(int(told["MT_MOVE"]))
        argv = srun(client, job, command, work, move)
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        self.process = subprocess.Popen(
            argv, env=_environment(client, job, told), cwd="/", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said,
        )  # fmt: skip

    def ended(self) -> int | None:
        """Its exit code, None while it runs."""
        return self.process.poll()

    def said(self) -> str:
        """The end of what it wrote on standard error."""
        self._said.seek(0)
        return " ".join(self._said.read().decode("utf-8", "replace").split())[-300:] or "no message"


def srun(client: SlurmClient, job: SlurmJob, command: str, work: Work, move: WorkerMove) -> list[str]:
    """The command line. ``--overlap`` without a count of processors takes what the job has there."""
    path = str(Path(client.bin) / "srun") if client.bin else "srun"
    argv = [
        path, f"--jobid={job.job_id}", "--nodes=1", "--ntasks=1", f"--nodelist={move.target}", "--overlap",
        f"--job-name={donor_name(work.tag, move.index)}", "/bin/sh", "-c", command,
    ]  # fmt: skip
    ours = pwd.getpwuid(os.geteuid()).pw_name
    return argv if job.user in ("", ours) else ["runuser", "-u", job.user, "--", *argv]


def _environment(client: SlurmClient, job: SlurmJob, told: Mapping[str, str]) -> dict[str, str]:
    """Nothing of ours but what finds Slurm: the step hands it on to the worker."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ", "SLURM_CONF") if name in os.environ}
    try:
        owner = pwd.getpwnam(job.user or "root")
        kept |= {"HOME": owner.pw_dir, "USER": owner.pw_name, "LOGNAME": owner.pw_name}
    except KeyError:
        pass
    if client.conf:
        kept["SLURM_CONF"] = client.conf
    return {**kept, **told}
