"""Pending jobs of Slurm as the pending jobs of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from monkeytree import limits
from monkeytree.limits import MAX_LABEL
from monkeytree.snapshot import Pending

from . import values
from .capacity import ClassKey, classes_for
from .jobs import SlurmJob
from .site import Site
from .steps import display_id
from .workers import layout_for

NOT_YET = frozenset(
    {"BeginTime", "Dependency", "DependencyNeverSatisfied", "JobHeldAdmin", "JobHeldUser", "Cleaning"}
)
"""Reasons for which a job could not start now, wherever there is room."""
_YEAR_10000 = 253_402_300_800


def pending_jobs(
    jobs: Sequence[SlurmJob],
    site: Site,
    names: Mapping[ClassKey, str],
    *,
    gpus: bool,
    environments: Mapping[int, Mapping[str, str]],
    warn: Callable[[str], None],
) -> tuple[tuple[Pending, ...], dict[str, str]]:
    """The jobs that could start now, by priority as Slurm will take them, and why others are not there.

    Args:
        names: name of each node class.
        gpus: whether a slot is a GPU.
    """
    wanted: list[Pending] = []
    left_out: dict[str, str] = {}
    waiting = [job for job in jobs if job.pending]
    for job in sorted(waiting, key=lambda job: (-job.priority, job.submitted_at, job.job_id)):
        size = _size(job, site.nodes.gres) if gpus else 1
        why = _reason_against(job, size, site.nodes.gres)
        if why is not None:
            left_out[str(job.job_id)] = why
            continue
        layout = layout_for(job, site.jobs, environments.get(job.job_id, {}), warn)
        wanted.append(
            Pending(
                id=str(job.job_id),
                workers=job.node_count,
                slots_per_worker=size,
                rings=layout.rings if layout.rings is not None else layout.tp or 1,
                classes=_classes(job, site, names),
                one_per_node=True,
                submitted_at=_time(job.submitted_at),
                labels=_labels(job),
            )
        )
    return tuple(wanted), left_out


def _size(job: SlurmJob, gres: str) -> int:
    """Slots of each of its workers."""
    asked = values.gres_count(job.tres_per_node, gres) if job.tres_per_node else 0
    return asked or -(-values.tres_count(job.tres, gres) // max(1, job.node_count))


def _reason_against(job: SlurmJob, size: int, gres: str) -> str | None:
    if job.reason in NOT_YET or job.priority == 0:
        return f"cannot start yet ({job.reason or 'priority 0'})"
    if job.het is not None:
        return "is a component of a heterogeneous job"
    if job.required or job.excluded:
        return "names or excludes nodes itself"
    if job.node_count < 1 or size < 1:
        return f"asks for no {gres}"
    if not (limits.PENDING_WORKERS.holds(job.node_count) and limits.SLOTS_PER_WORKER.holds(size)):
        return f"asks for more than can be: {job.node_count} nodes with {size} slots each"
    return None


def _classes(job: SlurmJob, site: Site, names: Mapping[ClassKey, str]) -> frozenset[str] | None:
    partitions = [part for part in job.partition.split(",") if part]
    types = set(values.gres_types(job.tres_per_node, site.nodes.gres))
    if types and "gres" in site.nodes.classes:
        at = site.nodes.classes.index("gres")
        fitting = {key: name for key, name in names.items() if types <= set(key[at])}
        names = fitting if len(names) > 1 else names
        if len(names) == 1:
            return frozenset(names.values())
    return classes_for(partitions, (), site.nodes, names)


def _time(seconds: int) -> str | None:
    if not 0 < seconds < _YEAR_10000:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _labels(job: SlurmJob) -> dict[str, str]:
    labels = {"slurm_job_id": str(job.job_id), "name": job.name, "user": job.user, "partition": job.partition}
    if job.array is not None:
        labels["slurm_id"] = display_id(job)
    return {key: value[:MAX_LABEL] for key, value in labels.items() if value}
