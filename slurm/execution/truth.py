"""What is so in Slurm right now, as far as an execution must know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..answers import rows_of
from ..client import SlurmClient
from ..hostlist import expand
from ..jobs import SlurmJob, read_jobs
from ..nodes import SlurmNode, read_nodes
from ..steps import Steps, read_steps
from .names import donor_name, donor_prefix

ALIVE = frozenset(
    {"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "RESIZING", "REQUEUED", "REQUEUE_HOLD"}
)
UNSETTLED = frozenset({"UNKNOWN", "NOT_RESPONDING", "NO_RESPOND"})
_RESERVATION = re.compile(r"^ReservationName=(\S+).*?\sNodes=(\S+)")
_STARTS = re.compile(r"\sStartTime=(\S+)")
_ENDS = re.compile(r"\sEndTime=(\S+)")


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation of nodes; times as Slurm writes them."""

    name: str
    nodes: frozenset[str]
    ends: str
    starts: str = ""


@dataclass(frozen=True)
class Truth:
    """One look at jobs and nodes.

    Attributes:
        jobs: those that are not over.
        whole: jobs that have their nodes for themselves (``--exclusive``).
    """

    jobs: Mapping[int, SlurmJob]
    whole: frozenset[int]
    nodes: Mapping[str, SlurmNode]

    def donors(self, tag: str, move: int) -> list[SlurmJob]:
        """Donors of a move that still hold, or wait for, a node; the oldest first."""
        name = donor_name(tag, move)
        return [job for _, job in sorted(self.jobs.items()) if job.name == name and _gives(job)]

    def helpers(self, tag: str) -> list[SlurmJob]:
        """Donors of any move of a plan."""
        prefix = donor_prefix(tag)
        return [job for _, job in sorted(self.jobs.items()) if job.name.startswith(prefix) and _gives(job)]

    def others_on(self, node: str, but: int) -> list[SlurmJob]:
        """Jobs that are on ``node``, but for this one."""
        return [job for job in self.jobs.values() if node in job.nodes and job.job_id != but]

    def unfit(self, node: str) -> str:
        """Why nothing can start on ``node``; "" where it can."""
        found = self.nodes.get(node)
        if found is None:
            return "is no node of Slurm"
        if found.absent or found.draining:
            return f"is {'+'.join(sorted(found.states)).lower()}"
        return ""

    def unsettled(self, node: str) -> bool:
        """Whether ``node`` may be well in a moment: slurmctld has started, and not heard of it yet."""
        found = self.nodes.get(node)
        return found is not None and bool(found.states & UNSETTLED) and not found.draining


def _gives(job: SlurmJob) -> bool:
    """A donor that gave its node away is COMPLETED, or for a moment runs with none."""
    return bool(job.nodes) or "PENDING" in job.states


def look(client: SlurmClient) -> Truth:
    """Ask ``squeue`` and ``sinfo``.

    Raises:
        SlurmFailed, InvalidAnswer.
    """
    told = client.jobs()
    rows = rows_of(told, "jobs")
    jobs = {job.job_id: job for job in read_jobs(told) if job.states & ALIVE}
    whole = frozenset(
        job for row, job in zip(rows, (one.job_id for one in read_jobs(told)), strict=True) if _is_whole(row)
    )
    return Truth(jobs, whole, {node.name: node for node in read_nodes(client.nodes())})


def _is_whole(row: Mapping[str, Any]) -> bool:
    """``shared`` is "none" or ["none"] for a job with whole nodes; newer versions say ``exclusive`` too."""
    shared, exclusive = row.get("shared"), row.get("exclusive")
    said = [*(shared if isinstance(shared, list) else [shared])]
    if isinstance(exclusive, list):
        said += ["none" for word in exclusive if word in ("true", "exclusive")]
    return "none" in said


def look_at_steps(client: SlurmClient) -> Steps:
    """Steps of all jobs."""
    return read_steps(client.steps())


def reservations(client: SlurmClient) -> dict[str, Reservation]:
    """All reservations of nodes, by name."""
    found = {}
    for line in client.run("scontrol", "--oneliner", "show", "reservation").splitlines():
        named = _RESERVATION.match(line)
        if named:
            starts, ends = (time[1] if time else "" for time in (_STARTS.search(line), _ENDS.search(line)))
            found[named[1]] = Reservation(named[1], frozenset(expand(named[2])), ends, starts)
    return found


def seconds_until(time: str) -> float:
    """Until a time as Slurm writes it, in the zone of this host; 0 where it cannot be read."""
    try:
        return (datetime.fromisoformat(time) - datetime.now()).total_seconds()
    except ValueError:
        return 0.0
