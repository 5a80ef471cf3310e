"""Carries a plan out through Slurm, or goes on with it where a crash broke it off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..client import SlurmClient
from ..errors import MovesRefused, MovesStopped, SlurmFailed, SlurmUnavailable
from ..jobs import SlurmJob
from .between import Between, nothing
from .context import Context, Limits
from .hands import Hands
from .journal import Journal
from .live import LiveMove
from .order import Step
from .preflight import Decision, Facts, Wanted, decide
from .refusals import Refusal, Stop
from .requeue import RequeuedJob
from .truth import look, look_at_steps, reservations
from .work import Work


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has become of a plan.

    Attributes:
        moved: indices of the moves that are done, by this run or an earlier one.
        skipped: indices of those whose job ended.
    """

    moved: tuple[int, ...]
    skipped: tuple[int, ...]


def facts_of(client: SlurmClient, worker: tuple[str | None, str | None], *, state: bool) -> Facts:
    """Ask Slurm for all that decides how a plan is carried out.

    Raises:
        SlurmFailed, InvalidAnswer.
    """
    return Facts(
        truth=look(client),
        steps=look_at_steps(client),
        config=client.config(),
        reservations=reservations(client),
        worker=worker,
        state=state,
    )


def refuse(refusals: list[Refusal]) -> None:
    """Raise what is against a plan, if anything is.

    Raises:
        MovesRefused.
    """
    if refusals:
        raise MovesRefused("the plan is not carried out:\n" + "\n".join(f"  {one}" for one in refusals))


