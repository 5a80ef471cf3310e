"""What happens to the state of a worker while Slurm moves its allocation.

Slurm moves the allocation, something else moves the state: a checkpoint on a shared file system, which the
new worker reads by itself; or ``monkeytree agent``. The second hooks in here.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from .refusals import Stop
from .work import Work, WorkerMove

Phase = Literal["expanded", "started", "shrunk", "held", "running"]
"""Where a move is, when the hook is called.

``expanded``: the job has the new node too, nothing of it runs there. ``started``: the new worker's step runs,
the old one runs still: now the state moves. ``shrunk``: the old node is given back. Of a job that is
requeued, for each of its moves: ``held``: its processes are gone; ``running``: it runs on its new nodes.
"""


class Between(Protocol):
    """A hook; it returns when the phase may be left.

    It is called again for the same move and phase where a crash came in between, so it must bear that.
    Raises :class:`~.refusals.Stop` (code ``state_failed``) to have the move taken back; after ``started``
    has returned the old worker is ended, and there is no way back.
    """

    def __call__(self, move: WorkerMove, phase: Phase) -> None: ...


def nothing(move: WorkerMove, phase: Phase) -> None:
    """No state to move, or the workers see to it."""


@dataclass(frozen=True)
class StateCommand:
    """Runs a command of the shell when the state has to move: phase ``started``.

    Attributes:
        limit_s: seconds it may take.
    """

    command: str
    work: Work
    limit_s: float

    def __call__(self, move: WorkerMove, phase: Phase) -> None:
        """Run it; Stop where it fails or takes too long."""
        if phase != "started":
            return
        environment = {**os.environ, **variables(self.work, move), "MT_PHASE": phase}
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", self.command], env=environment, timeout=self.limit_s, check=False,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Stop("state_failed", f"{move}: took longer than {self.limit_s:g} s") from None
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split())[-300:] or "no message"
            raise Stop("state_failed", f"{move}: ended with {done.returncode}: {said}")


def variables(work: Work, move: WorkerMove) -> Mapping[str, str]:
    """What commands are told of a move."""
    return {
        "MT_PLAN": work.plan_id,
        "MT_CLUSTER": work.cluster,
        "MT_MOVE": str(move.index),
        "MT_JOB": str(move.job_id),
        "MT_GROUP": move.group,
        "MT_RANK": str(move.rank),
        "MT_SOURCE": move.source,
        "MT_TARGET": move.target,
        "MT_WAVE": str(move.wave),
    }
