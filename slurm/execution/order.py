"""The order of steps: no worker moves onto a slot that is not free, and waits no longer than it must.

A pure function. Waves of the plan are kept: a live move waits for those of the waves before. A job that is
requeued frees all its nodes at once, so it breaks circles of workers that wait for each other's nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from .work import JobWork, Work, WorkerMove

JobProfile = Literal["live", "requeue"]
Kind = Literal["live", "hold", "release"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an execution.

    Attributes:
        kind: ``live``: a worker moves; ``hold``: a job is requeued and held; ``release``: it starts again.
        key: index of the move, or Slurm's number of the job.
    """

    kind: Kind
    key: int


class NoFreeSlot(Exception):
    """Workers wait for each other's slots; ``moves`` are theirs."""

    def __init__(self, moves: tuple[WorkerMove, ...]) -> None:
        super().__init__(", ".join(map(str, moves)))
        self.moves = moves


def order_of(
    work: Work, profiles: Mapping[int, JobProfile], convertible: Collection[int] = ()
) -> tuple[Step, ...]:
    """The steps.

    Args:
        profiles: how each job moves.
        convertible: live jobs that may be requeued instead, where workers wait for each other.

    Raises:
        NoFreeSlot: there is no order.
    """
    return _Order(work, profiles, convertible).run()


class _Order:
    """The cluster as it would be after the steps so far."""

    def __init__(self, work: Work, profiles: Mapping[int, JobProfile], convertible: Collection[int]) -> None:
        self.work = work
        self.profiles = dict(profiles)
        self.convertible = set(convertible)
        self.free = Counter(work.free)
        self.done: set[int] = set()
        self.held: set[int] = set()
        self.steps: list[Step] = []

    def run(self) -> tuple[Step, ...]:
        for wave in sorted({move.wave for move in self.work.moves}):
            while not self._wave_is_done(wave):
                if not (self._move_one(wave) or self._requeue_one(wave) or self._make_room(wave)):
                    raise NoFreeSlot(tuple(self._waiting(wave)))
        return tuple(self.steps)

    def _waiting(self, wave: int) -> list[WorkerMove]:
        """Live moves of ``wave`` that are to be done."""
        return [
            move
            for move in self.work.moves
            if move.wave == wave and move.index not in self.done and self.profiles[move.job_id] == "live"
        ]

    def _requeues(self, wave: int) -> list[JobWork]:
        """Jobs to be requeued by the end of ``wave``."""
        return [
            job
            for job in self.work.jobs.values()
            if self.profiles[job.job_id] == "requeue"
            and not job.all <= self.done
            and max(move.wave for move in job.moves) <= wave
        ]

    def _wave_is_done(self, wave: int) -> bool:
        return not self._waiting(wave) and not self._requeues(wave)

    def _move_one(self, wave: int) -> bool:
        for move in self._waiting(wave):
            if self.free[move.target] >= move.slots:
                self.free[move.target] -= move.slots
                self.free[move.source] += move.slots
                self.done.add(move.index)
                self.steps.append(Step("live", move.index))
                return True
        return False

    def _requeue_one(self, wave: int) -> bool:
        """Requeue a job whose new nodes have room, not counting its own workers."""
        for job in self._requeues(wave):
            own = Counter() if job.job_id in self.held else self._slots(job, frozenset(self.done))
            wanted = self._slots(job, job.all)
            if all(self.free[node] + own[node] >= count for node, count in wanted.items()):
                if job.job_id not in self.held:
                    self._hold(job)
                self.free.subtract(wanted)
                self.held.discard(job.job_id)
                self.done |= job.all
                self.steps.append(Step("release", job.job_id))
                return True
        return False

    def _make_room(self, wave: int) -> bool:
        """Hold a job that is in the way, of those that are requeued; else requeue one that is not yet."""
        wanted = {move.target for move in self._waiting(wave)}
        wanted |= {node for job in self._requeues(wave) for node in self._slots(job, job.all)}
        in_the_way = [
            job
            for job in self.work.jobs.values()
            if job.job_id not in self.held
            and not job.all <= self.done
            and wanted & set(self._slots(job, frozenset(self.done)))
        ]
        for job in in_the_way:
            if self.profiles[job.job_id] == "requeue":
                self._hold(job)
                return True
        for job in sorted(in_the_way, key=lambda job: len(job.nodes)):
            if job.job_id in self.convertible:
                self.profiles[job.job_id] = "requeue"
                return True
        return False

    def _hold(self, job: JobWork) -> None:
        self.free.update(self._slots(job, frozenset(self.done)))
        self.held.add(job.job_id)
        self.steps.append(Step("hold", job.job_id))

    @staticmethod
    def _slots(job: JobWork, done: frozenset[int]) -> Counter[str]:
        """Slots that it takes of each node once these moves are done."""
        taken: Counter[str] = Counter()
        for group, nodes in job.groups_after(done).items():
            for node in nodes:
                taken[node] += job.slots[group]
        return taken
