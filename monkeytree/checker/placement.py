"""The checker's own view of a snapshot (contract, section 1), indexed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .hashes import Hashing

Key = tuple[str, str]
"""(job id, group id)."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node; ``usable`` is slots - held."""

    rack: str
    usable: int
    cordoned: bool
    drain: bool
    node_class: str
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rack:
    """A rack: the live spines of each of its leaves, and its pod."""

    spines: frozenset[int]
    pod: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """A replica group; ``order`` is the ring order in force, given or by rank."""

    job: str
    id: str
    workers: tuple[str, ...]
    order: tuple[int, ...]
    rings: int
    slots_per_worker: int
    state_gb: float
    order_fixed: bool
    pinned: frozenset[int]
    kind: str
    traffic_gb: float | None = None
    iteration_s: float | None = None

    @property
    def key(self) -> Key:
        return self.job, self.id

    @property
    def sends(self) -> bool:
        """Whether it has flows at all."""
        return self.rings > 0 and len(self.workers) > 1


@dataclass(frozen=True, slots=True)
class Job:
    """A job; ``classes`` are those its workers may move to."""

    id: str
    mobility: str
    classes: frozenset[str]
    groups: tuple[Group, ...]
    remaining_s: float | None = None

    @property
    def slots(self) -> int:
        """Slots all its workers occupy."""
        return sum(len(group.workers) * group.slots_per_worker for group in self.groups)


@dataclass(frozen=True, slots=True)
class Pending:
    """A job that waits for nodes; ``classes`` None means any."""

    id: str
    workers: int
    slots_per_worker: int
    rings: int
    classes: frozenset[str] | None
    one_per_node: bool


@dataclass(frozen=True, slots=True)
class Planning:
    """The options that a plan's arithmetic depends on; times in seconds."""

    objective: str
    max_moves: int | None
    pause_overhead_s: float
    restart_s: float


@dataclass(frozen=True)
class Placement:
    """A snapshot, indexed.

    Attributes:
        per_uplink: k, flows one uplink carries at full rate.
        pods: uplinks of each pod.
        pod_spines: S of each pod, 1 + the largest spine any of its racks names.
    """

    cluster: str
    nic_gbps: float
    per_uplink: int
    rails: int
    routing: str
    racks: Mapping[str, Rack]
    nodes: Mapping[str, Node]
    pods: Mapping[str, int]
    jobs: Mapping[str, Job]
    planning: Planning
    hashing: Hashing | None
    pending: tuple[Pending, ...] = ()
    groups: Mapping[Key, Group] = field(init=False)
    rack_of: Mapping[str, str] = field(init=False)
    pod_spines: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        groups = {group.key: group for job in self.jobs.values() for group in job.groups}
        spines = dict.fromkeys(self.pods, 0)
        for rack in self.racks.values():
            if rack.pod is not None:
                spines[rack.pod] = max(spines[rack.pod], 1 + max(rack.spines, default=-1))
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "rack_of", {name: node.rack for name, node in self.nodes.items()})
        object.__setattr__(self, "pod_spines", spines)

    def rings_on_rail(self, group: Group, rail: int) -> int:
        """Rings j of ``group`` with j mod rails = ``rail``."""
        return len(range(rail, group.rings, self.rails))

    def bound(self, rack: str) -> int:
        """Flows each leaf of ``rack`` carries at full rate."""
        return len(self.racks[rack].spines) * self.per_uplink

    def pod_bound(self, pod: str) -> int:
        """Flows ``pod`` carries to other pods at full rate, all rails together."""
        return self.pods[pod] * self.per_uplink
