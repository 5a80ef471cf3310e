"""A job moves by starting anew: it is requeued and held, told its nodes, and released."""

from __future__ import annotations

from ..errors import SlurmFailed, SlurmUnavailable
from ..jobs import SlurmJob
from .context import Context, Progress, Waiting
from .names import reservation_name
from .refusals import Stop
from .truth import Truth
from .work import JobWork

HELD = ("JobHeldUser", "JobHeldAdmin", "job requeued in held state")


def is_held(job: SlurmJob) -> bool:
    """Whether a pending job waits for its release."""
    return job.priority == 0 or job.reason in HELD


class RequeuedJob:
    """Carries one job through both of its steps, ``hold`` and ``release``."""

    def __init__(self, context: Context, job: JobWork) -> None:
        self.context = context
        self.job = job
        self.what = f"job {job.job_id}"
        self.reservation = reservation_name(context.work.tag, job.first)
        self.waiting = Waiting(context.clock)

    def _has(self, event: str) -> bool:
        return self.context.journal.has(event, job=self.job.job_id)

    def _write(self, event: str, **what: object) -> None:
        self.context.journal.write(event, job=self.job.job_id, **what)

    def _now(self, truth: Truth) -> SlurmJob:
        now = truth.jobs.get(self.job.job_id)
        if now is None:
            since = f", since it was requeued (sacct -D -j {self.job.job_id})" if self._has("holding") else ""
            raise Stop("job_ended", self.what + since)
        return now

    def hold(self) -> Progress:
        """Step ``hold``: all its processes end, it is pending and stays so.

        Raises:
            Stop, SlurmUnavailable.
        """
        context = self.context
        now = self._now(context.look())
        if now.pending:
            if not self._has("holding"):
                raise Stop("job_changed", f"{self.what} is pending")
            if not is_held(now):
                context.hands.hold(now)
                return "again"
            context.hands.rest(now.job_id)  # it begins here
            for move in self.job.moves:
                context.between(move, "held")
            self._write("held")
            return "done"
        if not now.running:
            return self.waiting.for_("not_held", context.limits.settle_s, self.what)
        expected = self.job.after(context.done())
        if frozenset(now.nodes) != expected:
            raise Stop("job_changed", f"{self.what} is on {','.join(now.nodes)}")
        if not self._has("holding"):
            self._write("holding", required=list(now.required), was=list(now.nodes))
        context.ensure_held()
        try:
            context.hands.requeue_and_hold(now)
        except SlurmUnavailable:
            raise
        except SlurmFailed as error:
            return self.waiting.for_("not_held", context.limits.settle_s, f"{self.what}: {error}")
        return "again"

    def release(self) -> Progress:
        """Step ``release``: it runs on its new nodes, and nowhere else.

        Raises:
            Stop, SlurmUnavailable.
        """
        context = self.context
        truth = context.look()
        now = self._now(truth)
        final = self.job.after(self.job.all)
        if now.running:
            if frozenset(now.nodes) != final:
                raise Stop("job_changed", f"{self.what} started on {','.join(now.nodes)}")
            return self._finish(now)
        if now.starting and frozenset(now.nodes) == final:
            self._renew()
            return self.waiting.for_("not_started", context.limits.start_s, f"{self.what} is being started")
        if not now.pending:
            return self.waiting.for_("not_held", context.limits.settle_s, self.what)
        down = [node for node in sorted(final) if truth.unfit(node)]
        if down:
            what = f"{self.what}: {down[0]} {truth.unfit(down[0])}"
            if not all(truth.unsettled(node) for node in down):
                raise Stop("node_down", what)
            return self.waiting.for_("node_down", context.limits.settle_s, what)
        if context.hands.rest(now.job_id):
            return "wait"
        told = frozenset(now.required) == final and now.reservation == self.reservation
        if told and not is_held(now):
            if now.reason == "BeginTime":
                context.hands.start_now(now)
            self._renew()
            return self.waiting.for_(
                "not_started", context.limits.start_s, f"{self.what} waits: {now.reason or 'no reason'}"
            )
        try:
            if not told:
                context.ensure_held()
                context.hands.place(now, final, self.reservation)
            context.hands.release(now)
            context.hands.start_now(now)
        except SlurmUnavailable:
            raise
        except SlurmFailed as error:
            return self.waiting.for_("not_started", context.limits.settle_s, f"{self.what}: {error}")
        return "again"

    def _renew(self) -> None:
        """The reservation must outlast the wait: it was renewed to ``hold_s`` when the wait began."""
        if self.context.limits.hold_s < 2 * self.context.limits.start_s:
            self.context.ensure_held()

    def _finish(self, now: SlurmJob) -> Progress:
        """It runs where it should: let go of the reservation, which a job inside keeps busy."""
        context = self.context
        if now.reservation == self.reservation:
            context.hands.leave_reservation(now)
        context.let_go([self.job.first])
        done = context.done()
        for move in self.job.moves:
            if move.index not in done:
                context.between(move, "running")
                self._write("done", move=move.index)
        return "done"

    def set_free(self) -> str:
        """Let a job that was held, and does not come to its new nodes, start anywhere; words on it.

        Raises:
            SlurmFailed: it could not.
        """
        context = self.context
        now = context.look().jobs.get(self.job.job_id)
        if now is None or not self._has("holding"):
            return ""
        if (now.running or now.starting) and now.reservation == self.reservation:
            context.hands.leave_reservation(now)
        if not now.pending:
            return ""
        context.hands.sleep(context.hands.rest(now.job_id))
        before = context.journal.last("holding", job=self.job.job_id) or {}
        context.hands.place(now, before.get("required", ()), "")
        context.hands.release(now)
        context.hands.start_now(now)
        self._write("set_free")
        return f"{self.what} waits for any nodes"
