"""The public door: documents or model objects in, faults out."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

from monkeytree.errors import MonkeyTreeError

from .fault import Fault
from .verdict import judge

_UNWRITABLE = (AttributeError, KeyError, TypeError, ValueError, MonkeyTreeError)
"""What writing a model object as a document raises where the object was built with the wrong types."""


def check(snapshot: Any, plan: Any) -> list[Fault]:
    """Check ``plan`` against ``snapshot``, each a model object or its document (format 1).

    The model (``monkeytree.snapshot.Snapshot``, ``monkeytree.plan.Plan``) is not imported here, not
    even for its types: a model object is written as its document first, and that is checked.

    Validity and all arithmetic are verified; that no plan has fewer moves only where ``certificate``
    proves it.

    Returns:
        All faults found; [] when the plan holds. Nothing is raised for a malformed document.
    """
    try:
        plan_document = _plan_document(plan)
    except _UNWRITABLE as error:
        return [Fault("malformed", "", f"the plan cannot be written as a document ({error})")]
    try:
        snapshot_document = _snapshot_document(snapshot)
    except _UNWRITABLE as error:
        message = f"the snapshot cannot be written as a document ({error})"
        return [Fault("snapshot_unreadable", "", message)]
    return judge(snapshot_document, plan_document) + _identity_faults(snapshot, plan_document)


def _is_model(value: Any) -> bool:
    return is_dataclass(value)


def _plan_document(plan: Any) -> Any:
    if not _is_model(plan):
        return plan
    from monkeytree.wire.plan import dump_plan

    return dump_plan(plan)


def _snapshot_document(snapshot: Any) -> Any:
    if not _is_model(snapshot):
        return snapshot
    from monkeytree.wire.snapshot import dump_snapshot

    return dump_snapshot(snapshot)


def _identity_faults(snapshot: Any, plan: Any) -> list[Fault]:
    """The plan is of this snapshot, where it says of which and the snapshot's id can be had."""
    said = plan.get("snapshot_id") if isinstance(plan, dict) else None
    if not isinstance(said, str) or plan.get("state") != "ready":
        return []
    try:
        from monkeytree.wire.snapshot import snapshot_id

        right = snapshot_id(snapshot)
    except _UNWRITABLE:  # of a form that has no id: then nothing is claimed about it
        return []
    if said == right:
        return []
    return [Fault("wrong_snapshot", "/snapshot_id", f"the snapshot's id is {right!r}, not {said!r}")]
