"""A placement at one instant, with all that a decision about it depends on.

The classes mirror the snapshot document, format 1 (docs/contract.md, section 1): a snapshot is
frozen, carries its own planning options, and can therefore be replayed. It is checked whole when it
is constructed: :class:`~monkeytree.errors.InvalidSnapshot` lists every offence by JSON pointer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from .errors import InvalidSnapshot, UnsupportedMember
from .fabric_hash import FabricHash

Mobility = Literal["live", "restart", "none"]
GroupKind = Literal["ring", "tree", "all_to_all", "other"]
Routing = Literal["steered", "ecmp", "adaptive"]
Trigger = Literal["always", "worthwhile"]
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Fabric:
    """What all racks share.

    Attributes:
        nic_gbps: line rate of one worker NIC, Gb/s.
        uplink_gbps: line rate of one uplink, Gb/s; None means ``nic_gbps``.
        routing: isolation is claimed only for ``steered``.
        rails: leaves (ToR switches) per rack; ring j of a worker uses rail j mod rails.
        hash: how switches choose among uplinks, where known: plans then give flows their source ports.
    """

    nic_gbps: float = 400.0
    uplink_gbps: float | None = None
    routing: Routing = "steered"
    rails: int = 1
    hash: FabricHash | None = None

    @property
    def flows_per_uplink(self) -> int:
        """k: flows one uplink carries at full rate, max(1, floor(uplink_gbps / nic_gbps))."""
        uplink_gbps = self.nic_gbps if self.uplink_gbps is None else self.uplink_gbps
        return max(1, int(uplink_gbps // self.nic_gbps))


@dataclass(frozen=True, slots=True)
class Node:
    """One server of a rack.

    Attributes:
        slots: places for workers, usually GPUs.
        held: slots nobody may use.
        cordoned: keeps its workers, receives none.
        drain: its workers must leave; it receives none.
        node_class: workers move only among the classes their job accepts; "" is the unnamed class.
        addresses: one IP address a rail, where known.
    """

    id: str
    slots: int
    held: int = 0
    cordoned: bool = False
    drain: bool = False
    node_class: str = ""
    labels: Labels = field(default_factory=dict)
    addresses: tuple[str, ...] = ()

    @property
    def usable(self) -> int:
        """Slots that workers may occupy."""
        return self.slots - self.held

    @property
    def accepts(self) -> bool:
        """Whether workers may move here."""
        return not (self.cordoned or self.drain)


@dataclass(frozen=True, slots=True)
class Rack:
    """A rack: ``fabric.rails`` leaves, each with the same live uplinks, and its nodes.

    Attributes:
        spines: the spines its live uplinks lead to, ascending (``uplinks`` of the document: n
            means 0..n-1).
        pod: id of the pod it belongs to, where the snapshot has pods.
    """

    id: str
    spines: tuple[int, ...]
    nodes: tuple[Node, ...]
    pod: str | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of racks; pod uplink c leads to core c (0 <= c < uplinks)."""

    id: str
    uplinks: int


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """The workers that synchronise gradients in one ring order.

    Attributes:
        workers: node id of each rank, by rank.
        rings: d_s of the paper, rings over the same workers; 0 for groups that send nothing.
        slots_per_worker: slots of one node that a worker occupies.
        state_gb: 10^9 bytes moved per worker.
        order: ranks in ring order; None means by rank.
        order_fixed: the group keeps its order and its places and counts as it is.
        pinned: ranks that must stay where they are.
        kind: anything but ``ring`` is counted as a ring and listed in the plan's ``unguaranteed``.
        traffic_gb: 10^9 bytes one worker sends on one ring in an iteration; None where not known. No
            decision rests on it: the packet-level replay, the simulation and predictions read it.
        iteration_s: seconds of one iteration without congestion; None where not known. Predictions
            read it (:mod:`monkeytree.predict`).
    """

    id: str
    workers: tuple[str, ...]
    rings: int = 1
    slots_per_worker: int = 1
    state_gb: float = 12.0
    order: tuple[int, ...] | None = None
    order_fixed: bool = False
    pinned: frozenset[int] = frozenset()
    kind: GroupKind = "ring"
    traffic_gb: float | None = None
    iteration_s: float | None = None

    @property
    def ring_order(self) -> tuple[int, ...]:
        """The ring order in force: ``order``, or by rank."""
        return self.order if self.order is not None else tuple(range(len(self.workers)))

    def rings_on_rail(self, rail: int, rails: int) -> int:
        """Rings j of this group with j mod ``rails`` = ``rail``."""
        return self.rings // rails + (1 if rail < self.rings % rails else 0)


