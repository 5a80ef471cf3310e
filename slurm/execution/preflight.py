"""What Slurm would refuse, by name, before anything is changed; and how each job moves."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..steps import Steps, display_id
from ..workers import holds_gres
from .launch import worker_command
from .names import reservation_prefix
from .order import JobProfile, NoFreeSlot, Step, order_of
from .ranks import kept_by_order
from .refusals import Refusal
from .truth import Reservation, Truth, seconds_until
from .work import JobWork, Work, WorkerMove

Wanted = Literal["live", "requeue", "auto"]
MARGIN_S = 900.0
"""Seconds that a plan may take until a job is on its new nodes."""
_FEATURE = re.compile(r"[^\s&|()\[\]*,]+")


@dataclass(frozen=True)
class Facts:
    """What was asked of Slurm before the start.

    Attributes:
        config: ``scontrol show config``.
        worker: how a worker is started where its job does not say: by the option, by the site file.
        state: whether something moves the state and may start workers itself.
    """

    truth: Truth
    steps: Steps
    config: Mapping[str, str]
    reservations: Mapping[str, Reservation]
    worker: tuple[str | None, str | None] = (None, None)
    state: bool = False


@dataclass
class Decision:
    """How the plan would be carried out, and all that is against it.

    Attributes:
        done: moves that are where they should be already.
    """

    profiles: dict[int, JobProfile] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    refusals: list[Refusal] = field(default_factory=list)
    done: frozenset[int] = frozenset()


def decide(work: Work, facts: Facts, wanted: Wanted) -> Decision:
    """The decision; with refusals nothing may be done."""
    found = Decision()
    found.refusals += [Refusal("not_slurm", f"job {job}") for job in work.wrong]
    convertible = []
    for job in work.jobs.values():
        live, requeue = against_live(job, work, facts), against_requeue(job, facts)
        common = against_both(job, facts)
        if common:
            now = facts.truth.jobs.get(job.job_id)
            if now is not None and frozenset(now.nodes) == job.after(job.all):
                found.done |= job.all
                found.profiles[job.job_id] = "requeue"
                continue
            found.refusals += common
            continue
        found.refusals += against_wishes(job, facts)
        chosen, reasons = _choose(wanted, live, requeue)
        found.profiles[job.job_id] = chosen
        found.refusals += reasons
        if wanted == "auto" and chosen == "live" and not requeue:
            convertible.append(job.job_id)
    found.refusals += against_destinations(work, facts, found)
    if not found.refusals:
        _put_in_order(work, found, convertible)
    return found


def _choose(wanted: Wanted, live: list[Refusal], requeue: list[Refusal]) -> tuple[JobProfile, list[Refusal]]:
    if wanted == "live" or (wanted == "auto" and not live):
        return "live", live
    if wanted == "requeue" or not requeue:
        return "requeue", requeue
    return "live", [*live, *requeue]


def _put_in_order(work: Work, found: Decision, convertible: Sequence[int]) -> None:
    """Fill in the steps. Jobs that are done are left out; their moves have been made."""
    left = {number: job for number, job in work.jobs.items() if not job.all <= found.done}
    free = dict(work.free)
    for move in work.moves:
        if move.index in found.done:
            free[move.target] -= move.slots
            free[move.source] += move.slots
    try:
        found.steps = order_of(
            Work(work.plan_id, work.tag, work.cluster, left, free), found.profiles, convertible
        )
    except NoFreeSlot as error:
        found.refusals.append(Refusal("no_free_slot", str(error)))


def against_both(job: JobWork, facts: Facts) -> list[Refusal]:
    """Why the job cannot be moved at all."""
    what = f"job {job.job_id}"
    now = facts.truth.jobs.get(job.job_id)
    if now is None:
        return [Refusal("job_gone", what)]
    if now.het is not None:
        return [Refusal("het_job", what)]
    if not now.running:
        return [Refusal("placement_changed", f"{what} is {now.words}")]
    if frozenset(now.nodes) != frozenset(job.nodes):
        return [Refusal("placement_changed", f"{what} is on {','.join(now.nodes)}")]
    return []


def against_wishes(job: JobWork, facts: Facts) -> list[Refusal]:
    """Destinations that the job's user does not want; a requeued job would wait for them for ever."""
    now = facts.truth.jobs.get(job.job_id)
    if now is None:
        return []
    words = set(_FEATURE.findall(now.features))
    nodes = facts.truth.nodes
    found = []
    for move in job.moves:
        source, target = nodes.get(move.source), nodes.get(move.target)
        lacks = words & set(source.features) - set(target.features) if source and target else set()
        if move.target in now.excluded:
            found.append(Refusal("node_unwanted", f"{move}: {move.target} is excluded"))
        elif lacks:
            found.append(Refusal("node_unwanted", f"{move}: {move.target} has no {min(lacks)}"))
    return found


