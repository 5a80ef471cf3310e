"""The fewest-moves problem on counts: what may move, where to, and what bounds it.

A snapshot names ranks and nodes; the problem only counts. Nodes of a rack that are alike for the
decision (same class, same willingness to accept) are one :class:`Site`, and a group is its number of
workers on each site. Groups that can change nothing are folded into the fixed part. Where workers of
several slots make a site's count ambiguous, the site can be split into its nodes
(``split_nodes``): the coarse problem is then a relaxation of the finer one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .placement import sends
from .ring import departures
from .snapshot import Job, Node, ReplicaGroup, Snapshot


@dataclass(frozen=True, slots=True)
class Site:
    """Nodes of one rack that the decision need not tell apart.

    Attributes:
        rack: index of the rack.
        nodes: ids of its nodes.
        free_of_fixed: usable slots of each node less those of workers that cannot move.
    """

    rack: int
    nodes: tuple[str, ...]
    free_of_fixed: tuple[int, ...]
    accepts: bool
    drain: bool
    node_class: str

    def room(self, slots: int) -> int:
        """Most workers of ``slots`` slots each that its nodes hold together."""
        return sum(free // slots for free in self.free_of_fixed)


@dataclass(frozen=True, slots=True)
class Member:
    """A replica group that the plan may change.

    Attributes:
        index: of the group in ``Snapshot.groups``.
        job: index of its job in ``Problem.jobs``.
        size: workers, n.
        slots: slots a worker occupies.
        wire_s: seconds its state of one worker takes on one NIC.
        rings: rings by rail, R_q.
        count: workers by site, w_0.
        movable: of these, the workers that may leave, by site.
        targets: sites it may enter.
        rack_departures: departures of the ring order in force, by rack.
        pod_departures: the same by pod.
        loose: whether an order with adjacent workers would depart less.
    """

    index: int
    job: int
    size: int
    slots: int
    wire_s: float
    rings: tuple[int, ...]
    count: Mapping[int, int]
    movable: Mapping[int, int]
    targets: tuple[int, ...]
    rack_departures: Mapping[int, int]
    pod_departures: Mapping[int, int]
    loose: bool

    @property
    def silent(self) -> bool:
        """Sends no flow wherever it is."""
        return self.size == 1 or not any(self.rings)

    @property
    def mobile(self) -> int:
        """Workers that may move."""
        return sum(self.movable.values())


@dataclass(frozen=True, slots=True)
class JobCost:
    """What pausing a job costs: its slots, and whether moving it means a restart."""

    slots: int
    restart: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """Counts, bounds and costs; see the attributes of the same names in the snapshot.

    Attributes:
        bounds: lambda_t of each rack, for each of its leaves.
        fixed: f_t by (rack, rail) of groups outside ``members``.
        pod_of: pod index of each rack; empty without pods.
        pod_bounds: bound of each pod.
        pod_fixed: the fixed part one tier up.
        stuck: workers on draining nodes that cannot move at all.
    """

    rails: int
    bounds: tuple[int, ...]
    fixed: Mapping[tuple[int, int], int]
    pod_of: tuple[int, ...]
    pod_bounds: tuple[int, ...]
    pod_fixed: Mapping[int, int]
    sites: tuple[Site, ...]
    members: tuple[Member, ...]
    jobs: tuple[JobCost, ...]
    stuck: int
    overhead_s: float
    restart_s: float
    max_moves: int | None

    @property
    def must_drain(self) -> int:
        """Workers on draining nodes that may leave them."""
        return sum(
            movable
            for member in self.members
            for site, movable in member.movable.items()
            if self.sites[site].drain
        )


def may_change(job: Job, group: ReplicaGroup) -> bool:
    """Whether a plan may move or reorder a group at all."""
    return job.mobility != "none" and not group.order_fixed


def accepted_classes(snapshot: Snapshot, job: Job) -> frozenset[str]:
    """Node classes the workers of ``job`` may move to."""
    if job.classes is not None:
        return job.classes
    nodes = snapshot.node_by_id
    return frozenset(nodes[node].node_class for group in job.replica_groups for node in group.workers)


def state_problem(
    snapshot: Snapshot,
    split_nodes: frozenset[str] = frozenset(),
    movable_groups: frozenset[int] | None = None,
) -> Problem:
    """The problem of a snapshot.

    Args:
        split_nodes: nodes that are sites of their own.
        movable_groups: the only groups (indices of ``Snapshot.groups``) that may change; by default
            all that the snapshot allows. Fewer make a smaller program whose answers are feasible but
            whose bounds prove nothing.
    """
    rack_index = {rack.id: index for index, rack in enumerate(snapshot.racks)}
    pod_index = {pod.id: index for index, pod in enumerate(snapshot.pods)}
    rack_at = {node.id: rack_index[rack.id] for rack in snapshot.racks for node in rack.nodes}
    pod_of = tuple(pod_index[str(rack.pod)] for rack in snapshot.racks) if snapshot.pods else ()
    everyone = range(len(snapshot.groups))
    chosen = frozenset(everyone) if movable_groups is None else movable_groups
    immovable = [
        list(immovable_ranks(job, group)) if index in chosen else range(len(group.workers))
        for index, (job, group) in enumerate(snapshot.groups)
    ]
    sites, site_of = _sites(snapshot, rack_at, _slots_fixed(snapshot, immovable), split_nodes)
    members, fixed, pod_fixed = _members(snapshot, chosen, rack_at, pod_of, sites, site_of)
    return Problem(
        rails=snapshot.fabric.rails,
        bounds=tuple(snapshot.bound(rack) for rack in snapshot.racks),
        fixed=fixed,
        pod_of=pod_of,
        pod_bounds=tuple(snapshot.pod_bound(pod) for pod in snapshot.pods),
        pod_fixed=pod_fixed,
        sites=tuple(sites),
        members=tuple(members),
        jobs=tuple(JobCost(job_slots(job), restart=job.mobility == "restart") for job in snapshot.jobs),
        stuck=_stuck(snapshot, immovable),
        overhead_s=snapshot.planning.pause_overhead_s,
        restart_s=snapshot.planning.restart_s,
        max_moves=snapshot.planning.max_moves,
    )


def _members(
    snapshot: Snapshot,
    chosen: frozenset[int],
    rack_at: Mapping[str, int],
    pod_of: Sequence[int],
    sites: Sequence[Site],
    site_of: Mapping[str, int],
) -> tuple[list[Member], Counter[tuple[int, int]], Counter[int]]:
    """Groups that may change; of all others the flows they send, by (rack, rail) and by pod."""
    fixed: Counter[tuple[int, int]] = Counter()
    pod_fixed: Counter[int] = Counter()
    members: list[Member] = []
    job_index = {job.id: index for index, job in enumerate(snapshot.jobs)}
    entries = _entries(snapshot, sites)
    for index, (job, group) in enumerate(snapshot.groups):
        racks = [rack_at[node] for node in group.workers]
        pods = [pod_of[rack] for rack in racks] if pod_of else []
        by_rack, by_pod = _departures(group, racks), _departures(group, pods)
        loose = any(times > 1 for times in (*by_rack.values(), *by_pod.values()))
        changeable = index in chosen and may_change(job, group)
        if changeable and (loose or len(group.pinned) < len(group.workers)):
            entry = entries[job.id]
            members.append(
                _member(snapshot, index, job_index[job.id], group, site_of, entry, by_rack, by_pod, loose)
            )
        elif sends(group):
            for rack, times in by_rack.items():
                for rail in range(snapshot.fabric.rails):
                    fixed[rack, rail] += times * group.rings_on_rail(rail, snapshot.fabric.rails)
            for pod, times in by_pod.items():
                pod_fixed[pod] += times * group.rings
    return members, fixed, pod_fixed


def _entries(snapshot: Snapshot, sites: Sequence[Site]) -> dict[str, tuple[int, ...]]:
    """Sites the workers of each job may enter; jobs of the same classes share one tuple, since at 65,536
    GPUs it has a thousand sites.
    """
    accepting: dict[str, list[int]] = defaultdict(list)
    for index, site in enumerate(sites):
        if site.accepts:
            accepting[site.node_class].append(index)
    classes = {job.id: accepted_classes(snapshot, job) for job in snapshot.jobs}
    shared = {
        names: tuple(site for name in sorted(names) for site in accepting[name])
        for names in set(classes.values())
    }
    return {job: shared[names] for job, names in classes.items()}


def job_slots(job: Job) -> int:
    """Slots a job occupies: what one second of its pause costs, in slot-seconds."""
    return sum(len(group.workers) * group.slots_per_worker for group in job.replica_groups)


def immovable_ranks(job: Job, group: ReplicaGroup) -> Iterable[int]:
    """Ranks that stay where they are whatever the plan."""
    return group.pinned if may_change(job, group) else range(len(group.workers))


def wire_seconds(snapshot: Snapshot, group: ReplicaGroup) -> float:
    """Seconds the state of one worker takes over one NIC at line rate."""
    return group.state_gb * 8 / snapshot.fabric.nic_gbps


def _slots_fixed(snapshot: Snapshot, immovable: Sequence[Iterable[int]]) -> Counter[str]:
    """Slots of each node that workers which cannot move occupy."""
    slots: Counter[str] = Counter()
    for (_, group), ranks in zip(snapshot.groups, immovable, strict=True):
        for rank in ranks:
            slots[group.workers[rank]] += group.slots_per_worker
    return slots


def _stuck(snapshot: Snapshot, immovable: Sequence[Iterable[int]]) -> int:
    nodes = snapshot.node_by_id
    return sum(
        nodes[group.workers[rank]].drain
        for (_, group), ranks in zip(snapshot.groups, immovable, strict=True)
        for rank in ranks
    )


def _sites(
    snapshot: Snapshot,
    rack_at: Mapping[str, int],
    slots_fixed: Mapping[str, int],
    split_nodes: frozenset[str],
) -> tuple[list[Site], dict[str, int]]:
    alike: dict[tuple[int, str, bool, bool, str], list[Node]] = defaultdict(list)
    for rack in snapshot.racks:
        number = rack_at[rack.nodes[0].id] if rack.nodes else -1
        for node in rack.nodes:
            own = node.id if node.id in split_nodes else ""
            alike[number, node.node_class, node.accepts, node.drain, own].append(node)
    sites: list[Site] = []
    site_of: dict[str, int] = {}
    for (rack_number, node_class, accepts, drain, _), nodes in alike.items():
        for node in nodes:
            site_of[node.id] = len(sites)
        free = tuple(node.usable - slots_fixed.get(node.id, 0) for node in nodes)
        names = tuple(node.id for node in nodes)
        sites.append(Site(rack_number, names, free, accepts, drain, node_class))
    return sites, site_of


def _departures(group: ReplicaGroup, places: list[int]) -> Mapping[int, int]:
    """Departures of the order in force; most groups stand in one place and have none."""
    if not places or places.count(places[0]) == len(places) or not sends(group):
        return {}
    return departures(group.ring_order, places)


def _count(items: Iterable[int]) -> dict[int, int]:
    """Occurrences of each item (a plain loop: groups are small, and there are many)."""
    counts: dict[int, int] = {}
    for item in items:
        counts[item] = counts.get(item, 0) + 1
    return counts


def _member(
    snapshot: Snapshot,
    index: int,
    job: int,
    group: ReplicaGroup,
    site_of: Mapping[str, int],
    entry: tuple[int, ...],
    by_rack: Mapping[int, int],
    by_pod: Mapping[int, int],
    loose: bool,
) -> Member:
    rails = snapshot.fabric.rails
    count = _count([site_of[node] for node in group.workers])
    movable = count
    if group.pinned:
        movable = _count(
            [site_of[node] for rank, node in enumerate(group.workers) if rank not in group.pinned]
        )
    return Member(
        index=index,
        job=job,
        size=len(group.workers),
        slots=group.slots_per_worker,
        wire_s=wire_seconds(snapshot, group),
        rings=(group.rings,)
        if rails == 1
        else tuple(group.rings_on_rail(rail, rails) for rail in range(rails)),
        count=count,
        movable=movable,
        targets=entry if movable else (),
        rack_departures=by_rack,
        pod_departures=by_pod,
        loose=loose,
    )
