"""Jobs of Slurm as jobs of a snapshot: who is a worker, in which group, and how it may move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from monkeytree.limits import MAX_LABEL
from monkeytree.snapshot import Job, Mobility, ReplicaGroup

from . import values
from .jobs import SlurmJob
from .layouts import LayoutError, layout_of_comment, layout_of_words
from .site import JobSite, Layout, Site
from .steps import Steps, display_id, one_step_a_worker


@dataclass(frozen=True, slots=True)
class Tenant:
    """One job as its user sees it: a job, an array task, or all components of a heterogeneous job."""

    lead: SlurmJob
    parts: tuple[SlurmJob, ...]

    @property
    def id(self) -> str:
        """Its id in snapshots: Slurm's number, of the leader for heterogeneous jobs."""
        return str(self.lead.het[0] if self.lead.het else self.lead.job_id)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Node of each worker, by rank: components in order, each in Slurm's order."""
        return tuple(node for part in self.parts for node in part.nodes)


def tenants(jobs: Sequence[SlurmJob]) -> tuple[Tenant, ...]:
    """Components of heterogeneous jobs put together; by job id."""
    parts: dict[int, list[SlurmJob]] = {}
    for job in jobs:
        parts.setdefault(job.het[0] if job.het else job.job_id, []).append(job)
    whole = []
    for _, group in sorted(parts.items()):
        group.sort(key=lambda job: job.het[1] if job.het else 0)
        whole.append(Tenant(group[0], tuple(group)))
    return tuple(whole)


def gres_per_node(job: SlurmJob, name: str) -> tuple[int, ...]:
    """The generic resources ``name`` that ``job`` holds on each of its nodes."""
    if len(job.gres) == len(job.nodes):
        return tuple(values.gres_count(text, name) for text in job.gres)
    total = values.tres_count(job.tres, name)
    share, rest = divmod(total, max(1, len(job.nodes)))
    return tuple(share + (1 if at < rest else 0) for at in range(len(job.nodes)))


def holds_gres(job: SlurmJob) -> bool:
    """Whether ``job`` holds any generic resource: Slurm then refuses to expand it."""
    return any(job.gres) or "gres/" in job.tres


def layout_for(
    job: SlurmJob, site: JobSite, environment: Mapping[str, str], warn: Callable[[str], None]
) -> Layout:
    """What the job's comment, its environment, the first rule and the site say, in this order."""
    rule = next((rule.layout for rule in site.rules if rule.matches(job)), Layout())
    fallback = rule.over(site.layout)
    try:
        words = {key: environment[name] for key, name in site.environment.items() if environment.get(name)}
        return layout_of_comment(job.comment).over(layout_of_words(words).over(fallback))
    except LayoutError as error:
        warn(f"job {display_id(job)}: {error}; its comment or environment is passed over")
        return fallback


def mobility_of(
    tenant: Tenant, site: JobSite, layout: Layout, steps: Steps | None, *, even: bool
) -> Mobility:
    """How the job may move: what Slurm would refuse is not offered.

    Args:
        even: whether all its workers are of one size.
    """
    if (
        site.profile == "none"
        or layout.mobility == "none"
        or len(tenant.parts) > 1
        or tenant.lead.het
        or not even
    ):
        return "none"
    job = tenant.lead
    restart: Mobility = "restart" if job.requeue and job.batch else "none"
    if site.profile == "requeue" or layout.mobility == "restart" or holds_gres(job):
        return restart
    if site.steps == "check" and (steps is None or not one_step_a_worker(job, steps)):
        return restart
    return "live"


