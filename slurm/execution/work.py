"""What a plan asks of Slurm: moves of workers, by job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monkeytree.plan import Plan
from monkeytree.snapshot import Job, Snapshot

from .names import tag_of


@dataclass(frozen=True, slots=True)
class WorkerMove:
    """One worker changes node.

    Attributes:
        index: number of the move in the plan; names are made of it.
        job_id: Slurm's number of the job.
        slots: what the worker takes of a node.
    """

    index: int
    job_id: int
    group: str
    rank: int
    source: str
    target: str
    slots: int
    wave: int

    def __str__(self) -> str:
        return f"move {self.index} (job {self.job_id}, {self.source} to {self.target})"


@dataclass(frozen=True, slots=True)
class JobWork:
    """All that happens to one job.

    Attributes:
        nodes: node of each worker before the plan, groups one after the other.
        groups: the same by group.
        orders: ring order of each group after the plan, ranks.
    """

    job_id: int
    nodes: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    orders: Mapping[str, tuple[int, ...]]
    slots: Mapping[str, int]
    moves: tuple[WorkerMove, ...]

    def groups_after(self, done: frozenset[int]) -> dict[str, tuple[str, ...]]:
        """Node of each rank, by group, once the moves of these indices are done."""
        after = {group: list(nodes) for group, nodes in self.groups.items()}
        for move in self.moves:
            if move.index in done:
                after[move.group][move.rank] = move.target
        return {group: tuple(nodes) for group, nodes in after.items()}

    def after(self, done: frozenset[int]) -> frozenset[str]:
        """Its nodes once the moves of these indices are done."""
        return frozenset(node for nodes in self.groups_after(done).values() for node in nodes)

    @property
    def all(self) -> frozenset[int]:
        """Indices of its moves."""
        return frozenset(move.index for move in self.moves)

    @property
    def first(self) -> int:
        """Index of its first move."""
        return self.moves[0].index


@dataclass(frozen=True, slots=True)
class Work:
    """A plan, for Slurm.

    Attributes:
        tag: what names begin with, see :mod:`.names`.
        jobs: by Slurm's number, those with moves only.
        free: slots of each node that nobody has before the plan.
        wrong: ids of jobs with moves whose number in Slurm cannot be told.
    """

    plan_id: str
    tag: str
    cluster: str
    jobs: Mapping[int, JobWork]
    free: Mapping[str, int]
    wrong: tuple[str, ...] = ()

    @property
    def moves(self) -> tuple[WorkerMove, ...]:
        """All moves, by index."""
        return tuple(
            sorted((move for job in self.jobs.values() for move in job.moves), key=lambda m: m.index)
        )

    def move(self, index: int) -> WorkerMove:
        """The move of that index."""
        return next(move for move in self.moves if move.index == index)


def work_of(plan: Plan, snapshot: Snapshot) -> Work:
    """The work of ``plan``; it must be a sound plan of ``snapshot``."""
    jobs: dict[int, JobWork] = {}
    wrong = []
    for job in snapshot.jobs:
        if not any(move.job == job.id for move in plan.moves):
            continue
        number = job.labels.get("slurm_job_id", job.id)
        if number.isdecimal():
            jobs[int(number)] = _job_work(job, int(number), plan)
        else:
            wrong.append(job.id)
    free = {node.id: node.usable for rack in snapshot.racks for node in rack.nodes}
    for _job, group in snapshot.groups:
        for node in group.workers:
            free[node] -= group.slots_per_worker
    return Work(plan.id, tag_of(plan.id), plan.cluster, jobs, free, tuple(wrong))


def _job_work(job: Job, number: int, plan: Plan) -> JobWork:
    slots = {group.id: group.slots_per_worker for group in job.replica_groups}
    orders = {group.id: group.ring_order for group in job.replica_groups}
    orders |= {ring.group: ring.order for ring in plan.rings if ring.job == job.id}
    moves = tuple(
        WorkerMove(
            index, number, move.group, move.rank, move.source, move.target, slots[move.group], move.wave
        )
        for index, move in enumerate(plan.moves)
        if move.job == job.id
    )
    groups = {group.id: group.workers for group in job.replica_groups}
    nodes = tuple(node for workers in groups.values() for node in workers)
    return JobWork(number, nodes, groups, orders, slots, moves)
