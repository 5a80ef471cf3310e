"""What to simulate, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from monkeytree.plan import Plan
from monkeytree.snapshot import Snapshot

from .fabrics import FabricName
from .scheduling import SchedulerName
from .traces import TraceJob

Trigger = Callable[[Snapshot, Plan], bool]
"""Whether to carry a plan out."""
Queue = Literal["fifo", "skip"]


class BadSetup(ValueError):
    """A set-up that cannot be simulated; the message names the value and what to do."""


@dataclass(frozen=True, slots=True)
class Migration:
    """What moving costs.

    Attributes:
        pause_s: from the last byte of state until the job runs again.
        state_gb: 10^9 bytes moved per GPU; None is the placeholder of the authors' code, the bytes that
            the GPU sends in an iteration.
    """

    pause_s: float = 10.0
    state_gb: float | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """One run. The defaults are the paper's main cluster (figure 6) at load 1.0.

    Attributes:
        system: see ``simulation.systems.SYSTEMS``.
        spines: uplinks of each rack; aggregation switches of a pod in ``pods``.
        queue: ``fifo``: nobody passes a job that does not fit yet; ``skip``: later jobs that fit do.
        fabric: ``pods``: three tiers, ``racks_per_pod`` and ``cores``; ``rails``: ``gpus_per_rack`` is a
            pod's, each server rank has leaves of its own.
        failed: (rack, spine) of uplinks that are down.
        threshold: flows a rack may send up before MonkeyTree acts; None is what its live uplinks carry. Where
            an uplink carries several at line rate, rounded down to a multiple of these.
        trace: the jobs, in any order; None draws them.
        trigger: decides on each plan; None carries all out. A module-level function, so that it travels
            to other processes.
        compress: arrivals, iterations, bytes of state and pauses are divided by this, so that as many jobs
            meet as often in fewer iterations. Waits for barriers are not: moving then costs relatively more.
        time_limit_s: of a plan. Where a plan needs longer, results depend on the machine.
    """

    system: str = "monkeytree"
    gpus: int = 1024
    gpus_per_rack: int = 64
    spines: int = 16
    load: float = 1.0
    jobs: int = 1000
    seed: int = 6001
    scheduler: SchedulerName = "best-fit"
    queue: Queue = "fifo"
    fabric: FabricName = "leaf-spine"
    racks_per_pod: int = 4
    cores: int = 16
    failed: frozenset[tuple[int, int]] = frozenset()
    threshold: int | None = None
    migration: Migration = Migration()
    trace: tuple[TraceJob, ...] | None = None
    mix: str = "paper"
    trigger: Trigger | None = None
    compress: int = 1
    time_limit_s: float = 10.0
    nic_gbps: float = 400.0
    uplink_gbps: float = 400.0


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job: times in microseconds since the start; slowdown is (end - start) / ideal."""

    id: int
    type: str
    gpus: int
    arrival_us: int
    start_us: int
    end_us: int
    ideal_us: int
    slowdown: float
    migrations: int


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One plan: ``moves`` workers (servers), whether it was carried out, and how long making it took."""

    time_us: int
    moves: int
    status: str
    carried_out: bool
    solve_ms: float
    duration_us: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """All that a run gives.

    ``summary``: system, load, gpus, jobs, seed, mean, p90, p99 (of slowdowns), migrations (workers moved),
    plans, counters of the work done, solve_ms_mean, cpu_s. All but the last two repeat to the bit.
    """

    setup: Setup
    jobs: tuple[JobRow, ...]
    plans: tuple[PlanRow, ...]
    migrations: int
    summary: Mapping[str, Any] = field(default_factory=dict)