def as_job(
    tenant: Tenant,
    sizes: Sequence[int],
    gpus: Sequence[int],
    site: Site,
    steps: Steps | None,
    environment: Mapping[str, str],
    warn: Callable[[str], None],
) -> Job:
    """The job of a snapshot.

    Args:
        sizes: slots of each worker; where they differ the least is told, and the job does not move.
        gpus: GPUs of each worker, 0 where Slurm does not tell.
    """
    lead = tenant.lead
    layout = layout_for(lead, site.jobs, environment, warn)
    mobility = mobility_of(tenant, site.jobs, layout, steps, even=len(set(sizes)) == 1)
    try:
        groups = replica_groups(tenant.nodes, gpus, layout)
    except LayoutError as error:
        rings = layout.rings if layout.rings is not None else layout.tp or 1
        warn(f"job {display_id(lead)}: {error}; counted as pure data parallel, {rings} rings")
        plain = replace(layout, rings=rings, tp=None, pp=None, dp=None, groups=None, orders=None)
        groups = replica_groups(tenant.nodes, (), plain)
    pinned = _pinned(tenant, site.jobs, mobility)
    return Job(
        id=tenant.id,
        replica_groups=tuple(
            replace(
                group,
                slots_per_worker=min(sizes),
                pinned=frozenset(rank for rank, worker in enumerate(workers) if worker in pinned),
            )
            for group, workers in groups
        ),
        mobility=mobility,
        labels=_labels(tenant),
    )


def _pinned(tenant: Tenant, site: JobSite, mobility: Mobility) -> frozenset[int]:
    """Workers on the batch host: Slurm never takes that node from a job."""
    if site.pin_batch_host == "never" or (site.pin_batch_host == "auto" and mobility != "live"):
        return frozenset()
    host = tenant.lead.batch_host or (tenant.nodes[0] if tenant.nodes else "")
    return frozenset(worker for worker, node in enumerate(tenant.nodes) if node == host)


def _labels(tenant: Tenant) -> dict[str, str]:
    job = tenant.lead
    labels = {"slurm_job_id": str(job.job_id), "name": job.name, "user": job.user, "partition": job.partition}
    if job.array is not None or job.het is not None:
        labels["slurm_id"] = str(job.het[0]) if job.het else display_id(job)
    return {key: value[:MAX_LABEL] for key, value in labels.items() if value}


def replica_groups(
    nodes: Sequence[str], gpus: Sequence[int], layout: Layout
) -> list[tuple[ReplicaGroup, tuple[int, ...]]]:
    """Replica groups, each with its workers (indices of ``nodes``).

    Ranks follow Megatron's order: tensor parallelism varies fastest, then data, then pipeline: stage s is
    the s-th block of nodes.

    Raises:
        LayoutError: the layout does not fit so many nodes and GPUs.
    """
    count = len(nodes)
    if layout.groups is not None:
        members = list(layout.groups)
        if sorted(worker for group in members for worker in group) != list(range(count)):
            raise LayoutError(f"its groups are not of its workers 0 to {count - 1}, each once")
    else:
        members = _stages(count, gpus, layout)
    orders: list[tuple[int, ...] | None] = [None] * len(members)
    if layout.orders is not None:
        orders = [
            tuple(group.index(worker) for worker in order)
            for group, order in zip(members, layout.orders, strict=True)
        ]
    rings = layout.rings if layout.rings is not None else layout.tp or 1
    names = ("state_gb", "traffic_gb", "iteration_s", "kind")
    given = {name: getattr(layout, name) for name in names}
    extra = {key: value for key, value in given.items() if value is not None}
    return [
        (
            ReplicaGroup(
                id=str(at),
                workers=tuple(nodes[worker] for worker in group),
                rings=rings,
                order=order,
                **extra,
            ),
            tuple(group),
        )
        for at, (group, order) in enumerate(zip(members, orders, strict=True))
    ]


def _stages(count: int, gpus: Sequence[int], layout: Layout) -> list[tuple[int, ...]]:
    tp, pp = layout.tp or 1, layout.pp or 1
    if gpus and min(gpus) > 0:
        if any(number % tp for number in gpus):
            raise LayoutError(
                f"tp={tp} does not divide its {min(gpus)} GPUs a node: such a group spans nodes"
            )
        if layout.dp is not None and tp * pp * layout.dp != sum(gpus):
            raise LayoutError(f"tp x pp x dp = {tp * pp * layout.dp}, but it has {sum(gpus)} GPUs")
    if count % pp:
        raise LayoutError(f"pp={pp} does not divide its {count} nodes")
    size = count // pp
    return [tuple(range(stage * size, (stage + 1) * size)) for stage in range(pp)]
