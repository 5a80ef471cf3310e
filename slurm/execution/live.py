"""One worker moves live: its job is expanded onto the new node, the new worker starts, the old node goes.

Every call of :meth:`LiveMove.advance` looks at the truth first and does one thing that leads on from there,
so it does not matter who did the things before, or whether their answers were heard.
"""

from __future__ import annotations

from ..errors import SlurmFailed, SlurmUnavailable
from ..jobs import SlurmJob
from ..steps import display_id
from .between import variables
from .context import Context, Progress, Waiting
from .launch import Worker, worker_command
from .ranks import comment_after, told_by_order
from .refusals import Stop
from .truth import Truth, look_at_steps
from .work import WorkerMove

STEADY_S = 1.0
"""Seconds that the new worker's step must have been there before its move goes on."""
ORPHAN_S = 15.0
"""Seconds in which a step shows up that was asked for right before a crash."""


class LiveMove:
    """Carries one move through."""

    def __init__(self, context: Context, move: WorkerMove) -> None:
        self.context = context
        self.move = move
        self.job = context.work.jobs[move.job_id]
        self.waiting = Waiting(context.clock)
        self.worker: Worker | None = None
        self.orphan = self._has("starting")
        self.shown_since: float | None = None

    def _has(self, event: str) -> bool:
        """Whether it came to that, since it was last taken back."""
        return self._last_of(event, "undone") == event

    def _last_of(self, *events: str) -> str:
        """Which of these events of the move was the last; "" where there was none."""
        for entry in reversed(self.context.journal.entries):
            if entry.get("move") == self.move.index and entry.get("event") in events:
                return str(entry["event"])
        return ""

    def _write(self, event: str) -> None:
        self.context.journal.write(event, move=self.move.index, job=self.move.job_id)

    def advance(self) -> Progress:
        """One look, one action.

        Raises:
            Stop: the move cannot go on.
            SlurmUnavailable: nobody answers.
        """
        truth = self.context.look()
        now = truth.jobs.get(self.move.job_id)
        if now is None:
            raise Stop("job_ended", str(self.move))
        if "COMPLETING" in now.states:
            return self.waiting.for_("job_ended", self.context.limits.settle_s, f"{self.move}: is completing")
        if now.pending:
            raise Stop("job_changed", f"{self.move}: the job was requeued")
        if not now.running:
            return self._wait("job_changed", f"the job is {'+'.join(sorted(now.states)).lower()}")
        here = frozenset(now.nodes)
        expected = self.job.after(self.context.done() - {self.move.index})
        if (here ^ expected) - {self.move.source, self.move.target}:
            raise Stop("job_changed", f"{self.move}: the job is on {','.join(now.nodes)}")
        has_old, has_new = self.move.source in here, self.move.target in here
        if has_old and not has_new:
            return self._bring(truth)
        if has_old:
            return self._hand_over(now)
        if not has_new:
            raise Stop("job_changed", f"{self.move}: the job is on {','.join(now.nodes)}")
        return self._finish(now)

    def _wait(self, code: str, what: str) -> Progress:
        return self.waiting.for_(code, self.context.limits.settle_s, f"{self.move}: {what}")

    def _bring(self, truth: Truth) -> Progress:
        """The job has the old node only: get the new one, by a donor."""
        context, move = self.context, self.move
        unfit = truth.unfit(move.target)
        if unfit and truth.unsettled(move.target):
            return self._wait("node_down", f"{move.target} {unfit}")
        if unfit:
            raise Stop("node_down", f"{move}: {move.target} {unfit}")
        donors = truth.donors(context.work.tag, move.index)
        ready = [job for job in donors if job.running and job.nodes == (move.target,)]
        for job in donors:
            if job not in ready[:1] and "COMPLETING" not in job.states:
                context.hands.cancel(job.job_id)
        if donors and not ready:
            return self._wait("expand_refused", "its donor does not run")
        try:
            if ready:
                context.hands.give(ready[0], truth.jobs[move.job_id])
                return "again"
            others = truth.others_on(move.target, move.job_id)
            if others:
                return self._busy(others)
            context.ensure_held()
            context.hands.donate(move.index, truth.jobs[move.job_id], move.target)
        except SlurmUnavailable:
            raise
        except SlurmFailed as error:
            return self._wait("expand_refused", str(error))
        return "again"

    def _busy(self, others: list[SlurmJob]) -> Progress:
        """Somebody is on the destination: wait where he is about to go."""
        names = ", ".join(str(job.job_id) for job in others)
        if all("COMPLETING" in job.states for job in others):
            return self._wait("destination_busy", f"job {names} does not end on {self.move.target}")
        raise Stop("destination_busy", f"{self.move}: job {names} is on {self.move.target}")

    def _hand_over(self, now: SlurmJob) -> Progress:
        """The job has both nodes: start the new worker, move the state, give the old node back."""
        context = self.context
        if not self._has("expanded"):
            context.hands.absorb(now)
            context.between(self.move, "expanded")
            self._write("expanded")
            return "again"
        if not self._has("started"):
            return self._start(now)
        if not self._has("state"):
            return self._move_state()
        if self.move.source == now.batch_host:
            raise Stop("shrink_refused", f"{self.move}: {self.move.source} has become the batch host")
        self._write("shrinking")
        try:
            context.hands.shrink(now, [node for node in now.nodes if node != self.move.source])
        except SlurmUnavailable:
            raise
        except SlurmFailed as error:
            return self._wait("shrink_refused", str(error))
        return "again"

    def _move_state(self) -> Progress:
        """Have the state moved. From the call on it may be at either end, until its answer is heard."""
        self.context.ensure_held()
        self._write("moving")
        try:
            self.context.between(self.move, "started")
        except Stop as stop:
            if stop.code == "state_failed":
                self._write("unmoved")
            raise
        self._write("state")
        return "again"

    def _start(self, now: SlurmJob) -> Progress:
        """Start the worker's step, once: one asked for before a crash may still be on its way."""
        context = self.context
        command = worker_command(now, *context.worker)
        steps = look_at_steps(context.client)
        shown = steps.get(display_id(now), ()) or steps.get(str(now.job_id), ())
        if self.worker is not None and self.worker.ended():
            code, said = self.worker.ended(), self.worker.said()
            raise Stop("worker_failed", f"{self.move}: ended with {code}: {said}")
        if command is None or (self.worker is not None and self.worker.ended() == 0):
            self._write("started")
            return "again"
        if any(self.move.target in nodes for nodes in shown):
            return self._once_steady()
        self.shown_since = None
        if self.worker is not None:
            return self._wait("worker_failed", "the step of the new worker does not show up")
        if self.orphan and not self._orphan_is_overdue():
            return "wait"
        self._write("starting")
        told = variables(context.work, self.move)
        try:
            self.worker = Worker(context.client, now, command, context.work, told)
        except OSError as error:
            raise Stop("worker_failed", f"{self.move}: cannot run srun: {error.strerror}") from None
        return "wait"

    def _once_steady(self) -> Progress:
        """A worker that fails at once has a step too, for a moment."""
        now = self.context.clock()
        self.shown_since = now if self.shown_since is None else self.shown_since
        if now - self.shown_since < STEADY_S:
            return "wait"
        self._write("started")
        return "again"

    def _orphan_is_overdue(self) -> bool:
        try:
            self.waiting.for_("orphan", min(ORPHAN_S, self.context.limits.settle_s), "")
        except Stop:
            return True
        return False

    def _finish(self, now: SlurmJob) -> Progress:
        """The job has the new node only."""
        context = self.context
        done = context.done() | {self.move.index}
        if not told_by_order(self.job, now.comment, now.nodes, done):
            text = comment_after(self.job, now.comment, now.nodes, done)
            if text is None:
                context.say(
                    f"job {self.move.job_id}: its comment cannot hold its groups, it would be too long"
                )
            elif text != now.comment:
                self._tell_groups(now, text)
        context.between(self.move, "shrunk")
        context.let_go([self.move.index])
        self._write("done")
        return "done"

    def _tell_groups(self, now: SlurmJob, text: str) -> None:
        try:
            self.context.hands.comment(now, text)
        except SlurmUnavailable:
            raise
        except SlurmFailed as error:
            self.context.say(f"the next snapshot will mistake the groups of job {self.move.job_id}: {error}")

    def undo(self) -> str:
        """Give back what a move that came to a stop holds; what is left, in words.

        Raises:
            SlurmFailed: it could not.
        """
        context, move = self.context, self.move
        truth = context.look()
        for donor in truth.donors(context.work.tag, move.index):
            context.hands.cancel(donor.job_id)
        now = truth.jobs.get(move.job_id)
        both = now is not None and {move.source, move.target} <= set(now.nodes)
        if now is None or not now.running or not both or "COMPLETING" in now.states:
            return ""
        last = self._last_of("moving", "state", "unmoved", "undone")
        if last in ("moving", "state"):
            why = "the state has moved" if last == "state" else "nobody knows yet where the state is"
            return f"job {move.job_id} keeps both {move.source} and {move.target}: {why}"
        self._write("shrinking")
        context.hands.shrink(now, [node for node in now.nodes if node != move.target])
        self._write("undone")
        return ""
