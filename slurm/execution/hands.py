"""What an execution does to Slurm, one command each; what each does was tried on 22.05 (docs/slurm.md).

A job is named as Slurm shows it (``4711_3``): the number of one task of an array is that of the array too,
and by it a command would requeue, or place, every task.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..client import SlurmClient
from ..hostlist import fold
from ..jobs import SlurmJob
from ..steps import display_id
from .names import donor_name, reservation_name

DONOR_MINUTES = 10
"""Time limit of a donor: one that was forgotten gives its node back."""
SALLOC_S = 10
"""Seconds that salloc may wait for a node; without a limit it waits for ever."""
BETWEEN_SIZES_S = 1.0
"""slurmdbd tells the sizes of a job apart by the whole second in which each began.

Of two in one second it keeps one, and now and then closes that: a running job then looks ended to sacct.
"""
RESTART_REST_S = 3.0
"""A node refuses a job's credential that is not of a later whole second than the end of its last run there.

slurmctld then takes the job for one that cannot be started, and ends it. Slurm itself lets two minutes pass
after a requeue. One second is for the rounding, two for clocks of nodes and controller that differ.
"""


@dataclass
class Hands:
    """Commands that change something.

    Attributes:
        hold_s: seconds after which a reservation expires by itself.
    """

    client: SlurmClient
    tag: str
    hold_s: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _resized: dict[int, float] = field(default_factory=dict)
    _ended: dict[int, float] = field(default_factory=dict)

    def rest(self, job: int) -> float:
        """Seconds until ``job``, which has no process any more, may be started anew."""
        return max(0.0, self._ended.setdefault(job, self.clock()) + RESTART_REST_S - self.clock())

    def _resize(self, job: SlurmJob, *update: str) -> None:
        """Run an update that changes the nodes of ``job``, in another second than the one before."""
        last = self._resized.get(job.job_id)
        if last is not None:
            self.sleep(max(0.0, last + BETWEEN_SIZES_S - self.clock()))
        try:
            self.client.run("scontrol", "update", *update)
        finally:
            self._resized[job.job_id] = self.clock()

    def reserve(self, move: int, nodes: Iterable[str], owner: str, *, overlap: bool) -> None:
        """Keep others off ``nodes``; jobs on them stay. The owner's job may use them (and end later)."""
        flags = "IGNORE_JOBS,FLEX" + (",OVERLAP" if overlap else "")
        ours = pwd.getpwuid(os.geteuid()).pw_name
        users = ",".join(dict.fromkeys(user for user in (ours, owner) if user))
        self.client.run(
            "scontrol", "create", "reservation", f"ReservationName={reservation_name(self.tag, move)}",
            f"Nodes={fold(nodes)}", f"Users={users}", "StartTime=now", f"Duration={self._minutes()}",
            f"Flags={flags}",
        )  # fmt: skip

    def keep(self, name: str) -> None:
        """Let a reservation last for :attr:`hold_s` from now."""
        self.client.run(
            "scontrol", "update", f"ReservationName={name}", f"EndTime=now+{self._minutes()}minutes"
        )

    def unreserve(self, name: str) -> None:
        """Give the nodes of a reservation free."""
        self.client.run("scontrol", "delete", f"ReservationName={name}")

    def _minutes(self) -> int:
        return max(1, -(-int(self.hold_s) // 60))

    def donate(self, move: int, job: SlurmJob, node: str) -> None:
        """Get ``node`` for a donor: an allocation without steps that ``job`` may take over.

        Slurm wants donor and job of one partition and one quality of service, and either may limit times.
        """
        name = donor_name(self.tag, move)
        minutes = min(DONOR_MINUTES, job.time_limit or DONOR_MINUTES)
        self.client.run(
            "salloc", "--no-shell", f"--immediate={SALLOC_S}", "--exclusive", "--mem=0", "--nodes=1",
            f"--nodelist={node}", f"--dependency=expand:{job.job_id}", f"--job-name={name}",
            f"--comment={name}", f"--time={minutes}", f"--partition={job.partition}",
            *([f"--qos={job.qos}"] if job.qos else []),
            f"--reservation={reservation_name(self.tag, move)}",
            timeout_s=self.client.timeout_s + SALLOC_S,
        )  # fmt: skip

    def give(self, donor: SlurmJob, job: SlurmJob) -> None:
        """Move the donor's node to ``job``, for which it was made; the donor ends."""
        self._resize(job, f"JobId={donor.job_id}", "NumNodes=0")

    def absorb(self, job: SlurmJob) -> None:
        """Have the job count its new nodes."""
        self.client.run("scontrol", "update", f"JobId={display_id(job)}", "NumNodes=ALL")

    def shrink(self, job: SlurmJob, nodes: Iterable[str]) -> None:
        """Leave a running job these of its nodes; steps on the others end."""
        self._resize(job, f"JobId={display_id(job)}", f"NodeList={fold(nodes)}")

    def reconfigure(self) -> None:
        """Have slurmctld count anew who has nodes for himself.

        After a job with whole nodes was shrunk, 22.05 counts it on its old node for ever: once the next
        job there has ended, no other with whole nodes gets that node.
        """
        self.client.run("scontrol", "reconfigure")

    def cancel(self, job: int) -> None:
        """End a donor."""
        self.client.run("scancel", str(job))

    def requeue_and_hold(self, job: SlurmJob) -> None:
        """End all processes of a job and put it back, held."""
        self._ended.pop(job.job_id, None)
        self.client.run("scontrol", "requeuehold", display_id(job))

    def hold(self, job: SlurmJob) -> None:
        """Keep a pending job from starting."""
        self.client.run("scontrol", "hold", display_id(job))

    def place(self, job: SlurmJob, nodes: Iterable[str], reservation: str) -> None:
        """Say where a pending job must start; no nodes: anywhere.

        Of a running job the same words would take nodes away: it must be pending for sure.
        """
        self.client.run(
            "scontrol", "update", f"JobId={display_id(job)}", f"ReqNodeList={fold(nodes)}",
            f"ReservationName={reservation}",
        )  # fmt: skip

    def release(self, job: SlurmJob) -> None:
        """Let a held job start."""
        self.client.run("scontrol", "release", display_id(job))

    def start_now(self, job: SlurmJob) -> None:
        """Spare a requeued job the two minutes that Slurm makes it wait; not before its :meth:`rest`."""
        self.client.run("scontrol", "update", f"JobId={display_id(job)}", "StartTime=now")

    def leave_reservation(self, job: SlurmJob) -> None:
        """Take a running job out of its reservation, which could not be deleted otherwise."""
        self.client.run("scontrol", "update", f"JobId={display_id(job)}", "ReservationName=")

    def comment(self, job: SlurmJob, text: str) -> None:
        """Set the job's comment."""
        self.client.run("scontrol", "update", f"JobId={display_id(job)}", f"Comment={text}")
