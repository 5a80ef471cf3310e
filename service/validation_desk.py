"""Validations behind the handlers: queue a replay, say whether there can be one."""

from __future__ import annotations

from dataclasses import dataclass

from monkeytree.adapters.errors import PlanNotReady
from monkeytree.adapters.replay_options import ReplayOptions
from monkeytree.adapters.simulator import why_not
from monkeytree.adapters.validating import UNAVAILABLE, ValidationRow

from .desk import MISSED_BEATS, Allow, Desk
from .problems import RequestRefused

#: A replay that found no simulator keeps others from being queued for this long; then one may try.
TRUST_S = 60.0


class ValidationUnavailable(RequestRefused):
    """Packet-level replays cannot be run for now; the message names the cure."""

    code = UNAVAILABLE


@dataclass(frozen=True, slots=True)
class Asked:
    """A validation, and whether it is new."""

    row: ValidationRow
    created: bool


def ask(
    desk: Desk,
    *,
    plan_id: str | None,
    snapshot_id: str | None,
    options: ReplayOptions,
    allow: Allow,
    request_id: str,
) -> Asked:
    """Queue a replay of a ready plan, or of a stored snapshot as it stands, unless the same is there.

    Raises:
        UnknownPlan, UnknownSnapshot: there is none of that id.
        PlanNotReady: the plan has no flows yet, or never will.
        ValidationUnavailable: no worker could run it; nothing is queued.
    """
    if plan_id is not None:
        plan = desk.store.plan(plan_id)
        allow(plan.cluster)
        if plan.state != "ready":
            raise PlanNotReady(plan_id, plan.state)
        snapshot_id = plan.snapshot_id
    snapshot = desk.store.snapshot(snapshot_id or "")
    allow(snapshot.cluster)
    missing = unavailable(desk)
    if missing is not None:
        raise ValidationUnavailable(missing)
    row, created = desk.store.validations.ask(snapshot, plan_id, options, request_id)
    if created:
        desk.validate_queue.publish(row)
    return Asked(row, created)


def unavailable(desk: Desk) -> str | None:
    """Why no replay could run now, with the cure; None when one should.

    Validators say at each beat what they lack. Where none beats, one on this machine may be starting:
    it would have what we have.
    """
    notes = desk.store.notes("validator", MISSED_BEATS * desk.settings.heartbeat_s)
    if not notes:
        missing = why_not(desk.settings.validation_python)
        return missing and f"{missing}; and have a worker consume the queue `validate`"
    if all(note is not None for note in notes):
        return notes[0]
    return desk.store.validations.unavailable(TRUST_S)
