"""Why moves are refused or come to a stop: stable codes, and what to do (docs/slurm.md lists them)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

REFUSALS: Final[Mapping[str, str]] = {
    "plan_mismatch": "the plan is not one of this snapshot; plan again",
    "placement_changed": "a job is not where the plan found it; take a new snapshot and plan again",
    "job_gone": "a job of the plan runs no more; take a new snapshot and plan again",
    "not_slurm": "a job's id, or its label slurm_job_id, is no job id of Slurm",
    "no_slurmdbd": "without slurmdbd Slurm cannot shrink a job again; set AccountingStorageType",
    "no_job_expansion": "Slurm expands no job; add permit_job_expansion to SchedulerParameters",
    "gres_in_live": "Slurm does not expand a job that holds generic resources; use the profile requeue",
    "shared_nodes": (
        "Slurm would give the new node to a second job, as the job did not ask for whole nodes; "
        "submit it with --exclusive, or use the profile requeue"
    ),
    "batch_host": "Slurm never takes its batch host from a running job; pin it, or use the profile requeue",
    "before_batch_host": (
        "Slurm takes the first of its nodes for a job's batch host, so none may be added before it; "
        "use the profile requeue"
    ),
    "steps_span_nodes": "a step of the job spans the node to leave and others; start one step a worker",
    "no_worker_command": (
        "nothing says how the new worker is started; give --start-worker, moves.start_worker of the site "
        "file, or monkeytree-worker:COMMAND in the job's comment"
    ),
    "het_job": "Slurm neither resizes nor places components of heterogeneous jobs",
    "not_requeueable": "the job is no batch job with Requeue=1",
    "job_reserved": "the job runs in a reservation of its own, which a requeue would take from it",
    "ranks_not_kept": (
        "after a requeue ranks follow Slurm's order of nodes, which would put workers into other groups "
        "than the plan says"
    ),
    "no_free_slot": "workers wait for each other's nodes and none is free; use the profile requeue or auto",
    "destination_reserved": "a destination is in a reservation of somebody else",
    "node_unwanted": (
        "the job excludes a destination (--exclude), or asks for a feature (--constraint) that it lacks"
    ),
    "destination_busy": "another job has got onto a destination since; take a new snapshot and plan again",
    "node_down": "a destination is down or drained; plan again",
}
"""Refused before anything is changed."""

STOPS: Final[Mapping[str, str]] = {
    "job_ended": "a job ended meanwhile: its moves are skipped, the others go on",
    "job_changed": "somebody else changed a job meanwhile",
    "node_down": "a destination went down or was drained",
    "destination_busy": "somebody else got onto a destination",
    "reservation_refused": "a destination could not be reserved; that takes root, SlurmUser or an operator",
    "slurm_refused": "Slurm refused a command; the message has its words",
    "expand_refused": "Slurm did not give the node",
    "worker_failed": "the new worker's command failed, or its step did not show up",
    "state_failed": "the state command failed: the worker stays where it was",
    "state_unknown": "nobody can tell where the state is: both nodes stay; run the same command again",
    "shrink_refused": "Slurm did not take the old node from the job",
    "not_held": "a requeued job did not end its processes in time",
    "not_started": "a requeued job did not start on its nodes in time: it waits, free to start anywhere",
    "slurm_unavailable": "slurmctld did not answer for `moves.patience_s`; run the same command again",
}
"""Met on the way."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason against carrying a plan out.

    Attributes:
        code: a key of :data:`REFUSALS`.
        what: job, move or node concerned, in words.
    """

    code: str
    what: str

    def __str__(self) -> str:
        return f"{self.code}: {self.what}: {REFUSALS[self.code]}"


class Stop(Exception):
    """A move cannot go on.

    Attributes:
        code: a key of :data:`STOPS`.
    """

    def __init__(self, code: str, what: str) -> None:
        super().__init__(f"{code}: {what}")
        self.code = code
        self.what = what
