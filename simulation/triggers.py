"""When a plan is carried out, beyond that it must be over the bound to be made at all."""

from __future__ import annotations

from monkeytree.plan import Plan
from monkeytree.snapshot import Snapshot


def worthwhile(_: Snapshot, plan: Plan) -> bool:
    """Only plans that are predicted to save more than they lose (:mod:`monkeytree.predict`)."""
    return plan.worthwhile is True
