"""What the library's tests share: seeds, padding, and what every plan must hold to.

``MONKEYTREE_FUZZ=N`` multiplies the number of seeds (1 by default, for CI).
"""

from __future__ import annotations

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import monkeytree
from monkeytree.plan import Plan
from tests.oracle.brute import Best
from tests.oracle.evaluate import evaluate
from tests.oracle.reading import Document, Score

FUZZ = int(os.environ.get("MONKEYTREE_FUZZ", "1"))
INSTANCES = Path(__file__).parent.parent / "data" / "instances"
PADDING = 30
"""Racks of padding that bring a tiny snapshot above 2,000 columns: (1 + 30 x 3) x 30."""


def seeds(count: int, start: int = 0) -> range:
    """``count`` seeds, or as many times more as ``MONKEYTREE_FUZZ`` says."""
    return range(start, start + count * FUZZ)


def planned(document: Document, **how: Any) -> Plan:
    """The plan of a document."""
    return monkeytree.make_plan(monkeytree.load_snapshot(document), **how)


def as_json(plan: Plan) -> Document:
    """The plan as a reader gets it: dumped, and through JSON text."""
    read: Document = json.loads(json.dumps(monkeytree.dump_plan(plan)))
    return read


def assert_holds(document: Document, plan: Plan) -> Score:
    """The checker finds no fault, and the oracle's arithmetic agrees with the plan's own; its score."""
    dumped = as_json(plan)
    assert monkeytree.check(document, dumped) == []
    score = evaluate(document, dumped)
    assert score.undrained == len(plan.undrained)
    assert (score.excess, score.moves, score.jobs_paused) == (
        plan.excess,
        plan.moves_needed,
        plan.jobs_paused,
    )
    value = score.moves if score.gpu_seconds is None else score.gpu_seconds
    assert close(plan.objective.value, value)
    return score


def assert_claims(plan: Plan, score: Score, best: Best) -> None:
    """Whatever a plan says is proved is true, whichever solver it comes from."""
    found, least = score.key(), best.score.key()
    assert found >= least
    if plan.excess_proved and plan.excess:  # nothing has less than none, whatever stays undrained
        assert found[:2] == least[:2]
    if plan.status == "optimal":
        named = 3 if best.gpu_seconds is not None else 4  # the key holds 0 for GPU-seconds not asked for
        assert found[:named] == least[:named]
    if plan.objective.ties_proved:
        assert found == least
    if found[:2] == least[:2] and best.gpu_seconds is None and plan.lower_bound is not None:
        assert plan.lower_bound <= best.moves
    bound = plan.objective.lower_bound
    if bound is not None and best.gpu_seconds is not None and found[:2] == least[:2]:
        assert bound <= best.gpu_seconds or close(bound, best.gpu_seconds)


def assert_optimum(plan: Plan, score: Score, best: Best) -> None:
    """The optimum to the last tie-break, all of it proved, under the status the contract gives it."""
    assert score.key() == best.score.key()
    assert plan.status == expected_status(best)
    assert plan.excess_proved
    assert plan.objective.ties_proved
    assert plan.limited_by == ("max_moves" if best.limited_by_max_moves else None)
    assert plan.lower_bound is None or plan.lower_bound <= best.moves
    if plan.status == "optimal" and best.gpu_seconds is None:
        assert plan.lower_bound == plan.moves_needed
    if plan.status == "optimal" and best.gpu_seconds is not None:
        assert plan.objective.lower_bound is not None
        assert close(plan.objective.lower_bound, best.gpu_seconds)


def expected_status(best: Best) -> str:
    """Contract, section 2: the table of statuses."""
    if best.compliant_now:
        return "compliant"
    if best.undrained:
        return "infeasible"
    return "best_effort" if best.excess else "optimal"


def close(one: float, other: float) -> bool:
    """Equal to one part in a million."""
    return abs(one - other) <= 1e-6 * max(1.0, abs(other))


def padded(document: Document, racks: int = PADDING) -> Document:
    """The same decision in a larger cluster: full racks of a class of their own, one job on each.

    Nothing can move into or out of the padding, so the optimum is that of ``document``.
    """
    larger = deepcopy(document)
    if "pods" in larger:
        larger["pods"].append({"id": "padding", "uplinks": 0})
    for number in range(racks):
        node = f"padding{number}"
        rack: Document = {"id": node, "uplinks": 0, "nodes": {node: {"slots": 2, "class": "padding"}}}
        if "pods" in larger:
            rack["pod"] = "padding"
        larger["racks"].append(rack)
        groups = [{"id": "0", "workers": [node, node]}]
        larger["jobs"].append({"id": node, "replica_groups": groups})
    return larger


def carried_out(document: Document, plan: Plan) -> Document:
    """The snapshot after the plan: its moves made, its ring orders in force."""
    after = deepcopy(document)
    groups = {(job["id"], group["id"]): group for job in after["jobs"] for group in job["replica_groups"]}
    for move in plan.moves:
        groups[move.job, move.group]["workers"][move.rank] = move.target
    for ring in plan.rings:
        groups[ring.job, ring.group]["order"] = list(ring.order)
    return after


def snapshot(racks: dict[str, Document], jobs: list[Document], **members: Any) -> Document:
    """A snapshot document of racks (by id, without it) and jobs."""
    return {
        "format": 1,
        "cluster": "lab",
        "taken_at": "2026-11-29T18:00:00Z",
        "racks": [{"id": name, **rack} for name, rack in racks.items()],
        "jobs": jobs,
        **members,
    }


def job(name: str, *workers: str, mobility: str = "live", **group: Any) -> Document:
    """A job of one replica group, its members by keyword."""
    groups = [{"id": "0", "workers": list(workers), **group}]
    return {"id": name, "mobility": mobility, "replica_groups": groups}
