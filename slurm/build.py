"""One placement snapshot from what Slurm tells: a pure function of a :class:`Reading` and the site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from monkeytree import limits
from monkeytree.snapshot import Job, Node, Pending, Pod, Rack, Snapshot

from .capacity import Use, as_node, class_keys, class_names, classes_for, counts_gpus
from .errors import InvalidSite, offence, refuse_topology
from .jobs import SlurmJob
from .nodes import SlurmNode
from .site import Site, Uplinks
from .steps import Steps
from .topology import Grouping, Topology, group
from .waiting import pending_jobs
from .workers import Tenant, as_job, gres_per_node, tenants


@dataclass(frozen=True)
class Reading:
    """What was read, at one instant.

    Attributes:
        cluster: Slurm's name of it, where known.
        steps: None where they were not asked for.
        environments: of the jobs' submission, by job id, as far as they were asked for.
    """

    jobs: tuple[SlurmJob, ...]
    nodes: tuple[SlurmNode, ...]
    topology: Topology
    cluster: str | None = None
    steps: Steps | None = None
    environments: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    taken_at: str = field(default_factory=lambda: now())


@dataclass(frozen=True)
class Build:
    """A snapshot, what was odd on the way, and the running (and waiting) jobs not in it, with the reason."""

    snapshot: Snapshot
    warnings: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    not_pending: Mapping[str, str] = field(default_factory=dict)


def now() -> str:
    """This instant, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def build_snapshot(reading: Reading, site: Site, *, sequence: int | None = None) -> Build:
    """The snapshot.

    Raises:
        InvalidTopology: racks cannot be told, or a node is in none.
        InvalidSite: the cluster has no name, or the site file names a rack that is not there.
        InvalidSnapshot: what results is no snapshot (a name too long, more nodes than fit).
    """
    return _Builder(reading, site).build(sequence)


