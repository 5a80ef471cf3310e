"""Everything wrong with a snapshot, found in single passes and all at once.

:func:`find_offences` looks at the model, so it serves documents and snapshots built in Python alike.
Pointers (RFC 6901) are those of the long form of the document: the slots of a node stand at
``/racks/0/nodes/n1/slots``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, get_args

from . import limits
from .errors import Offence
from .hash_offences import check_addresses, check_hash
from .limits import NAME_MESSAGE, is_name, is_text
from .offence_log import OffenceLog, Path, cut_short, show
from .snapshot import (
    Fabric,
    GroupKind,
    Job,
    Mobility,
    Planning,
    Pod,
    Rack,
    ReplicaGroup,
    Routing,
    Snapshot,
    Trigger,
)

TIME_PATTERN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|\+00:00)$"
TIME_MESSAGE: Final = "must be a UTC time in ISO 8601, such as 2026-11-29T18:00:00Z"
_TIME = re.compile(TIME_PATTERN.replace("$", r"\Z"))


def find_offences(snapshot: Snapshot, *, nodes_known: bool = True, pods_known: bool = True) -> list[Offence]:
    """List every rule that ``snapshot`` breaks, in document order.

    At most :data:`~monkeytree.offence_log.MOST_LISTED` are listed; a last one then says how many more
    there are.

    Args:
        snapshot: a snapshot, checked or not; the types of its members are those of the model.
        nodes_known: False where racks were left out as unreadable: a node that is not there is then
            no offence.
        pods_known: the same for pods.
    """
    log = OffenceLog()
    _check_head(snapshot, log)
    _check_fabric(snapshot.fabric, log)
    slots_left = _check_racks(snapshot.racks, log)
    _check_pods(snapshot, pods_known, log)
    _check_jobs(snapshot.jobs, slots_left, nodes_known, log)
    _check_occupancy(snapshot.racks, slots_left, log)
    _check_pending(snapshot, log)
    _check_planning(snapshot.planning, log)
    _check_steering(snapshot, log)
    return cut_short(log.listed, log.more)


def is_utc_time(value: Any) -> bool:
    """Whether ``value`` is an ISO 8601 date and time in UTC, written with Z or +00:00."""
    if not isinstance(value, str) or _TIME.match(value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:  # the 31st of February
        return False
    return True


def _check_head(snapshot: Snapshot, log: OffenceLog) -> None:
    log.name(snapshot.cluster, "cluster")
    if not is_utc_time(snapshot.taken_at):
        log.add(("taken_at",), TIME_MESSAGE, snapshot.taken_at)
    if snapshot.sequence is not None:
        log.check(limits.SEQUENCE, snapshot.sequence, "sequence")
    _check_labels(snapshot.labels, (), log)
    _check_size("racks", len(snapshot.racks), limits.MAX_RACKS, log)
    _check_size("pods", len(snapshot.pods), limits.MAX_PODS, log)
    _check_size("jobs", len(snapshot.jobs), limits.MAX_JOBS, log)
    if not snapshot.racks:
        log.add(("racks",), "must list at least one rack", [])


def _check_size(member: str, count: int, most: int, log: OffenceLog, noun: str | None = None) -> None:
    if count > most:
        log.add((member,), f"may hold at most {most:,} {noun or member}", count)


def _check_labels(labels: Mapping[str, str], at: Path, log: OffenceLog) -> None:
    for key, value in labels.items():
        if not is_name(key):
            log.add((*at, "labels", key), f"its name {NAME_MESSAGE}", key)
        if not is_text(value):
            log.add((*at, "labels", key), limits.LABEL_MESSAGE, value)


def _check_fabric(fabric: Fabric, log: OffenceLog) -> None:
    log.check(limits.GBPS, fabric.nic_gbps, "fabric", "nic_gbps")
    if fabric.uplink_gbps is not None:
        log.check(limits.GBPS, fabric.uplink_gbps, "fabric", "uplink_gbps")
    log.choice(fabric.routing, get_args(Routing), "fabric", "routing")
    log.check(limits.RAILS, fabric.rails, "fabric", "rails")


def _check_steering(snapshot: Snapshot, log: OffenceLog) -> None:
    """Addresses and ``fabric.hash``."""
    rails = snapshot.fabric.rails
    placed = (
        (("racks", index, "nodes", node.id), node.addresses)
        for index, rack in enumerate(snapshot.racks)
        for node in rack.nodes
        if node.addresses
    )
    family = check_addresses(placed, rails, log)
    if snapshot.fabric.hash is not None:
        spines = dict.fromkeys((pod.id for pod in snapshot.pods), 0)
        for rack in snapshot.racks:
            if rack.pod in spines and rack.spines:
                spines[rack.pod] = max(spines[rack.pod], rack.spines[-1] + 1)
        check_hash(snapshot.fabric.hash, {rack.id: rails for rack in snapshot.racks}, spines, log, family)


def _check_planning(planning: Planning, log: OffenceLog) -> None:
    log.choice(planning.objective, ("moves", "gpu_seconds"), "planning", "objective")
    log.check(limits.TIME_LIMIT_S, planning.time_limit_s, "planning", "time_limit_s")
    log.name(planning.solver, "planning", "solver")
    if planning.max_moves is not None:
        log.check(limits.MAX_MOVES, planning.max_moves, "planning", "max_moves")
    if planning.previous_plan_id is not None:
        log.name(planning.previous_plan_id, "planning", "previous_plan_id")
    log.check(limits.PAUSE_S, planning.pause_overhead_s, "planning", "pause_overhead_s")
    log.check(limits.PAUSE_S, planning.restart_s, "planning", "restart_s")
    log.choice(planning.trigger, get_args(Trigger), "planning", "trigger")


def _check_ids(ids: Iterable[str], noun: str, at: Path, log: OffenceLog) -> None:
    """Names are names, and none is given twice in the list at ``at``."""
    seen: dict[str, int] = {}
    for index, name in enumerate(ids):
        log.name(name, *at, index, "id")
        first = seen.setdefault(name, index)
        if first != index:
            log.add((*at, index, "id"), f"is already the id of {noun} {first}; ids must differ", name)


def _check_racks(racks: Sequence[Rack], log: OffenceLog) -> dict[str, int]:
    """Check racks and nodes; returns the slots that workers may occupy, by node id."""
    _check_ids((rack.id for rack in racks), "rack", ("racks",), log)
    slots_left: dict[str, int] = {}
    home: dict[str, int] = {}
    for index, rack in enumerate(racks):
        _check_spines(rack.spines, index, log)
        for node in rack.nodes:
            at = ("racks", index, "nodes", node.id)
            if not is_name(node.id):
                log.add(at, f"its id {NAME_MESSAGE}", node.id)
            if node.id in home:
                where = "the same rack" if home[node.id] == index else f"rack {racks[home[node.id]].id!r}"
                log.add(at, f"is named in {where} already; a node stands in one rack, once", node.id)
                continue
            home[node.id] = index
            slots_left[node.id] = node.usable
            if log.check(limits.SLOTS, node.slots, *at, "slots") and not 0 <= node.held <= node.slots:
                log.add((*at, "held"), f"must be from 0 to the node's {node.slots} slots", node.held)
            if node.node_class and not is_name(node.node_class):
                log.add((*at, "class"), NAME_MESSAGE, node.node_class)
            if node.labels:
                _check_labels(node.labels, at, log)
    _check_size("racks", len(home), limits.MAX_NODES, log, "nodes")
    return slots_left


def _check_spines(spines: Sequence[int], rack: int, log: OffenceLog) -> None:
    previous = -1
    if len(spines) > limits.UPLINKS.high:
        log.add(("racks", rack, "uplinks"), f"may be at most {limits.UPLINKS.high:,}", len(spines))
    for index, spine in enumerate(spines):
        if not limits.SPINE.holds(spine):
            log.add(("racks", rack, "uplinks", index), f"a spine {limits.SPINE.message}", spine)
        elif spine <= previous:
            log.add(("racks", rack, "uplinks", index), "spines must ascend, each named once", spine)
        else:
            previous = spine


def _check_pods(snapshot: Snapshot, pods_known: bool, log: OffenceLog) -> None:
    _check_ids((pod.id for pod in snapshot.pods), "pod", ("pods",), log)
    for index, pod in enumerate(snapshot.pods):
        log.check(limits.POD_UPLINKS, pod.uplinks, "pods", index, "uplinks")
    if pods_known:
        _check_rack_pods(snapshot.racks, snapshot.pods, log)


def _check_rack_pods(racks: Sequence[Rack], pods: Sequence[Pod], log: OffenceLog) -> None:
    names = {pod.id for pod in pods}
    for index, rack in enumerate(racks):
        if rack.pod is None and names:
            log.add(("racks", index, "pod"), "is missing: where pods are listed each rack names its own")
        elif rack.pod is not None and rack.pod not in names:
            known = f"name one of the {len(names)} in pods" if names else "list it in pods"
            log.add(("racks", index, "pod"), f"is no known pod; {known}", rack.pod)


def _check_jobs(jobs: Sequence[Job], slots_left: dict[str, int], nodes_known: bool, log: OffenceLog) -> None:
    """Check jobs and groups; takes the slots of their workers from ``slots_left``."""
    _check_ids((job.id for job in jobs), "job", ("jobs",), log)
    workers = hops = 0
    for j, job in enumerate(jobs):
        log.choice(job.mobility, get_args(Mobility), "jobs", j, "mobility")
        for name in job.classes or ():
            if name and not is_name(name):
                log.add(("jobs", j, "classes"), f"a class {NAME_MESSAGE}", name)
        if job.labels:
            _check_labels(job.labels, ("jobs", j), log)
        if job.remaining_s is not None:
            log.check(limits.REMAINING_S, job.remaining_s, "jobs", j, "remaining_s")
        at = ("jobs", j, "replica_groups")
        if len(job.replica_groups) > 1 or (job.replica_groups and not is_name(job.replica_groups[0].id)):
            _check_ids((group.id for group in job.replica_groups), "group", at, log)
        for g, group in enumerate(job.replica_groups):
            _check_group(group, (*at, g), log)
            _place_workers(group, (*at, g), slots_left, nodes_known, log)
            workers += len(group.workers)
            hops += len(group.workers) * group.rings
    _check_size("jobs", workers, limits.MAX_WORKERS, log, "workers")
    _check_size("jobs", hops, limits.MAX_HOPS, log, "workers x rings")


def _check_pending(snapshot: Snapshot, log: OffenceLog) -> None:
    _check_size("pending", len(snapshot.pending), limits.MAX_PENDING, log, "jobs")
    _check_ids((job.id for job in snapshot.pending), "pending job", ("pending",), log)
    running = {job.id for job in snapshot.jobs} if snapshot.pending else set()
    for j, job in enumerate(snapshot.pending):
        at = ("pending", j)
        if job.id in running:
            log.add((*at, "id"), "is the id of a job in jobs: a job is there or pending", job.id)
        log.check(limits.PENDING_WORKERS, job.workers, *at, "workers")
        log.check(limits.SLOTS_PER_WORKER, job.slots_per_worker, *at, "slots_per_worker")
        log.check(limits.RINGS, job.rings, *at, "rings")
        for name in job.classes or ():
            if name and not is_name(name):
                log.add((*at, "classes"), f"a class {NAME_MESSAGE}", name)
        if job.submitted_at is not None and not is_utc_time(job.submitted_at):
            log.add((*at, "submitted_at"), TIME_MESSAGE, job.submitted_at)
        _check_labels(job.labels, at, log)


def _check_group(group: ReplicaGroup, at: Path, log: OffenceLog) -> None:
    log.check(limits.RINGS, group.rings, *at, "rings")
    log.check(limits.SLOTS_PER_WORKER, group.slots_per_worker, *at, "slots_per_worker")
    log.check(limits.STATE_GB, group.state_gb, *at, "state_gb")
    log.choice(group.kind, get_args(GroupKind), *at, "kind")
    if group.traffic_gb is not None:
        log.check(limits.TRAFFIC_GB, group.traffic_gb, *at, "traffic_gb")
    if group.iteration_s is not None:
        log.check(limits.ITERATION_S, group.iteration_s, *at, "iteration_s")
    if not group.workers:
        log.add((*at, "workers"), "must list at least one worker", [])
    if group.order is not None:
        flaw = flaw_of_order(group.order, len(group.workers))
        if flaw:
            log.add((*at, "order"), flaw, list(group.order))
    for rank in group.pinned:
        if not 0 <= rank < len(group.workers):
            log.add((*at, "pinned"), rank_message(len(group.workers)), rank)


def rank_message(size: int) -> str:
    """What a rank of a group of ``size`` workers must be."""
    return f"is no rank of this group; ranks go from 0 to {size - 1}"


def flaw_of_order(order: Sequence[int], size: int) -> str | None:
    """Why ``order`` is no permutation of 0..size-1, or None where it is one."""
    if len(order) == size and set(order) == set(range(size)):
        return None
    rule = f"must list each rank from 0 to {size - 1} once"
    seen: set[int] = set()
    for rank in order:
        if not 0 <= rank < size:
            return f"{rule}: {show(rank)} is no rank"
        if rank in seen:
            return f"{rule}: {rank} stands twice"
        seen.add(rank)
    return f"{rule}: {min(set(range(size)) - seen)} is missing"


def _place_workers(
    group: ReplicaGroup, at: Path, slots_left: dict[str, int], nodes_known: bool, log: OffenceLog
) -> None:
    size = group.slots_per_worker
    for rank, node in enumerate(group.workers):
        if node in slots_left:
            slots_left[node] -= size
        elif nodes_known:
            log.add((*at, "workers", rank), "is no node of any rack", node)


def _check_occupancy(racks: Sequence[Rack], slots_left: dict[str, int], log: OffenceLog) -> None:
    if not slots_left or min(slots_left.values()) >= 0:
        return
    for index, rack in enumerate(racks):
        for node in rack.nodes:
            left = slots_left.pop(node.id, 0)
            if left < 0 and 0 <= node.held <= node.slots:
                held = f", {node.held} of them held" if node.held else ""
                message = f"workers occupy {node.usable - left} slots of a node with {node.slots}{held}"
                log.add(("racks", index, "nodes", node.id, "slots"), message, node.slots)
