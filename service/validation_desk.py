"""Validations behind the handlers: queue a replay, say whether there can be one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from monkeytree.adapters.errors import PlanNotReady
from monkeytree.adapters.replay_options import ReplayOptions
from monkeytree.adapters.simulator import why_not
from monkeytree.adapters.store import Store
from monkeytree.adapters.validating import UNAVAILABLE, ValidationRow
from monkeytree.errors import Offence
from monkeytree.wire.snapshot import parse_snapshot

from .desk import MISSED_BEATS, Allow, Desk
from .problems import RequestRefused
from .schemas import InvalidRequest

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
        InvalidRequest: the snapshot has not got what the options name.
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
    _check_options(desk, snapshot.id, options)
    missing = unavailable(desk)
    if missing is not None:
        raise ValidationUnavailable(missing)
    row, created = desk.store.validations.ask(snapshot, plan_id, options, request_id)
    if created:
        desk.validate_queue.publish(row)
    return Asked(row, created)


def _check_options(desk: Desk, snapshot_id: str, options: ReplayOptions) -> None:
    """Refuse what the snapshot has not got.

    Raises:
        InvalidRequest: an uplink that is to fail is none of its live ones, or it does not say how switches
            hash.
    """
    if not options.fail_link and options.routing != "hash":
        return
    uplinks, hashed = _known_of(desk.store, snapshot_id)
    offences = [
        Offence(f"/fail_link/{index}", "is no live uplink of the snapshot (RACK:SPINE)", link)
        for index, link in enumerate(options.fail_link)
        if _as_known(link) not in uplinks
    ]
    if options.routing == "hash" and not hashed:
        words = "needs a snapshot with `fabric.hash`, which says how switches hash (docs/steering.md)"
        offences.append(Offence("/routing", words, options.routing))
    if offences:
        raise InvalidRequest(offences)


def _as_known(link: str) -> tuple[str, int]:
    rack, _, spine = link.rpartition(":")
    return rack, int(spine)


@lru_cache(maxsize=8)
def _known_of(store: Store, snapshot_id: str) -> tuple[frozenset[tuple[str, int]], bool]:
    """Its live uplinks, by rack and spine, and whether it says how switches hash."""
    snapshot = parse_snapshot(store.snapshot_body(snapshot_id))
    uplinks = frozenset((rack.id, spine) for rack in snapshot.racks for spine in rack.spines)
    return uplinks, snapshot.fabric.hash is not None


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