def against_live(job: JobWork, work: Work, facts: Facts) -> list[Refusal]:
    """Why Slurm would not expand and shrink the job."""
    now = facts.truth.jobs.get(job.job_id)
    if now is None:
        return []
    what = f"job {job.job_id}"
    found = []
    if "slurmdbd" not in facts.config.get("AccountingStorageType", ""):
        found.append(Refusal("no_slurmdbd", what))
    if "permit_job_expansion" not in facts.config.get("SchedulerParameters", "").split(","):
        found.append(Refusal("no_job_expansion", what))
    if holds_gres(now):
        found.append(Refusal("gres_in_live", what))
    elif job.job_id not in facts.truth.whole:
        found.append(Refusal("shared_nodes", what))
    sources = {move.source for move in job.moves}
    host = now.batch_host or (now.nodes[0] if now.nodes else "")
    if host in sources:
        found.append(Refusal("batch_host", f"{what}, {host}"))
    place = {node: at for at, node in enumerate(facts.truth.nodes)}
    before = [move.target for move in job.moves if place.get(move.target, 0) < place.get(host, 0)]
    if before:
        found.append(Refusal("before_batch_host", f"{what}, {before[0]} before {host}"))
    steps = facts.steps.get(display_id(now), ()) or facts.steps.get(str(now.job_id), ())
    wide = sorted({node for nodes in steps if len(nodes) > 1 for node in nodes if node in sources})
    if wide:
        found.append(Refusal("steps_span_nodes", f"{what}, {','.join(wide)}"))
    if not facts.state and worker_command(now, *facts.worker) is None:
        found.append(Refusal("no_worker_command", what))
    return found


def against_requeue(job: JobWork, facts: Facts) -> list[Refusal]:
    """Why the job cannot be requeued onto its new nodes."""
    now = facts.truth.jobs.get(job.job_id)
    if now is None:
        return []
    what = f"job {job.job_id}"
    found = []
    if not (now.requeue and now.batch):
        found.append(Refusal("not_requeueable", what))
    if now.reservation:
        found.append(Refusal("job_reserved", f"{what}, {now.reservation}"))
    if not kept_by_order(job, now, list(facts.truth.nodes)):
        found.append(Refusal("ranks_not_kept", what))
    return found


def against_destinations(work: Work, facts: Facts, decided: Decision) -> list[Refusal]:
    """Destinations where nothing could start."""
    ours = reservation_prefix(work.tag)
    found = []
    for move in work.moves:
        if move.index in decided.done:
            continue
        unfit = facts.truth.unfit(move.target)
        if unfit:
            found.append(Refusal("node_down", f"{move}: {move.target} {unfit}"))
        node = facts.truth.nodes.get(move.target)
        there = facts.truth.others_on(move.target, move.job_id)
        if node is not None and node.full and there and all(job.job_id not in work.jobs for job in there):
            found.append(Refusal("destination_busy", f"{move}: job {there[0].job_id} is there"))
        found += [
            Refusal("destination_reserved", f"{move}: {one.name}")
            for one in facts.reservations.values()
            if move.target in one.nodes
            and not one.name.startswith(ours)
            and _in_the_way(one, move, facts, decided.profiles.get(move.job_id, "requeue"))
        ]
    return found


def _in_the_way(one: Reservation, move: WorkerMove, facts: Facts, profile: JobProfile) -> bool:
    """Whether somebody else's reservation begins before the job must have ended by its time limit.

    A job that moves live is no worse off where it is in that reservation already.
    """
    away = seconds_until(one.starts)
    job = facts.truth.jobs.get(move.job_id)
    if away <= 0 or job is None:
        return True
    if profile == "live":
        left = job.ends_at - time.time() if job.ends_at else math.inf
        return move.source not in one.nodes and away < left + MARGIN_S
    return away < (60 * job.time_limit or math.inf) + MARGIN_S
