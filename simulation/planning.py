"""The library's planner, called as the service calls it: a snapshot in, a plan out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import monkeytree
from monkeytree.plan import Plan
from monkeytree.ring import departures
from monkeytree.snapshot import Fabric as FabricSpec
from monkeytree.snapshot import Job, Node, Planning, Pod, Rack, ReplicaGroup, Snapshot

from .fabrics import Fabric
from .program import groups_of, ideal_iteration_us, iteration_bytes
from .running import Running
from .setup import Setup


@dataclass(frozen=True, slots=True)
class Change:
    """Where a job is to be after a plan; ``moves`` are (block rank, block now, block then)."""

    job: Running
    blocks: list[int]
    orders: tuple[tuple[int, ...], ...]
    moves: tuple[tuple[int, int, int], ...]


class Planner:
    """Sees fragmentation over the bound, and has it planned away.

    Args:
        with_pods: bound the pods' uplinks to the cores too.
    """

    def __init__(self, setup: Setup, fabric: Fabric, *, with_pods: bool = False) -> None:
        self.setup = setup
        self.fabric = fabric
        self._fabric_spec = FabricSpec(nic_gbps=setup.nic_gbps, uplink_gbps=setup.uplink_gbps)
        self._per_uplink = self._fabric_spec.flows_per_uplink
        limit = setup.threshold
        if limit is not None:  # no rack sends more flows than it has GPUs
            limit = min(limit // self._per_uplink, setup.gpus_per_rack)
        self._spines = [spines if limit is None else _first(spines, limit) for spines in fabric.spines]
        per_rack = fabric.blocks_per_rack
        pods = fabric.pods if with_pods else ()
        self._racks = tuple(
            Rack(
                f"r{rack}",
                self._spines[rack],
                tuple(Node(f"b{block}", 1) for block in range(rack * per_rack, (rack + 1) * per_rack)),
                f"p{pods[rack]}" if pods else None,
            )
            for rack in range(fabric.racks)
        )
        self._pod_of = pods
        self._pods = tuple(Pod(f"p{pod}", fabric.pod_uplinks) for pod in sorted(set(pods)))
        self._sequence = 0

    def over_bound(self, jobs: Iterable[Running]) -> bool:
        """Whether some f_t is above its bound."""
        per_rack = self.fabric.blocks_per_rack
        racks: Counter[int] = Counter()
        pods: Counter[int] = Counter()
        for job in jobs:
            if not job.wiring.demands or job.kind is None:
                continue
            places = [block // per_rack for block in job.blocks]
            for order in job.orders:
                for rack, times in departures(order, places).items():
                    racks[rack] += times * job.kind.rings
                if self._pod_of:
                    for pod, times in departures(order, [self._pod_of[rack] for rack in places]).items():
                        pods[pod] += times * job.kind.rings
        each = self._per_uplink
        return any(load > each * len(self._spines[rack]) for rack, load in racks.items()) or any(
            load > each * self.fabric.pod_uplinks for load in pods.values()
        )

    def plan(self, jobs: Sequence[Running], now: int) -> tuple[Snapshot, Plan, float]:
        """The snapshot of now, its plan, and the milliseconds until it was found (its certificate aside)."""
        snapshot = self.snapshot(jobs, now)
        plan = monkeytree.make_plan(snapshot, plan_id=f"plan-{self._sequence}", repeatable=True)
        return snapshot, plan, 1000 * plan.solver.seconds

    def snapshot(self, jobs: Sequence[Running], now: int) -> Snapshot:
        """The placement of ``jobs``; a worker is a server of 8 GPUs."""
        self._sequence += 1
        return Snapshot(
            cluster="simulated",
            taken_at=f"{2000 + self._sequence // 10**6:04}-01-01T00:00:00Z",
            sequence=self._sequence,
            racks=self._racks,
            pods=self._pods,
            jobs=tuple(self._job(job, now) for job in jobs),
            fabric=self._fabric_spec,
            planning=Planning(
                time_limit_s=self.setup.time_limit_s, pause_overhead_s=self.setup.migration.pause_s
            ),
        )

    def _job(self, job: Running, now: int) -> Job:
        kind = job.kind
        assert kind is not None
        iteration_us = ideal_iteration_us(kind, job.gpus, self.setup.nic_gbps)
        groups = []
        for number, (group, order) in enumerate(
            zip(groups_of(kind, len(job.blocks)), job.orders, strict=True)
        ):
            groups.append(
                ReplicaGroup(
                    id=str(number),
                    workers=tuple(f"b{job.blocks[rank]}" for rank in group),
                    rings=kind.rings,
                    # Per GPU, as each sends over its own NIC: so the planner's seconds on the wire are right.
                    state_gb=self.state_bytes(job, group[0]) / 1e9,
                    order=tuple(rank - group[0] for rank in order),
                    kind="all_to_all" if kind.kind == "experts" else "ring",
                    traffic_gb=iteration_bytes(kind, job.gpus, group[0]) / 1e9,
                    iteration_s=iteration_us / 1e6,
                )
            )
        left_us = (job.iterations - job.iterations_done(now)) * iteration_us
        return Job(id=f"j{job.number}", replica_groups=tuple(groups), remaining_s=left_us / 1e6)

    def state_bytes(self, job: Running, rank: int) -> int:
        """Bytes that each GPU of a moved server sends."""
        assert job.kind is not None
        if self.setup.migration.state_gb is not None:
            return int(self.setup.migration.state_gb * 1e9) // self.setup.compress
        return iteration_bytes(job.kind, job.gpus, rank) // self.setup.compress


def changes_of(plan: Plan, jobs: Sequence[Running]) -> list[Change]:
    """What the plan changes, job by job in the order of ``jobs``."""
    targets: dict[str, dict[tuple[int, int], int]] = {}
    for move in plan.moves:
        targets.setdefault(move.job, {})[int(move.group), move.rank] = int(move.target[1:])
    reordered: dict[str, dict[int, tuple[int, ...]]] = {}
    for ring in plan.rings:
        if ring.changed:
            reordered.setdefault(ring.job, {})[int(ring.group)] = ring.order
    changes = []
    for job in jobs:
        name = f"j{job.number}"
        if name not in targets and name not in reordered:
            continue
        assert job.kind is not None
        groups = groups_of(job.kind, len(job.blocks))
        blocks, orders, moves = list(job.blocks), list(job.orders), []
        for (group, rank), target in sorted(targets.get(name, {}).items()):
            at = groups[group][rank]
            moves.append((at, blocks[at], target))
            blocks[at] = target
        for group, order in reordered.get(name, {}).items():
            orders[group] = tuple(groups[group][rank] for rank in order)
        changes.append(Change(job, blocks, tuple(orders), tuple(moves)))
    return changes


def _first(spines: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Spines that stand for a bound of ``count``; more than there are where the bound is looser."""
    return spines[:count] if count <= len(spines) else (*spines, *range(10_000, 10_000 + count - len(spines)))
