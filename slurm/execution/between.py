"""What happens to the state of a worker while Slurm moves its allocation.

Slurm moves the allocation, something else moves the state: a checkpoint on a shared file system, which the
new worker reads by itself; or ``monkeytree agent``. The second hooks in here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol

from ..hostlist import fold
from .journal import Journal
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
    Raises :class:`~.refusals.Stop`: with the code ``state_failed`` the worker is at its source for sure, and
    the move is taken back; with ``state_unknown`` it may be at either end, and both nodes stay with the job.
    After ``started`` has returned the old worker is ended, and there is no way back.
    """

    def __call__(self, move: WorkerMove, phase: Phase) -> None: ...


def nothing(move: WorkerMove, phase: Phase) -> None:
    """No state to move, or the workers see to it."""


NOT_MOVED = 7
"""Exit code of a state command: the state is where it was, for sure."""
UNSURE = 75
"""Exit code of a state command that cannot tell (EX_TEMPFAIL of sysexits.h); ends by signals are taken so."""
_OF_SHELLS = 128  # and above: how a shell tells that a signal ended its command


@dataclass(frozen=True)
class StateCommand:
    """Runs a command of the shell when the state has to move: phase ``started``.

    Attributes:
        limit_s: seconds it may take.
    """

    command: str
    work: Work
    limit_s: float
    journal: Journal

    def __call__(self, move: WorkerMove, phase: Phase) -> None:
        """Run it.

        Raises:
            Stop: ``state_failed`` where the state has not moved, ``state_unknown`` where nobody can tell.
        """
        if phase != "started":
            return
        with tempfile.TemporaryFile() as said:
            code = self._run(move, said.fileno())
            said.seek(0)
            words = " ".join(said.read().decode("utf-8", "replace").split())[-300:] or "no message"
        if code is None:
            raise Stop("state_unknown", f"{move}: it took longer than {self.limit_s:g} s")
        cut_off = called_before(self.journal, move)
        if code == UNSURE or code < 0 or code >= _OF_SHELLS or (cut_off and code not in (0, NOT_MOVED)):
            raise Stop("state_unknown", f"{move}: it ended with {code}: {words}")
        if code:
            raise Stop("state_failed", f"{move}: ended with {code}: {words}")

    def _run(self, move: WorkerMove, output: int) -> int | None:
        """Its exit code; None where it took too long, and was ended with all that it had started."""
        told = {**variables(self.work, move), **self._more(move), "MT_PHASE": "started"}
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", self.command], env={**os.environ, **told}, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        except OSError as error:
            raise Stop("state_failed", f"{move}: cannot run /bin/sh: {error.strerror}") from None
        try:
            return process.wait(self.limit_s)
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise

    def _more(self, move: WorkerMove) -> Mapping[str, str]:
        """What a worker has no need to know."""
        job = self.work.jobs[move.job_id]
        done = {entry["move"] for entry in self.journal.entries if entry.get("event") == "done"}
        return {
            "MT_NODES": fold(job.after(frozenset(done) - {move.index})),
            "MT_ORDERS": json.dumps({group: list(order) for group, order in job.orders.items()}),
        }


def called_before(journal: Journal, move: WorkerMove) -> bool:
    """Whether an earlier call for this move was cut off, so that nobody heard how it ended."""
    events = [entry.get("event") for entry in journal.entries if entry.get("move") == move.index]
    since = max((at for at, event in enumerate(events) if event in ("unmoved", "undone")), default=-1)
    return events[since + 1 :].count("moving") > 1


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
