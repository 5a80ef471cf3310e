"""A plan: the fewest moves, the ring orders they lead to, and an uplink for each flow.

The classes mirror the plan document, format 1 (docs/contract.md, section 2). Ids of jobs, groups,
racks and nodes are those of the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PlanState = Literal["queued", "solving", "ready", "failed", "cancelled", "superseded"]
PlanStatus = Literal["compliant", "optimal", "feasible", "best_effort", "infeasible"]
LimitedBy = Literal["max_moves", "time"]
ObjectiveName = Literal["moves", "gpu_seconds"]


@dataclass(frozen=True, slots=True)
class Trial:
    """One solver tried: how long it took and how it ended.

    ``outcome`` is ``optimal``, ``feasible``, ``infeasible``, ``no_answer`` or, where the solver was
    not usable, the reason in words.
    """

    name: str
    seconds: float
    outcome: str


@dataclass(frozen=True, slots=True)
class SolverReport:
    """Who answered, and what was tried on the way."""

    name: str
    version: str
    seconds: float
    tried: tuple[Trial, ...] = ()


@dataclass(frozen=True, slots=True)
class Objective:
    """The named objective, its value, and whether the tie-breaks after it are proved least.

    ``lower_bound`` is given for ``gpu_seconds`` only (for ``moves`` the plan's own
    ``lower_bound`` says it).
    """

    name: ObjectiveName
    value: float
    ties_proved: bool
    lower_bound: float | None = None


@dataclass(frozen=True, slots=True)
class Undrained:
    """A worker that stays on a draining node."""

    job: str
    group: str
    rank: int
    node: str


@dataclass(frozen=True, slots=True)
class Load:
    """Fragmentation degree against the bound; tuples hold one entry a rail."""

    bound: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """One rank changes node in one wave.

    ``staged``: its slot is freed only in the same wave, so its state waits in host memory.
    """

    job: str
    group: str
    rank: int
    source: str
    target: str
    wave: int
    staged: bool = False
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ring:
    """The ring order of a group after the plan, ranks in ring order."""

    job: str
    group: str
    order: tuple[int, ...]
    changed: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """One departure of one ring from a rack, and the uplink it is given.

    ``uplink`` is the spine, None where the two leaves share no live spine. ``pod_uplink`` is the
    core; it is given for flows that leave their pod (``leaves_pod``), None where there is none.
    ``udp_source_port``, and ``flow_label`` that leads to it, put the flow there where switches choose by
    ``fabric.hash`` of the snapshot; None where that is not known or the flow is ``unsteered``.
    """

    job: str
    group: str
    ring: int
    rail: int
    from_rank: int
    to_rank: int
    from_rack: str
    to_rack: str
    uplink: int | None
    leaves_pod: bool = False
    pod_uplink: int | None = None
    udp_source_port: int | None = None
    flow_label: int | None = None


@dataclass(frozen=True, slots=True)
class Transient:
    """A leaf that after ``wave`` is over both its bound and its degree before the plan."""

    rack: str
    rail: int
    wave: int
    f: int


@dataclass(frozen=True, slots=True)
class SharedUplink:
    """An uplink that carries more flows than it can at full rate; ``flows`` are indices.

    For a leaf ``rack`` and ``rail`` are set and ``uplink`` is the spine; one tier up ``pod`` is set
    and ``uplink`` is the core.
    """

    uplink: int
    direction: Literal["up", "down"]
    flows: tuple[int, ...]
    rack: str | None = None
    rail: int | None = None
    pod: str | None = None


@dataclass(frozen=True, slots=True)
class Unguaranteed:
    """A group whose isolation the plan does not claim."""

    job: str
    group: str
    kind: str


@dataclass(frozen=True, slots=True)
class Unsteered:
    """Flows (indices) that no source port puts on their uplinks, and why: ``no_uplink``, ``no_address``,
    ``polarised``, ``needs_queue_pair``, ``not_learned`` or ``stale_table`` (docs/steering.md)."""

    reason: str
    flows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """An irreducible conflict: ids, in snapshot order.

    With these jobs alone, no placement keeps these racks and pods within their bounds and these nodes
    drained; without any one of all these there is one.
    """

    jobs: tuple[str, ...]
    racks: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    drains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PendingPlacement:
    """Where a pending job would best start, after the plan and after the pending jobs before it.

    Attributes:
        nodes: node of each worker, racks one after the other; () where it has no room.
        after: f_t of each rack it touches once it runs, one entry a rail.
        within_bound: none of these racks (and pods) is over its bound then.
        proved: no other nodes add less excess, or, with as little, span fewer pods, then fewer racks.
        because: what stands against it: ids of the racks and ``pod:ID`` that are over, or ``no_room``.
    """

    job: str
    nodes: tuple[str, ...]
    after: Mapping[str, tuple[int, ...]]
    within_bound: bool
    proved: bool
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Predicted:
    """GPU-seconds (slots x seconds) a plan is expected to save over the jobs' remaining time, and to lose
    to its pauses; ``saved_gpu_s`` is None where the snapshot does not say enough."""

    saved_gpu_s: float | None
    lost_gpu_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A ready plan (docs/contract.md, section 2). Times are UTC, ISO 8601."""

    id: str
    snapshot_id: str
    cluster: str
    created_at: str
    status: PlanStatus
    solver: SolverReport
    moves_needed: int
    lower_bound: int | None
    undrained: tuple[Undrained, ...]
    excess: int
    excess_proved: bool
    limited_by: LimitedBy | None
    jobs_paused: int
    pause_s: float
    objective: Objective
    racks: Mapping[str, Load]
    pods: Mapping[str, Load]
    moves: tuple[Move, ...]
    rings: tuple[Ring, ...]
    flows: tuple[Flow, ...]
    transients: tuple[Transient, ...] = ()
    shared_uplinks: tuple[SharedUplink, ...] = ()
    unguaranteed: tuple[Unguaranteed, ...] = ()
    certificate: Mapping[str, Any] | None = None
    conflict: Conflict | None = None
    state: PlanState = "ready"
    failure: Mapping[str, str] | None = field(default=None)
    predicted: Predicted | None = None
    worthwhile: bool | None = None
    unsteered: tuple[Unsteered, ...] = ()
    placements: tuple[PendingPlacement, ...] = ()
