"""The discrete events of a whole cluster: arrivals, the queue, completions, plans and their moves."""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from .execution import Execution
from .fabrics import Fabric
from .migration import Movement, carried_job
from .mix import GPUS_PER_BLOCK, JobType
from .planning import Planner, changes_of
from .program import ideal_iteration_us
from .running import Running, fresh_orders
from .scheduling import Scheduler
from .setup import JobRow, PlanRow, Setup
from .traces import TraceJob

Progress = Callable[[int, int], None]


class Cluster:
    """One run; :meth:`run` tells the story.

    Args:
        planner: None for systems that never move workers.
    """

    def __init__(
        self,
        setup: Setup,
        trace: tuple[TraceJob, ...],
        mix: dict[str, JobType],
        fabric: Fabric,
        execution: Execution,
        scheduler: Scheduler,
        planner: Planner | None,
    ) -> None:
        self.setup = setup
        self.trace = trace
        self.mix = mix
        self.fabric = fabric
        self.execution = execution
        self.scheduler = scheduler
        self.planner = planner
        per_rack = fabric.blocks_per_rack
        self.free = [list(range(rack * per_rack, (rack + 1) * per_rack)) for rack in range(fabric.racks)]
        self.queue: deque[Running] = deque()
        self.jobs: dict[int, Running] = {}
        self.carriers: dict[int, Running] = {}
        self.halted: set[int] = set()
        self.restarts: list[tuple[int, int]] = []
        self.movement: Movement | None = None
        self.rows: list[JobRow] = []
        self.plans: list[PlanRow] = []
        self.migrations = 0
        self._started: dict[int, int] = {}
        self._moved: dict[int, int] = {}
        self._arrived = 0
        self._departing: list[Running] = []

    def run(self, progress: Progress | None = None) -> None:
        """From the first arrival to the last completion."""
        total = len(self.trace)
        while len(self.rows) < total:
            now = self._next_time()
            changed = self._restart(now)
            if self.execution.next_time() <= now:
                self.execution.step(now)
            changed |= self._take_finished(now)
            changed |= self._take_stopped(now)
            changed |= self._arrive(now)
            if changed:
                self._react(now)
                if progress is not None:
                    progress(len(self.rows), total)

    def _next_time(self) -> int:
        times = [self.execution.next_time()]
        if self.restarts:
            times.append(self.restarts[0][0])
        if self._arrived < len(self.trace):
            times.append(self.trace[self._arrived].arrival_us)
        now = min(times)
        if math.isinf(now):
            raise RuntimeError(f"nothing happens any more, with {len(self.queue)} jobs waiting")
        return int(now)

    def _arrive(self, now: int) -> bool:
        before = self._arrived
        while self._arrived < len(self.trace) and self.trace[self._arrived].arrival_us <= now:
            coming = self.trace[self._arrived]
            kind = coming.own or self.mix[coming.type]
            self.queue.append(Running(self._arrived, kind, coming.gpus, coming.iterations))
            self._arrived += 1
        return self._arrived > before

    def _take_finished(self, now: int) -> bool:
        finished, self.execution.finished = self.execution.finished, []
        for job in finished:
            if job.kind is None:
                self._landed(job, now)
            else:
                self._complete(job, now)
        return bool(finished)

    def _complete(self, job: Running, now: int) -> None:
        del self.jobs[job.number]
        if self.movement is None:
            for block in job.blocks:
                insort(self.free[block // self.fabric.blocks_per_rack], block)
        else:
            self.movement.drop(job)
        assert job.kind is not None
        ideal_us = job.iterations * ideal_iteration_us(job.kind, job.gpus, self.setup.nic_gbps)
        start = self._started.pop(job.number)
        self.rows.append(
            JobRow(
                job.number,
                job.kind.name,
                job.gpus,
                self.trace[job.number].arrival_us,
                start,
                now,
                ideal_us,
                (now - start) / ideal_us,
                self._moved.pop(job.number, 0),
            )
        )

    def _react(self, now: int) -> None:
        """Start what fits, route everything anew, and see whether to defragment."""
        if self.movement is not None and self.movement.over:
            self._end_movement(now)
        started = [] if self.movement is not None else self._admit(now)
        self._rewire(now)
        for job in started:
            self.execution.proceed(job, now)
        self.execution.net.settle(now)
        if self.movement is None and self.planner is not None and self.planner.over_bound(self.jobs.values()):
            self._plan(now)

    def _rewire(self, now: int) -> None:
        active = [job for job in self.jobs.values() if job.number not in self.halted]
        self.execution.rewire([*active, *self.carriers.values()], now)

    def _admit(self, now: int) -> list[Running]:
        """Place jobs of the queue, first come first served."""
        started = []
        waiting: deque[Running] = deque()
        room = sum(map(len, self.free))
        while self.queue:
            job = self.queue.popleft()
            wanted = job.gpus // GPUS_PER_BLOCK
            blocks = self.scheduler(self.free, wanted) if wanted <= room else None
            if blocks is None:
                waiting.append(job)
                if self.setup.queue == "fifo":
                    break
                continue
            room -= wanted
            for block in blocks:
                self.free[block // self.fabric.blocks_per_rack].remove(block)
            assert job.kind is not None
            job.place(blocks, fresh_orders(job.kind, wanted), self.fabric, self.setup.nic_gbps)
            self.jobs[job.number] = job
            self._started[job.number] = now
            started.append(job)
        waiting.extend(self.queue)
        self.queue = waiting
        return started

    # Plans and moves.

    def _plan(self, now: int) -> None:
        assert self.planner is not None
        jobs = list(self.jobs.values())
        snapshot, plan, solve_ms = self.planner.plan(jobs, now)
        trigger = self.setup.trigger
        changes = changes_of(plan, jobs) if trigger is None or trigger(snapshot, plan) else []
        self.plans.append(PlanRow(now, len(plan.moves), plan.status, bool(changes), solve_ms))
        if not changes:
            return
        self.movement = Movement(changes, now, len(self.plans) - 1, self.planner.state_bytes)
        for change in changes:
            self.execution.stop(change.job, now)
        if self._take_stopped(now):
            self._rewire(now)
            self.execution.net.settle(now)

    def _take_stopped(self, now: int) -> bool:
        """Jobs at their barrier: they no longer use the fabric; whoever can moves."""
        stopped, self.execution.stopped = self.execution.stopped, []
        for job in stopped:
            job.stops = False
            self.halted.add(job.number)
            if self.movement is not None:
                self.movement.at_barrier(job)
        if self.movement is None:
            return bool(stopped)
        moving = self.movement.ready()
        for change in moving:
            if change.moves:
                carrier = self.movement.transfer(change, self.fabric, self.setup.nic_gbps)
                self.carriers[carrier.number] = carrier
                self._departing.append(carrier)
            else:
                self._pause(change.job, now)
        if moving:
            self._depart(now)
        return bool(stopped or moving)

    def _depart(self, now: int) -> None:
        self._rewire(now)
        departing, self._departing = self._departing, []
        for carrier in departing:
            self.execution.proceed(carrier, now)
        self.execution.net.settle(now)

    def _landed(self, carrier: Running, now: int) -> None:
        del self.carriers[carrier.number]
        self._pause(self.jobs[carried_job(carrier)], now)

    def _pause(self, job: Running, now: int) -> None:
        pause_us = round(self.setup.migration.pause_s * 1e6)
        heapq.heappush(self.restarts, (now + pause_us, job.number))

    def _restart(self, now: int) -> bool:
        """Jobs whose pause is over go on where they moved to."""
        restarted = []
        while self.restarts and self.restarts[0][0] <= now:
            job = self.jobs[heapq.heappop(self.restarts)[1]]
            assert self.movement is not None
            change = self.movement.change(job)
            assert change is not None
            self._moved[job.number] = self._moved.get(job.number, 0) + len(change.moves)
            self.migrations += len(change.moves)
            job.place(change.blocks, change.orders, self.fabric, self.setup.nic_gbps)
            self.movement.drop(job)
            self.halted.discard(job.number)
            restarted.append(job)
        if restarted:
            self._rewire(now)
            for job in restarted:
                self.execution.proceed(job, now)
            self.execution.net.settle(now)
        return bool(restarted)

    def _end_movement(self, now: int) -> None:
        """All jobs run again: what nobody holds is free."""
        assert self.movement is not None
        index = self.movement.plan_index
        self.plans[index] = replace(self.plans[index], duration_us=now - self.movement.begun_us)
        self.movement = None
        holder: dict[int, int] = {}
        for job in self.jobs.values():
            for block in job.blocks:
                if block in holder:
                    raise RuntimeError(f"jobs {holder[block]} and {job.number} both hold server {block}")
                holder[block] = job.number
        per_rack = self.fabric.blocks_per_rack
        self.free = [
            [block for block in range(rack * per_rack, (rack + 1) * per_rack) if block not in holder]
            for rack in range(self.fabric.racks)
        ]
