"""The cluster that a drill plays: four racks, three jobs, and a plan of one move, made by the planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from monkeytree.plan import Move
from monkeytree.planner import make_plan
from monkeytree.wire.snapshot import load_snapshot

JOB = "drill"
RANKS = 4


@dataclass(frozen=True, slots=True)
class Scene:
    """What is to happen.

    Attributes:
        plan_id: of the plan.
        move: its only move.
        seats: the node of each rank of the job, before.
    """

    plan_id: str
    move: Move
    seats: tuple[str, ...]

    @property
    def nodes(self) -> list[str]:
        """Every node that takes part, hosts of ranks first."""
        return list(dict.fromkeys([*self.seats, self.move.target]))

    @property
    def hosts(self) -> list[str]:
        """The nodes that have a rank of the job before the move."""
        return list(dict.fromkeys(self.seats))


def snapshot(ranks: int = RANKS) -> dict[str, Any]:
    """One rank of the job is alone in rack A, the others are in rack B: two rings cross on one uplink."""
    rest = ranks - 1
    return {
        "format": 1, "cluster": "drill", "taken_at": "2026-01-01T00:00:00Z",
        "racks": [
            {"id": "A", "uplinks": 1, "nodes": {"a0": 1, "a1": 2}},
            {"id": "B", "uplinks": 1, "nodes": {"b0": rest, "b1": 1, "b2": 1}},
            {"id": "C", "uplinks": 1, "nodes": {"c0": 5}},
            {"id": "D", "uplinks": 1, "nodes": {"d0": 5}},
        ],
        "jobs": [
            {"id": JOB, "replica_groups": [{"id": "0", "workers": ["a0"] + ["b0"] * rest}]},
            {"id": "left", "replica_groups": [{"id": "0", "workers": ["a1", "a1"] + ["c0"] * 5}]},
            {"id": "right", "replica_groups": [{"id": "0", "workers": ["b2"] + ["d0"] * 5}]},
        ],
    }  # fmt: skip


def plan_scene(ranks: int = RANKS) -> Scene:
    """Plan the cluster above: rank 0 joins the others.

    Raises:
        AssertionError: the planner found anything else than that one move.
    """
    document = snapshot(ranks)
    plan = make_plan(load_snapshot(document))
    assert len(plan.moves) == 1, f"the drill's plan has {len(plan.moves)} moves"
    seats = tuple(document["jobs"][0]["replica_groups"][0]["workers"])
    return Scene(plan.id, plan.moves[0], seats)
