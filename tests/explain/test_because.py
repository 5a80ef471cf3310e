"""Every move says why, and the reasons are those of a count from scratch."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

import monkeytree
from monkeytree.explain import because
from monkeytree.placement import Arrangement
from monkeytree.plan import Plan
from monkeytree.snapshot import Snapshot
from tests.oracle.generate import FEATURES, small_snapshot, tiny_snapshot
from tests.oracle.reading import Document

from .naive import reasons


def after(snapshot: Snapshot, plan: Plan) -> Arrangement:
    """The arrangement that a plan leads to."""
    nodes = {(job.id, group.id): list(group.workers) for job, group in snapshot.groups}
    orders = {(job.id, group.id): group.ring_order for job, group in snapshot.groups}
    for move in plan.moves:
        nodes[move.job, move.group][move.rank] = move.target
    orders |= {(ring.job, ring.group): ring.order for ring in plan.rings}
    return Arrangement(tuple(map(tuple, nodes.values())), tuple(orders.values()))


def explained(document: Document) -> tuple[Plan, list[tuple[str, ...]]]:
    snapshot = monkeytree.load_snapshot(document)
    plan = monkeytree.make_plan(snapshot, time_limit_s=5)
    return plan, because(snapshot, after(snapshot, plan), plan.moves)


@pytest.mark.parametrize("make", [tiny_snapshot, small_snapshot])
@pytest.mark.parametrize("seed", range(60))
def test_reasons_equal_a_count_from_scratch(make: Any, seed: int) -> None:
    document = make(Random(seed), features=FEATURES if seed % 3 else ())
    plan, found = explained(document)
    assert [set(some) for some in found] == list(reasons(document, monkeytree.dump_plan(plan)))
    assert all(len(set(some)) == len(some) for some in found)
    if plan.status == "optimal":
        assert all(found), "a move without a reason could be left out"


def lab(*racks: dict[str, Any], uplinks: int = 0, **jobs: Any) -> Document:
    """Racks r0, r1, ... with these nodes; jobs by name: workers, or a group."""
    return {
        "format": 1,
        "cluster": "lab",
        "taken_at": "2026-11-29T18:00:00Z",
        "racks": [
            {"id": f"r{number}", "uplinks": uplinks, "nodes": nodes} for number, nodes in enumerate(racks)
        ],
        "jobs": [
            {
                "id": name,
                "replica_groups": [{"id": "0", **(job if isinstance(job, dict) else {"workers": job})}],
            }
            for name, job in jobs.items()
        ],
    }


def test_each_of_two_evicted_workers_is_needed() -> None:
    """Undone alone, one of them makes the group count on both racks again."""
    document = lab({"a": 2, "b": 2}, {"c": 4}, A=["a", "a", "c", "c"], B=["b", "b"])
    plan, found = explained(document)
    assert plan.moves_needed == 2
    assert [set(some) for some in found] == [{"r0", "r1"}] * 2


def test_a_drain_is_a_reason_where_no_bound_is_at_stake() -> None:
    document = lab({"a": {"slots": 1, "drain": True}, "b": 1}, A=["a"])
    assert explained(document)[1] == [("drain:a",)]


def test_a_repacking_move_names_the_move_it_makes_room_for() -> None:
    """B is of two slots and comes whole only if a worker of A shares a node with the other."""
    document = lab(
        {"a": 2, "b": 2, "c": 2}, {"d": 2},
        A=["a", "b"], B={"slots_per_worker": 2, "workers": ["c", "d"]},
    )  # fmt: skip
    plan, found = explained(document)
    makes_room = next(at for at, move in enumerate(plan.moves) if move.job == "A")
    comes = next(at for at, move in enumerate(plan.moves) if move.job == "B")
    assert (found[makes_room], set(found[comes])) == ((f"move:{comes}",), {"r0", "r1"})


def test_a_move_for_nothing_has_no_reason() -> None:
    snapshot = monkeytree.load_snapshot(lab({"a": 1, "b": 2}, {"c": 1}, A=["a"], B=["b", "c"]))
    plan = monkeytree.make_plan(snapshot)
    (useful,) = plan.moves
    idle = replace(useful, job="A", rank=0, source="a", target="b")
    nodes = (("b",), ("b", useful.target))
    assert useful.target == "b"
    assert because(snapshot, Arrangement(nodes, ((0,), (0, 1))), [useful, idle])[1] == ()
