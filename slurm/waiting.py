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
from .steps import display_id, first_task
from .workers import layout_for

WAITS_FOR_NODES = (
    "Priority", "Resources", "ReqNodeNotAvail", "Nodes_required_for_job", "Nodes required for job",
    "NodeDown", "FrontEndDown", "SchedDefer",
)  # fmt: skip
"""What the reason of a job begins with that could start now if it had nodes.

Others wait for more: a dependency, a time, a limit of their user's, a licence, a release.
"""
_YEAR_10000 = 253_402_300_800


def pending_jobs(
    jobs: Sequence[SlurmJob],
    site: Site,
    names: Mapping[ClassKey, str],
    *,
    gpus: bool,
    features: frozenset[str],
    environments: Mapping[int, Mapping[str, str]],
    warn: Callable[[str], None],
) -> tuple[tuple[Pending, ...], dict[str, str]]:
    """The jobs that could start now, by priority as Slurm will take them, and why others are not there.

    Args:
        names: name of each node class.
        gpus: whether a slot is a GPU.
        features: those of every node.
    """
    wanted: list[Pending] = []
    left_out: dict[str, str] = {}
    waiting = [job for job in jobs if job.pending]
    for job in sorted(waiting, key=lambda job: (-job.priority, job.submitted_at, job.job_id)):
        size = _size(job, site.nodes.gres) if gpus else 1
        fitting = _fitting(job, site, names, features)
        why = _reason_against(job, size, site, fitting)
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
                classes=_classes(job, site, fitting, few=len(fitting) < len(names)),
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


def _reason_against(job: SlurmJob, size: int, site: Site, names: Mapping[ClassKey, str]) -> str | None:
    gres = site.nodes.gres
    said = "" if job.reason in ("None", "NoReason") else job.reason
    if job.priority == 0 or (said and not said.startswith(WAITS_FOR_NODES)):
        return f"cannot start yet ({said or 'priority 0'})"
    if job.reservation:
        return f"waits for nodes of the reservation {job.reservation}"
    if job.het is not None:
        return "is a component of a heterogeneous job"
    if job.required or job.excluded:
        return "names or excludes nodes itself"
    if not names:
        asked = " ".join(text for text in (job.features, job.tres_per_node) if text)
        return f"asks for {asked}, which no class of nodes is known to have"
    if _nowhere(job, site, names):
        return f"asks for the partition {job.partition}, which has no node of the snapshot"
    if job.node_count < 1 or size < 1:
        return f"asks for no {gres}"
    if not (limits.PENDING_WORKERS.holds(job.node_count) and limits.SLOTS_PER_WORKER.holds(size)):
        return f"asks for more than can be: {job.node_count} nodes with {size} slots each"
    return None


def _fitting(
    job: SlurmJob, site: Site, names: Mapping[ClassKey, str], common: frozenset[str]
) -> Mapping[ClassKey, str]:
    """The classes whose nodes surely have the features and GPU types that the job asks for."""
    told: list[tuple[str, set[str]]] = []
    features = set(job.features.split("&")) if job.features else set()
    if not features <= common:
        told.append(("features", features))
    types = set(values.gres_types(job.tres_per_node, site.nodes.gres))
    if types and "gres" in site.nodes.classes:
        told.append(("gres", types))
    for what, wanted in told:
        if what not in site.nodes.classes:
            return {}
        at = site.nodes.classes.index(what)
        names = {key: name for key, name in names.items() if wanted <= set(key[at])}
    return names


def _nowhere(job: SlurmJob, site: Site, names: Mapping[ClassKey, str]) -> bool:
    """Whether no node of the snapshot is in a partition of the job, as far as classes tell partitions."""
    if "partitions" not in site.nodes.classes or not job.partition:
        return False
    at = site.nodes.classes.index("partitions")
    return not set(job.partition.split(",")) & {part for key in names for part in key[at]}


def _classes(
    job: SlurmJob, site: Site, fitting: Mapping[ClassKey, str], *, few: bool
) -> frozenset[str] | None:
    """Classes that it may start on; None for any. ``few``: ``fitting`` are not all that there are."""
    if few and len(fitting) < 2:
        return frozenset(fitting.values())
    return classes_for([part for part in job.partition.split(",") if part], (), site.nodes, fitting)


def _time(seconds: int) -> str | None:
    if not 0 < seconds < _YEAR_10000:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _labels(job: SlurmJob) -> dict[str, str]:
    labels = {"slurm_job_id": str(job.job_id), "name": job.name, "user": job.user, "partition": job.partition}
    if job.array is not None:
        labels["slurm_id"] = display_id(job)
        labels["slurm_task"] = first_task(job)
    return {key: value[:MAX_LABEL] for key, value in labels.items() if value}