class _Builder:
    """The steps of :func:`build_snapshot`, with what they share."""

    def __init__(self, reading: Reading, site: Site) -> None:
        self.reading = reading
        self.site = site
        self.warnings: list[str] = []
        self.left_out: dict[str, str] = {}
        self.not_pending: dict[str, str] = {}
        ignored = set(site.nodes.ignore)
        self.nodes = {node.name: node for node in reading.nodes if node.name not in ignored}
        self.grouping = self._group()
        self.gpus = counts_gpus(self.nodes.values(), site.nodes)
        self.keys = class_keys(self.nodes.values(), site.nodes)
        self.names = class_names(self.keys)

    def build(self, sequence: int | None) -> Build:
        workers: Counter[str] = Counter()
        others: Counter[str] = Counter()
        jobs: list[Job] = []
        for tenant in tenants([job for job in self.reading.jobs if job.running or job.holding]):
            sizes = self._sizes(tenant)
            why = self._reason_against(tenant, sizes)
            if why is not None:
                self.left_out[tenant.id] = why
                others.update(self._here(tenant.nodes, sizes))
                continue
            job = self._job(tenant, sizes)
            least = job.replica_groups[0].slots_per_worker
            workers.update(tenant.nodes if least == 1 else dict.fromkeys(tenant.nodes, least))
            others.update(
                {node: size - least for node, size in zip(tenant.nodes, sizes, strict=True) if size > least}
            )
            jobs.append(job)
        snapshot = Snapshot(
            cluster=self._cluster(),
            taken_at=self.reading.taken_at,
            sequence=sequence,
            fabric=self.site.fabric,
            racks=self._racks(workers, others),
            pods=self._pods(),
            jobs=tuple(self._pin_shared(job, workers) for job in jobs),
            planning=self.site.planning,
            labels=dict(self.site.labels),
            pending=self._pending(),
        )
        return Build(snapshot, tuple(self.warnings), self.left_out, self.not_pending)

    def _pending(self) -> tuple[Pending, ...]:
        if not self.site.pending:
            return ()
        found, self.not_pending = pending_jobs(
            self.reading.jobs,
            self.site,
            self.names,
            gpus=self.gpus,
            features=frozenset.intersection(*(frozenset(node.features) for node in self.nodes.values())),
            environments=self.reading.environments,
            warn=self.warnings.append,
        )
        return found

    def _group(self) -> Grouping:
        site = self.site.topology
        grouping = group(self.reading.topology, site.levels, qualify=site.qualify, nodes=self.nodes)
        if grouping.outside:
            if site.unknown == "error":
                raise refuse_topology(
                    grouping.outside[0],
                    f"is a node of Slurm that {self.reading.topology.source} does not know (so are "
                    f"{len(grouping.outside) - 1} others); add it, or set topology.unknown: ignore",
                )
            self.warnings.append(f"left out as unknown to the topology: {', '.join(grouping.outside[:5])}")
            self.nodes = {
                name: node for name, node in self.nodes.items() if name not in set(grouping.outside)
            }
        if not self.nodes:
            raise refuse_topology(self.reading.topology.source, "knows none of Slurm's nodes")
        return grouping

    def _cluster(self) -> str:
        name = self.site.cluster or self.reading.cluster
        if not name:
            raise InvalidSite([offence("/cluster", "is missing, and Slurm's answers do not tell it")])
        return name

    def _sizes(self, tenant: Tenant) -> tuple[int, ...]:
        """Slots of each of its workers."""
        if not self.gpus:
            return (1,) * len(tenant.nodes)
        name = self.site.nodes.gres
        return tuple(count for part in tenant.parts for count in gres_per_node(part, name))

    def _reason_against(self, tenant: Tenant, sizes: Sequence[int]) -> str | None:
        """Why a job that holds nodes is no job of the snapshot; None where it is one."""
        waiting = next((part for part in tenant.parts if not part.running), None)
        if waiting is not None:
            return f"is {waiting.words}: its nodes are held"
        if tenant.lead.ours:
            return "carries a plan out: its nodes are held"
        if any(rule.ignore for rule in self.site.jobs.rules if rule.matches(tenant.lead)):
            return "is ignored by a rule of the site: its nodes are held"
        if min(sizes, default=0) == 0:
            return f"holds no {self.site.nodes.gres} on some of its nodes"
        unknown = next((node for node in tenant.nodes if node not in self.nodes), None)
        if unknown is not None:
            return f"runs on {unknown}, which is no node of the snapshot"
        if len(set(tenant.nodes)) < len(tenant.nodes):
            return "has two components on one node"
        return None

    def _here(self, nodes: Sequence[str], sizes: Sequence[int]) -> dict[str, int]:
        found: Counter[str] = Counter()
        for node, size in zip(nodes, sizes, strict=True):
            found[node] += size
        return found

    def _job(self, tenant: Tenant, sizes: Sequence[int]) -> Job:
        name = self.site.nodes.gres
        gpus = [count for part in tenant.parts for count in gres_per_node(part, name)]
        environment = self.reading.environments.get(tenant.lead.job_id, {})
        job = as_job(tenant, sizes, gpus, self.site, self.reading.steps, environment, self.warnings.append)
        here = {self.keys[node] for node in tenant.nodes}
        partitions = {part.partition for part in tenant.parts}
        classes = classes_for(partitions, here, self.site.nodes, self.names)
        return replace(job, classes=classes, remaining_s=self._remaining(tenant))

    def _remaining(self, tenant: Tenant) -> float | None:
        """Seconds until its time limit, where the site takes that for the time it has still to run."""
        if self.site.jobs.remaining == "unknown" or not tenant.lead.ends_at:
            return None
        left = max(0.0, tenant.lead.ends_at - datetime.fromisoformat(self.reading.taken_at).timestamp())
        return left if limits.REMAINING_S.holds(left) else None  # as good as no limit

    def _pin_shared(self, job: Job, workers: Mapping[str, int]) -> Job:
        """Whole-node slots, yet several jobs on a node: such workers stay where they are."""
        if self.gpus:
            return job
        groups = tuple(
            replace(one, pinned=one.pinned | {r for r, node in enumerate(one.workers) if workers[node] > 1})
            for one in job.replica_groups
        )
        return replace(job, replica_groups=groups)

    def _racks(self, workers: Mapping[str, int], others: Mapping[str, int]) -> tuple[Rack, ...]:
        self._check_exceptions()
        site = self.site
        racks = []
        for rack, members in self.grouping.racks.items():
            nodes: list[Node] = [
                as_node(
                    self.nodes[name],
                    Use(workers.get(name, 0), others.get(name, 0)),
                    site.nodes,
                    self.names[self.keys[name]],
                    gpus=self.gpus,
                    warn=self.warnings.append,
                )
                for name in members
            ]
            pod = self.grouping.pod_of.get(rack) if site.pods else None
            racks.append(Rack(rack, _spines(site.racks.of(rack)), tuple(nodes), pod))
        return tuple(racks)

    def _pods(self) -> tuple[Pod, ...]:
        if self.site.pods is None:
            return ()
        if not self.grouping.pod_of:
            raise InvalidSite(
                [offence("/pods", "needs two topology.levels: that of pods, then that of racks")]
            )
        names = dict.fromkeys(self.grouping.pod_of[rack] for rack in self.grouping.racks)
        return tuple(Pod(name, _number(self.site.pods.of(name))) for name in names)

    def _check_exceptions(self) -> None:
        wrong = [
            offence(f"/racks/exceptions/{rack}", "is no rack of this cluster", rack)
            for rack in self.site.racks.exceptions
            if rack not in self.grouping.racks
        ]
        if self.site.pods is not None:
            pods = set(self.grouping.pod_of.values())
            wrong += [
                offence(f"/pods/exceptions/{pod}", "is no pod of this cluster", pod)
                for pod in self.site.pods.exceptions
                if pod not in pods
            ]
        if wrong:
            raise InvalidSite(wrong)


def _spines(uplinks: Uplinks) -> tuple[int, ...]:
    return tuple(range(uplinks)) if isinstance(uplinks, int) else uplinks


def _number(uplinks: Uplinks) -> int:
    return uplinks if isinstance(uplinks, int) else len(uplinks)