@dataclass(frozen=True, slots=True)
class Job:
    """One tenant's job: replica groups that pause together.

    Attributes:
        mobility: ``live`` (workers move one by one), ``restart`` (all its moves cost one restart)
            or ``none`` (neither moved nor reordered).
        classes: node classes its workers may move to; None means the classes it is on now.
        remaining_s: seconds it has still to run, without congestion; None where not known.
    """

    id: str
    replica_groups: tuple[ReplicaGroup, ...]
    mobility: Mobility = "live"
    classes: frozenset[str] | None = None
    labels: Labels = field(default_factory=dict)
    remaining_s: float | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """A job that waits for nodes; a plan advises where it would best start.

    Attributes:
        workers: how many it will have.
        classes: node classes its workers may start on; None means any.
        one_per_node: whether each of its workers needs a node of its own.
        submitted_at: UTC, ISO 8601; told only: jobs are placed in the order in which they are listed.
    """

    id: str
    workers: int
    slots_per_worker: int = 1
    rings: int = 1
    classes: frozenset[str] | None = None
    one_per_node: bool = False
    submitted_at: str | None = None
    labels: Labels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planning:
    """Options of the decision; they travel with the snapshot so that it replays.

    Attributes:
        objective: ``moves``, or ``gpu_seconds`` to put job-slots x pause before moves.
        time_limit_s: seconds until the incumbent is returned with its bound.
        solver: ``auto`` or the name of one.
        max_moves: most moves a plan may have; None is no limit.
        pause_overhead_s: pause of a move beyond its time on the wire (9.02 s: paper, section 7).
        restart_s: pause of a restart.
        trigger: whether plans are to be carried out ``always`` or only where ``worthwhile``; the plan is
            the same.
    """

    objective: Literal["moves", "gpu_seconds"] = "moves"
    time_limit_s: float = 10.0
    solver: str = "auto"
    max_moves: int | None = None
    previous_plan_id: str | None = None
    pause_overhead_s: float = 9.02
    restart_s: float = 120.0
    trigger: Trigger = "always"


@dataclass(frozen=True)
class Snapshot:
    """A whole placement; constructing one checks it whole.

    Raises:
        InvalidSnapshot: with every offence by JSON pointer into the document it mirrors.
    """

    cluster: str
    taken_at: str
    racks: tuple[Rack, ...]
    jobs: tuple[Job, ...]
    fabric: Fabric = Fabric()
    pods: tuple[Pod, ...] = ()
    planning: Planning = Planning()
    sequence: int | None = None
    labels: Labels = field(default_factory=dict)
    pending: tuple[Pending, ...] = ()

    def __post_init__(self) -> None:
        from .offences import find_offences

        offences = find_offences(self)
        if offences:
            unsupported = all(offence.code == "unsupported_member" for offence in offences)
            raise (UnsupportedMember if unsupported else InvalidSnapshot)(offences)

    @cached_property
    def rack_of(self) -> Mapping[str, Rack]:
        """Rack of each node id."""
        return {node.id: rack for rack in self.racks for node in rack.nodes}

    @cached_property
    def node_by_id(self) -> Mapping[str, Node]:
        """Node of each node id."""
        return {node.id: node for rack in self.racks for node in rack.nodes}

    @cached_property
    def groups(self) -> tuple[tuple[Job, ReplicaGroup], ...]:
        """All replica groups with their jobs, in document order: the index other modules use."""
        return tuple((job, group) for job in self.jobs for group in job.replica_groups)

    def bound(self, rack: Rack) -> int:
        """lambda_t: flows each leaf of ``rack`` carries at full rate, live uplinks x k."""
        return len(rack.spines) * self.fabric.flows_per_uplink

    def pod_bound(self, pod: Pod) -> int:
        """The bound of ``pod`` one tier up, uplinks x k, all rails together."""
        return pod.uplinks * self.fabric.flows_per_uplink
