"""Writes a job's launcher files so that its ranks come in the plan's ring orders.

NCCL joins the nodes of a communicator into rings in the order of their first ranks (``connectRings`` in its
``src/graph/connect.cc``), and a framework numbers the processes of a replica group in the order in which the
launcher starts them. So a job that is started, or started again, in ring order has the plan's rings. The
processes of a replica group come together, groups in document order, as Megatron-LM numbers them (tp-dp-pp).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from .errors import MonkeyTreeError
from .plan import Plan
from .snapshot import Job, Snapshot


class ImpossibleLaunch(MonkeyTreeError):
    """A job's order cannot be said in the form asked for; the message names what stands in the way."""

    code = "impossible_launch"


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a job, in the order of the launcher.

    Attributes:
        rank: global rank, 0 upwards in the order of starting.
        worker: rank of the worker in its replica group, as snapshot and plan name it.
        node: where it runs once all moves of the plan are done.
        local_rank: how many processes of this job on that node have lower ranks.
    """

    rank: int
    group: str
    worker: int
    node: str
    local_rank: int


def processes(snapshot: Snapshot, plan: Plan, job: str) -> tuple[Process, ...]:
    """The processes of ``job`` after ``plan``, in ring order: one a slot of each worker.

    Raises:
        ImpossibleLaunch: no such job.
    """
    wanted = next((one for one in snapshot.jobs if one.id == job), None)
    if wanted is None:
        raise ImpossibleLaunch(f"the snapshot has no job {job!r}")
    found: list[Process] = []
    used: Counter[str] = Counter()
    for group, worker, node in _workers(wanted, plan):
        found.append(Process(len(found), group, worker, node, used[node]))
        used[node] += 1
    return tuple(found)


def _workers(job: Job, plan: Plan) -> Iterable[tuple[str, int, str]]:
    """(group, worker, node) of each process in turn."""
    orders = {ring.group: ring.order for ring in plan.rings if ring.job == job.id}
    moved = {(move.group, move.rank): move.target for move in plan.moves if move.job == job.id}
    for group in job.replica_groups:
        for rank in orders.get(group.id, group.ring_order):
            node = moved.get((group.id, rank), group.workers[rank])
            yield from [(group.id, rank, node)] * group.slots_per_worker


def slurm_hostfile(placed: Iterable[Process]) -> str:
    """A host a line, a line a task, for ``SLURM_HOSTFILE`` with ``srun --distribution=arbitrary``.

    Open MPI takes the same file: ``mpirun --map-by seq --hostfile``.
    """
    return "".join(f"{process.node}\n" for process in placed)


def hostfile(placed: Iterable[Process]) -> str:
    """``node slots=N`` lines, as mpirun and DeepSpeed read them.

    Raises:
        ImpossibleLaunch: a node comes back after another one: launchers add such lines together, which loses
            the order (:func:`slurm_hostfile` keeps it).
    """
    return "".join(f"{node} slots={count}\n" for node, count in _runs(placed))


def torchrun_ranks(placed: Iterable[Process]) -> str:
    """``node node_rank nproc_per_node`` lines for ``torchrun --node-rank`` (static rendezvous).

    Raises:
        ImpossibleLaunch: a node comes back after another one: torchrun numbers a node's processes together.
    """
    return "".join(f"{node} {rank} {count}\n" for rank, (node, count) in enumerate(_runs(placed)))


def _runs(placed: Iterable[Process]) -> list[tuple[str, int]]:
    """Nodes in order with their numbers of processes, each node once."""
    runs = [(node, len(list(run))) for node, run in groupby(placed, key=lambda process: process.node)]
    twice = [node for node, times in Counter(node for node, _ in runs).items() if times > 1]
    if twice:
        raise ImpossibleLaunch(
            f"node {twice[0]!r} comes back after another one in the order of the ranks"
            + (f" (and {len(twice) - 1} more)" if len(twice) > 1 else "")
            + ": only a list with one line a process can say that (--format slurm)"
        )
    return runs


#: Forms of launcher files by name.
FORMS: Mapping[str, Callable[[Iterable[Process]], str]] = {
    "slurm": slurm_hostfile,
    "hostfile": hostfile,
    "torchrun": torchrun_ranks,
}
