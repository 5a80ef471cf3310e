"""Cluster churn: jobs come and go, and now and then a rack is over its bound.

Arrivals are Poisson, durations lognormal, sizes mostly powers of two with 35 % odd ones; the queue is
first come first served with backfill, up to a load cap. Whoever consumes the states applies each plan
before asking for the next, so that states are those of a cluster that is planned all along
("self-reinforcing"); :func:`cold` applies none. A worker is an 8-GPU server with one slot. The sizes
are an assumption after the shape of public traces, not a trace. Same arguments, same states.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from monkeytree.realise import RankMove
from monkeytree.snapshot import Fabric, Job, Node, Planning, Rack, ReplicaGroup, Snapshot

from .schedulers import SCHEDULERS

GPUS = 8
"""Of a server, which is one worker."""
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
WEIGHTS = (0.34, 0.16, 0.16, 0.14, 0.09, 0.05, 0.03, 0.015, 0.01, 0.005)
ODD = 0.35
SIGMA = 1.0
"""Of the logarithm of durations, whose mean is one."""
QUEUE = 64
"""Jobs that wait at most; the next ones go elsewhere."""
TAKEN_AT = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster: racks x servers, uplinks of each rack, load cap, and the jobs it gets.

    Attributes:
        rings: ring counts that jobs draw from, evenly.
        largest: workers of the largest job; None is a quarter of the cluster (a sixteenth from
            2,000 servers).
    """

    racks: int
    servers: int
    uplinks: int = 2
    load: float = 0.95
    rings: tuple[int, ...] = (1,)
    largest: int | None = None

    @property
    def workers(self) -> int:
        """Servers of the cluster."""
        return self.racks * self.servers

    @property
    def gpus(self) -> int:
        """GPUs of the cluster."""
        return self.workers * GPUS

    @property
    def most(self) -> int:
        """Workers of the largest job."""
        return self.largest or max(1, self.workers // (16 if self.workers >= 2000 else 4))


@dataclass(slots=True)
class Running:
    """A job and the slots its ranks occupy, as (rack, server)."""

    places: list[tuple[int, int]]
    rings: int
    document: Job | None = None


class Cluster:
    """Who is where, and the degree f_t of each rack, kept up to date."""

    def __init__(self, shape: Shape, scheduler: str) -> None:
        self.shape = shape
        self.free = [shape.servers] * shape.racks
        self.degree = [0] * shape.racks
        self.jobs: dict[str, Running] = {}
        self._place = SCHEDULERS[scheduler]
        self._open = [list(range(shape.servers)) for _ in range(shape.racks)]
        self._racks = tuple(
            Rack(
                f"r{rack}",
                tuple(range(shape.uplinks)),
                tuple(Node(f"r{rack}n{server}", 1) for server in range(shape.servers)),
            )
            for rack in range(shape.racks)
        )

    @property
    def used(self) -> int:
        """Servers in use."""
        return self.shape.workers - sum(self.free)

    @property
    def over(self) -> int:
        """Racks over their bound."""
        return sum(degree > self.shape.uplinks for degree in self.degree)

    def start(self, name: str, size: int, rings: int) -> None:
        """Place a job that fits."""
        places = [
            (rack, heapq.heappop(self._open[rack]))
            for rack, count in self._place(self.free, size)
            for _ in range(count)
        ]
        for rack, _ in places:
            self.free[rack] -= 1
        self.jobs[name] = Running(places, rings)
        self._count(self.jobs[name], 1)

    def end(self, name: str) -> None:
        """A job leaves."""
        job = self.jobs.pop(name)
        self._count(job, -1)
        self._release(job.places)

    def apply(self, moves: Sequence[RankMove]) -> None:
        """Carry out a plan of the present snapshot."""
        names = list(self.jobs)
        moving: dict[str, list[tuple[int, tuple[int, int]]]] = {}
        for move in moves:
            target_rack, target_server = (int(part) for part in move.target[1:].split("n"))
            moving.setdefault(names[move.group], []).append((move.rank, (target_rack, target_server)))
        for name in moving:
            self._count(self.jobs[name], -1)
            self._release([self.jobs[name].places[rank] for rank, _ in moving[name]])
        for name, targets in moving.items():
            job = self.jobs[name]
            for rank, (rack, server) in targets:
                job.places[rank] = (rack, server)
                self._open[rack].remove(server)
                self.free[rack] -= 1
            # Ranks are numbered anew along the racks: the ring order that a plan gives them.
            job.places.sort()
            job.document = None
            self._count(job, 1)
        for slots in self._open:
            heapq.heapify(slots)

    def snapshot(self, sequence: int = 0, planning: Planning | None = None) -> Snapshot:
        """The placement as it is."""
        for name, job in self.jobs.items():
            if job.document is None:
                workers = tuple(f"r{rack}n{server}" for rack, server in sorted(job.places))
                job.places.sort()
                job.document = Job(name, (ReplicaGroup("0", workers, rings=job.rings),))
        jobs = tuple(job.document for job in self.jobs.values() if job.document is not None)
        return Snapshot(
            "bench", TAKEN_AT, self._racks, jobs, Fabric(), planning=planning or Planning(), sequence=sequence
        )

    def _count(self, job: Running, sign: int) -> None:
        racks = {rack for rack, _ in job.places}
        if len(racks) > 1:
            for rack in racks:
                self.degree[rack] += sign * job.rings

    def _release(self, places: Sequence[tuple[int, int]]) -> None:
        for rack, server in places:
            heapq.heappush(self._open[rack], server)
            self.free[rack] += 1


class Churn:
    """The stream of events on a cluster; :meth:`step` makes one job start or end."""

    def __init__(self, shape: Shape, scheduler: str, seed: int) -> None:
        self.cluster = Cluster(shape, scheduler)
        self.events = 0
        self._shape = shape
        self._random = random.Random(f"{shape}/{scheduler}/{seed}")
        self._names = (f"j{number}" for number in itertools.count())
        self._now = 0.0
        self._ends: list[tuple[float, str]] = []
        self._queue: list[tuple[int, int]] = []
        mean = sum(self._size() for _ in range(4000)) / 4000
        self._rate = 1.1 * shape.load * shape.workers / mean
        self._next_arrival = 0.0
        self._fill()

    def step(self) -> None:
        """The next start or end of a job."""
        self.events += 1
        while not self._start_one():
            if not self._ends or self._next_arrival < self._ends[0][0]:
                self._now = self._next_arrival
                self._next_arrival += self._random.expovariate(self._rate)
                if len(self._queue) < QUEUE:
                    self._queue.append(self._job())
            else:
                self._now, name = heapq.heappop(self._ends)
                self.cluster.end(name)
                return

    def _fill(self) -> None:
        """Start from a full cluster: jobs until the load cap is met, or nearly."""
        misses = 0
        while misses < 20:
            self._queue = [self._job()]
            misses = 0 if self._start_one() else misses + 1
        self._queue = []

    def _start_one(self) -> bool:
        """Start the first waiting job that fits under the load cap."""
        room = int(self._shape.load * self._shape.workers) - self.cluster.used
        for at, (size, rings) in enumerate(self._queue):
            if size <= room:
                del self._queue[at]
                name = next(self._names)
                self.cluster.start(name, size, rings)
                duration = self._random.lognormvariate(-SIGMA * SIGMA / 2, SIGMA)
                heapq.heappush(self._ends, (self._now + duration, name))
                return True
        return False

    def _job(self) -> tuple[int, int]:
        return self._size(), self._random.choice(self._shape.rings)

    def _size(self) -> int:
        size = self._random.choices(SIZES, WEIGHTS)[0]
        if self._random.random() < ODD:
            size = self._random.randint(size // 2 + 1, 2 * size - 1) if size > 1 else 3
        return min(size, self._shape.most)


def states(
    shape: Shape, scheduler: str, seed: int, most_events: int = 10**9
) -> Iterator[tuple[Cluster, Snapshot]]:
    """The states in which some rack is over; apply the plan to the cluster before the next."""
    churn = Churn(shape, scheduler, seed)
    while churn.events < most_events:
        churn.step()
        if churn.cluster.over:
            yield churn.cluster, churn.cluster.snapshot(churn.events)


def cold(shape: Shape, scheduler: str, seed: int, turnover: float = 3.0) -> Snapshot:
    """A state after every job was replaced ``turnover`` times and nothing was ever planned."""
    churn = Churn(shape, scheduler, seed)
    jobs = len(churn.cluster.jobs)
    while churn.events < 2 * turnover * jobs:
        churn.step()
    return churn.cluster.snapshot(churn.events)


def one_worker_a_gpu(snapshot: Snapshot) -> Snapshot:
    """The same placement with a worker for each GPU: eight times the workers and slots."""
    racks = tuple(
        Rack(rack.id, rack.spines, tuple(Node(node.id, node.slots * GPUS) for node in rack.nodes), rack.pod)
        for rack in snapshot.racks
    )
    jobs = tuple(
        Job(
            job.id,
            tuple(
                ReplicaGroup(
                    group.id, tuple(node for node in group.workers for _ in range(GPUS)), group.rings
                )
                for group in job.replica_groups
            ),
        )
        for job in snapshot.jobs
    )
    return Snapshot(
        snapshot.cluster,
        snapshot.taken_at,
        racks,
        jobs,
        snapshot.fabric,
        planning=snapshot.planning,
        sequence=snapshot.sequence,
    )
