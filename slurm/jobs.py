"""Jobs, read from ``squeue --json`` or slurmrestd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import values
from .answers import rows_of
from .errors import refuse_answer

HOLDING = frozenset(
    {
        "CONFIGURING", "COMPLETING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED",
        "POWER_UP_NODE",
    }
)  # fmt: skip
"""States in which a job's nodes are taken while it is not simply running."""
WAITING_OR_OVER = frozenset(
    {
        "PENDING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL",
        "DEADLINE", "OUT_OF_MEMORY", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL", "SPECIAL_EXIT",
    }
)  # fmt: skip
"""States in which a job has no nodes, whatever Slurm still names."""
OUR_PREFIX = "mt:"
"""Name or comment of the jobs that carry a plan out: ``mt:PLAN:MOVE``."""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job (or array task, or component of a heterogeneous job) as Slurm tells of it.

    Attributes:
        nodes: its nodes in Slurm's order, which is the order of its tasks.
        gres: what it holds on each of ``nodes``, as Slurm writes it; () where Slurm does not say.
        tres: what it holds, or, pending, asks for.
        array, het: ``(job id of the array or leader, index)``, None for others.
        features: those of ``--constraint``, an expression.
        time_limit: minutes, 0 where there is none.
        submitted_at, begins_at, ends_at: seconds since the epoch, 0 where not known; a running job ends by
            its time limit at the latest.
    """

    job_id: int
    name: str
    user: str
    account: str
    partition: str
    qos: str
    states: frozenset[str]
    nodes: tuple[str, ...]
    node_count: int
    batch_host: str
    batch: bool
    requeue: bool
    comment: str
    gres: tuple[str, ...]
    tres: str
    tres_per_node: str
    array: tuple[int, str] | None
    het: tuple[int, int] | None
    priority: int
    submitted_at: int
    begins_at: int
    ends_at: int
    time_limit: int
    dependency: str
    required: tuple[str, ...]
    excluded: tuple[str, ...]
    features: str
    reason: str
    reservation: str

    @property
    def running(self) -> bool:
        """Plainly running: its workers stand on its nodes."""
        return "RUNNING" in self.states and not self.states & HOLDING and not self.starting

    @property
    def starting(self) -> bool:
        """It has its nodes, and they are made ready for it; with ``PrologFlags`` Slurm calls that running."""
        return bool(self.states & {"CONFIGURING", "POWER_UP_NODE"}) or (
            "RUNNING" in self.states and self.reason == "Prolog"
        )

    @property
    def holding(self) -> bool:
        """Its nodes are taken, yet it is not (any more, or yet) a placement of workers.

        So are, to be on the safe side, those of a job in a state that is not known here.
        """
        unknown = not self.states & (WAITING_OR_OVER | {"RUNNING"})
        return bool(self.nodes) and (unknown or self.starting or bool(self.states & HOLDING))

    @property
    def pending(self) -> bool:
        """Waits for nodes."""
        return "PENDING" in self.states and not self.states & HOLDING

    @property
    def words(self) -> str:
        """Its states for people: ``completing+failed``, ``running, in its prolog``."""
        prolog = ", in its prolog" if self.reason == "Prolog" else ""
        return "+".join(sorted(self.states)).lower() + prolog

    @property
    def ours(self) -> bool:
        """A helper of a plan in execution, such as a donor of nodes."""
        return self.name.startswith(OUR_PREFIX) or self.comment.startswith(OUR_PREFIX)


def read_jobs(answer: Any) -> tuple[SlurmJob, ...]:
    """The jobs of an answer, of either shape.

    Raises:
        InvalidAnswer: naming the field; SlurmFailed where the answer tells of errors.
    """
    jobs: list[SlurmJob] = []
    present: set[int] = set()
    for at, row in enumerate(rows_of(answer, "jobs")):
        job = _job(row, f"/jobs/{at}")
        if job.nodes or job.pending:
            if job.job_id in present:
                raise refuse_answer(f"/jobs/{at}/job_id", "is the id of another job already", job.job_id)
            present.add(job.job_id)
        jobs.append(job)
    return tuple(jobs)


def _job(row: Mapping[str, Any], at: str) -> SlurmJob:
    job_id = values.number(row, "job_id", at)
    if job_id is None:
        raise refuse_answer(f"{at}/job_id", "is missing", sorted(row)[:5])
    array_id = values.number(row, "array_job_id", at, 0) or 0
    het_id = values.number(row, "het_job_id", at, 0) or 0
    states = values.states(row, "job_state", at=at)
    nodes = values.hosts(row, "nodes", at)
    # A donor that has given its nodes away still runs for a moment, with none.
    if "RUNNING" in states and not nodes and values.number(row, "node_count", at, 1):
        raise refuse_answer(f"{at}/nodes", f"is empty, though job {job_id} runs", row.get("nodes"))
    return SlurmJob(
        job_id=job_id,
        name=values.text(row, "name", at),
        user=values.text(row, "user_name", at),
        account=values.text(row, "account", at),
        partition=values.text(row, "partition", at),
        qos=values.text(row, "qos", at),
        states=states,
        nodes=nodes,
        node_count=values.number(row, "node_count", at, len(nodes)) or 0,
        batch_host=values.text(row, "batch_host", at),
        batch=values.flag(row, "batch_flag", at, True),
        requeue=values.flag(row, "requeue", at),
        comment=_comment(row, at),
        gres=values.gres_detail(row, "gres_detail", at),
        tres=values.text(row, "tres_alloc_str", at) or values.text(row, "tres_req_str", at),
        tres_per_node=values.text(row, "tres_per_node", at),
        array=(array_id, _task(row, at)) if array_id else None,
        het=(het_id, values.number(row, "het_job_offset", at, 0) or 0) if het_id else None,
        priority=values.number(row, "priority", at, 0) or 0,
        submitted_at=values.number(row, "submit_time", at, 0) or 0,
        begins_at=values.number(row, "start_time", at, 0) or 0,
        ends_at=values.number(row, "end_time", at, 0) or 0,
        time_limit=values.number(row, "time_limit", at, 0) or 0,
        dependency=values.text(row, "dependency", at),
        required=values.hosts(row, "required_nodes", at),
        excluded=values.hosts(row, "excluded_nodes", at),
        features=values.text(row, "features", at),
        reason=values.text(row, "state_reason", at),
        reservation=values.text(row, "resv_name", at),
    )


def _comment(row: Mapping[str, Any], at: str) -> str:
    """The user's comment; some versions tell three kinds in one object."""
    comment = row.get("comment")
    if isinstance(comment, Mapping):
        return values.text(comment, "job", f"{at}/comment")
    return values.text(row, "comment", at)


def _task(row: Mapping[str, Any], at: str) -> str:
    task = values.number(row, "array_task_id", at)
    return values.text(row, "array_task_string", at) if task is None else str(task)