@dataclass
class Executor:
    """Carries out one plan.

    Attributes:
        profile: ``live``, ``requeue``, or ``auto``: live where Slurm can, else requeue.
        worker: how a worker is started where its job does not say: by the option, by the site file.
        recount: ``scontrol reconfigure`` after jobs were shrunk.
        between: sees to the state of the workers, see :mod:`.between`.
        say: where progress is told.
    """

    client: SlurmClient
    work: Work
    journal: Journal
    profile: Wanted = "auto"
    worker: tuple[str | None, str | None] = (None, None)
    between: Between = nothing
    recount: bool = True
    limits: Limits = field(default_factory=Limits)
    say: Callable[[str], None] = lambda _line: None

    def run(self) -> Outcome:
        """Do what is left to do, and clean up.

        Raises:
            MovesRefused: nothing was changed.
            MovesStopped: a move came to a stop; what could be taken back was.
            SlurmFailed: Slurm refused something else.
        """
        context = self._context()
        steps = self._begin(context)
        context.holds = self._holds(context, steps)
        at = None
        try:
            for at in steps:
                if not self._over(context, at):
                    self._step(context, at)
        except Stop as stop:
            raise self._stopped(context, at, stop) from None
        context.once(lambda: self._sweep(context))
        context.once(lambda: self._recount(context))
        if not self.journal.has("finished"):
            self.journal.write("finished")
        return Outcome(tuple(sorted(context.done())), tuple(sorted(self._skipped(context))))

    def _context(self) -> Context:
        hands = Hands(self.client, self.work.tag, self.limits.hold_s)
        return Context(
            self.client, hands, self.work, self.journal, self.between, self.worker, self.limits, self.say
        )

    def _begin(self, context: Context) -> tuple[Step, ...]:
        """The steps: those that were decided on before, or, the first time, what is decided now."""
        begun = self.journal.last("begun")
        if begun is not None:
            if not self.journal.has("finished"):
                self.say("going on with a plan that was begun before")
            return tuple(Step(kind, key) for kind, key in begun["steps"])
        decided: list[Decision] = []

        def ask() -> None:
            facts = facts_of(self.client, self.worker, state=self.between is not nothing)
            decided[:] = [decide(self.work, facts, self.profile)]

        context.once(ask)
        (decision,) = decided
        refuse(decision.refusals)
        told: list[list[Any]] = [[step.kind, step.key] for step in decision.steps]
        self.journal.write("begun", profile=self.profile, steps=told)
        for index in sorted(decision.done):
            self.journal.write("done", move=index, job=self.work.move(index).job_id)
        return decision.steps

    def _holds(self, context: Context, steps: tuple[Step, ...]) -> dict[int, tuple[frozenset[str], str]]:
        """Reservations for what is left: the destination of a live move; all nodes of a requeued job."""
        truth_jobs: dict[int, SlurmJob] = {}

        def ask() -> None:
            truth_jobs.update(context.look().jobs)

        context.once(ask)
        holds = {}
        for step in steps:
            if self._over(context, step) or step.kind == "hold":
                continue
            job = self.work.move(step.key).job_id if step.kind == "live" else step.key
            owner = truth_jobs[job].user if job in truth_jobs else ""
            if step.kind == "live":
                holds[step.key] = (frozenset({self.work.move(step.key).target}), owner)
            else:
                work = self.work.jobs[job]
                holds[work.first] = (work.after(work.all), owner)
        return holds

    def _over(self, context: Context, step: Step) -> bool:
        """Whether nothing is to be done for this step (any more)."""
        gone = context.done() | self._skipped(context)
        if step.kind == "live":
            return step.key in gone
        held = step.kind == "hold" and self._is_held(step.key)
        return held or self.work.jobs[step.key].all <= gone

    def _is_held(self, job: int) -> bool:
        return self.journal.has("held", job=job) and not self.journal.has("set_free", job=job)

    def _skipped(self, context: Context) -> frozenset[int]:
        entries = context.journal.entries
        return frozenset(entry["move"] for entry in entries if entry.get("event") == "skipped")

    def _step(self, context: Context, step: Step) -> None:
        """Carry one step through; the end of its job is no reason to stop.

        Raises:
            Stop.
        """
        try:
            context.once(context.ensure_held)
            if step.kind == "live":
                move = self.work.move(step.key)
                self.say(f"{move}: moving it live")
                context.drive(LiveMove(context, move).advance)
            else:
                job = RequeuedJob(context, self.work.jobs[step.key])
                self.say(f"job {step.key}: {'requeuing it' if step.kind == 'hold' else 'starting it anew'}")
                context.drive(job.hold if step.kind == "hold" else job.release)
        except SlurmFailed as error:
            raise Stop("slurm_refused", str(error)) from None
        except Stop as stop:
            if stop.code != "job_ended":
                raise
            self._skip(context, step, stop)

    def _skip(self, context: Context, step: Step, stop: Stop) -> None:
        """The job is over: nothing of it is left to move, and its nodes are free."""
        number = self.work.move(step.key).job_id if step.kind == "live" else step.key
        job = self.work.jobs[number]
        self.say(f"{stop}: its moves are skipped")
        left = sorted(job.all - context.done())

        def give_back() -> None:
            truth = context.look()
            for donor in (donor for move in left for donor in truth.donors(self.work.tag, move)):
                context.hands.cancel(donor.job_id)
            context.let_go(left)

        context.once(give_back)
        for index in left:
            self.journal.write("skipped", move=index, job=number, code=stop.code)

    def _stopped(self, context: Context, step: Step | None, stop: Stop) -> MovesStopped:
        """Take back what can be, and say what is left."""
        self.journal.write("stopped", code=stop.code, what=stop.what)
        lines = [str(stop)]
        try:
            if stop.code != "slurm_unavailable":
                lines += [line for line in self._take_back(context, step) if line]
        except SlurmFailed as error:
            lines.append(f"could not clean up; run the same command again: {error}")
        done, all_of = len(context.done()), len(self.work.moves)
        lines.append(f"{done} of {all_of} moves are done; the same command again goes on from here")
        return MovesStopped("\n  ".join(lines))

    def _take_back(self, context: Context, step: Step | None) -> list[str]:
        lines = []
        if step is not None and step.kind == "live":
            lines.append(LiveMove(context, self.work.move(step.key)).undo())
        for job in self.work.jobs.values():
            if not job.all <= context.done():
                lines.append(RequeuedJob(context, job).set_free())
        self._sweep(context)
        self._recount(context)
        return lines

    def _recount(self, context: Context) -> None:
        """Have Slurm count its nodes anew after a job was shrunk (see :meth:`.hands.Hands.reconfigure`)."""
        events = [entry.get("event") for entry in self.journal.entries]
        last = len(events) - events[::-1].index("recounted") if "recounted" in events else 0
        if self.recount and "shrinking" in events[last:]:
            context.hands.reconfigure()
            self.journal.write("recounted")

    def _sweep(self, context: Context) -> None:
        """Nothing of ours is left: no donor, no reservation."""
        for donor in context.look().helpers(self.work.tag):
            context.hands.cancel(donor.job_id)
        context.holds.clear()
        for name in context.left_behind():
            try:
                context.hands.unreserve(name)
            except SlurmUnavailable:
                raise
            except SlurmFailed as error:
                self.say(f"{name} is left to expire by itself: {error}")
