"""The oracle against cases worked out by hand, and against a naive enumeration rank by rank."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import permutations, product
from random import Random
from typing import Any

import pytest

from .brute import Best, brute_force, evaluate
from .evaluate import IllegalPlan
from .generate import FEATURES, in_trouble, random_snapshot, small_snapshot, tiny_snapshot
from .reading import Document, Score


def picture(
    *racks: str, uplinks: int | list[Any] = 1, nodes: int | None = None, **jobs: Document
) -> Document:
    """Racks drawn as strings, a letter a worker, "." a free slot; a rack is cut into ``nodes`` nodes.

    Without ``nodes`` each slot is a node: slot i of rack t is node "t/i". Members of the group or job
    drawn as letter X are given as X={...}.
    """
    made: list[Document] = []
    workers: dict[str, list[str]] = {}
    for number, drawn in enumerate(racks):
        count = len(drawn) if nodes is None else nodes
        size = len(drawn) // count
        own: Document = {f"{number}/{index}": size for index in range(count)}
        for slot, letter in enumerate(drawn):
            if letter != ".":
                workers.setdefault(letter, []).append(f"{number}/{slot // size}")
        live = uplinks if isinstance(uplinks, int) else uplinks[number]
        made.append({"id": str(number), "uplinks": live, "nodes": own})
    listed = []
    for letter, places in workers.items():
        given: Document = dict(jobs.get(letter, {}))
        job: Document = {name: given.pop(name) for name in ("mobility", "classes") if name in given}
        listed.append({"id": letter, "replica_groups": [{"id": "0", "workers": places, **given}], **job})
    return {
        "format": 1,
        "cluster": "drawn",
        "taken_at": "2026-11-29T18:00:00Z",
        "racks": made,
        "jobs": listed,
    }


def summary(best: Best) -> tuple[int, int, int, int]:
    return best.undrained, best.excess, best.moves, best.jobs_paused


@pytest.mark.parametrize(
    ("snapshot", "moves"),
    [
        (picture("AAAAABB.", "AAACCCD.", "AABBCCCD", "BBCDDD..", uplinks=2, nodes=1), 4),
        (picture("AAAAABB.", "AAACCCD.", "AABBCCCD", "BBCDDD..", uplinks=3, nodes=1), 1),
        (picture("AAAABB..", "AAACC...", "AAABBCC.", "BBCCC...", uplinks=2, nodes=1), 2),
        (picture("AB", "AB"), 2),  # no free slot: a swap
        (picture("AC", "AB", "BC"), 3),  # a 3-cycle, no free slot
        (picture("AAABC...", "AAAAAA..", "BBBBBBB.", "CCCCCCC.", uplinks=2, nodes=1, A={"rings": 2}), 2),
        (picture("ABB..", "AAAC.", "BBBBB", "CCCCC", nodes=1), 1),  # one move repairs two racks
        (picture("AAB.", "ABB.", uplinks=0), 2),  # no uplinks: all whole
        (picture("AAB", "ABC", "C..", uplinks=[2, 1, 1]), 2),
    ],
)
def test_known_fewest_moves(snapshot: Document, moves: int) -> None:
    """The optima that several solvers proved for the same states."""
    best = brute_force(snapshot)
    assert (best.undrained, best.excess, best.moves) == (0, 0, moves)


def test_theorem_1_is_tight() -> None:
    assert summary(brute_force(picture("AAA", "AAB", "BBB", nodes=1))) == (0, 1, 0, 0)


def test_rings_above_all_bounds_stay() -> None:
    assert summary(brute_force(picture("AA", "AA", "A.", "..", uplinks=2, A={"rings": 4}))) == (0, 6, 0, 0)


def test_compliant_is_left_alone() -> None:
    best = brute_force(picture("AAB", "AB.", uplinks=2))
    assert summary(best) == (0, 0, 0, 0)
    assert best.compliant_now
    assert best.summed_f == 4


def test_drain_moves_workers_off_and_names_those_that_cannot() -> None:
    snapshot = picture("AB", "..", "..", uplinks=2, A={"pinned": [0]})
    for name in ("0/0", "0/1"):
        snapshot["racks"][0]["nodes"][name] = {"slots": 1, "drain": True}
    best = brute_force(snapshot)
    assert summary(best) == (1, 0, 1, 1)
    assert not best.compliant_now


def test_drain_goes_before_excess() -> None:
    snapshot = picture("AA", "..", uplinks=0)
    snapshot["racks"][0]["nodes"]["0/1"] = {"slots": 1, "drain": True}
    snapshot["racks"][1]["nodes"]["1/1"] = {"slots": 1, "cordoned": True}
    assert summary(brute_force(snapshot)) == (0, 2, 1, 1)


@pytest.mark.parametrize("held", [0, 1])
def test_held_slots_take_nobody(held: int) -> None:
    snapshot = picture("A.", "A.", uplinks=0, nodes=1)
    for rack in snapshot["racks"]:
        rack["nodes"] = {name: {"slots": 2, "held": held} for name in rack["nodes"]}
    assert summary(brute_force(snapshot)) == ((0, 2, 0, 0) if held else (0, 0, 1, 1))


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"pinned": [0, 1, 2]}, (0, 2, 0, 0)),
        ({"pinned": [0]}, (0, 0, 1, 1)),
        ({"pinned": [0, 2]}, (0, 0, 1, 1)),  # rank 1 is the one that moves
        ({"pinned": [1]}, (0, 0, 2, 1)),
        ({"mobility": "none"}, (0, 2, 0, 0)),
        ({"order_fixed": True}, (0, 2, 0, 0)),
        ({"classes": ["h200"]}, (0, 2, 0, 0)),
        ({"classes": ["", "h200"]}, (0, 0, 1, 1)),
    ],
)
def test_rights_to_move(members: Document, expected: tuple[int, ...]) -> None:
    snapshot = picture("A.A", "A..", uplinks=0, A=members)
    snapshot["jobs"][0]["replica_groups"][0]["workers"] = ["0/0", "1/0", "0/2"]
    assert summary(brute_force(snapshot)) == expected


def test_an_order_with_racks_not_adjacent_needs_a_reorder_only() -> None:
    snapshot = picture("AA", "AA", A={"order": [0, 2, 1, 3]})
    best = brute_force(snapshot)
    assert summary(best) == (0, 0, 0, 1)
    assert best.summed_f == 2
    fixed = picture("AA", "AA", A={"order": [0, 2, 1, 3], "order_fixed": True})
    assert summary(brute_force(fixed)) == (0, 2, 0, 0)


def test_other_groups_of_a_paused_job_are_reordered_too() -> None:
    snapshot = picture("AA", "AA", A={"order": [0, 2, 1, 3]}, uplinks=1)
    other = picture("..AA", "..AA")["jobs"][0]["replica_groups"][0] | {"id": "1", "order": [0, 2, 1, 3]}
    for rack in snapshot["racks"]:
        rack["nodes"] |= {f"{rack['id']}/2": 1, f"{rack['id']}/3": 1}
        rack["uplinks"] = 3
    snapshot["jobs"][0]["replica_groups"].append(other)
    best = brute_force(snapshot)
    assert (*summary(best), best.summed_f) == (0, 0, 0, 1, 4)


@pytest.mark.parametrize(("objective", "moves", "cost"), [("moves", 1, None), ("gpu_seconds", 2, 4 * 9.26)])
def test_gpu_seconds_pause_the_smaller_job(objective: str, moves: int, cost: float | None) -> None:
    """One worker of the large A, or two of the small B, can leave to make the middle rack comply."""
    snapshot = picture("AAAAA.", "ABB..", "BB..", nodes=1)
    snapshot["planning"] = {"objective": objective}
    best = brute_force(snapshot)
    assert (best.excess, best.moves, best.gpu_seconds) == (0, moves, cost)


def test_a_restart_costs_its_own_pause() -> None:
    snapshot = picture("A.", "A.", uplinks=0, A={"mobility": "restart"})
    snapshot["planning"] = {"objective": "gpu_seconds"}
    assert brute_force(snapshot).gpu_seconds == 2 * 120


def test_repacking_inside_a_rack_counts() -> None:
    """B is of two slots: a worker of A must make room on its node before B can come whole."""
    snapshot = picture("A.", uplinks=0)
    snapshot["racks"] = [
        {"id": "0", "uplinks": 0, "nodes": {"a": 2, "b": 2, "c": 2}},
        {"id": "1", "uplinks": 0, "nodes": {"d": 2}},
    ]
    snapshot["jobs"] = [
        {"id": "A", "replica_groups": [{"id": "0", "workers": ["a", "b"]}]},
        {"id": "B", "replica_groups": [{"id": "0", "slots_per_worker": 2, "workers": ["c", "d"]}]},
    ]
    assert summary(brute_force(snapshot)) == (0, 0, 2, 2)


def test_pods_bound_all_rails_together() -> None:
    snapshot = picture("AB", "..", "AB", "..", uplinks=2)
    for rack in snapshot["racks"]:
        rack["pod"] = "left" if rack["id"] < "2" else "right"
    snapshot["fabric"] = {"rails": 2}
    for uplinks, expected in ((2, (0, 0, 0, 0)), (1, (0, 0, 1, 1)), (0, (0, 0, 2, 2))):
        snapshot["pods"] = [{"id": name, "uplinks": uplinks} for name in ("left", "right")]
        assert summary(brute_force(snapshot)) == expected


def test_rails_share_the_rings() -> None:
    assert summary(brute_force(picture("A", "A", uplinks=1, A={"rings": 2}))) == (0, 2, 0, 0)
    two = picture("A", "A", uplinks=1, A={"rings": 2}) | {"fabric": {"rails": 2}}
    assert summary(brute_force(two)) == (0, 0, 0, 0)
    fast = picture("A", "A", uplinks=1, A={"rings": 2}) | {"fabric": {"nic_gbps": 200, "uplink_gbps": 500}}
    assert summary(brute_force(fast)) == (0, 0, 0, 0)


def test_max_moves_is_told_apart() -> None:
    snapshot = picture("AB", "AB")
    snapshot["planning"] = {"max_moves": 1}
    best = brute_force(snapshot)
    assert summary(best) == (0, 2, 0, 0)
    assert (best.uncapped_excess, best.limited_by_max_moves) == (0, True)


def test_evaluate_refuses_what_is_not_allowed() -> None:
    snapshot = picture("AB.", "AB.", A={"pinned": [1]})
    move = {"job": "A", "group": "0", "rank": 0, "from": "0/0", "to": "1/2"}
    assert evaluate(snapshot, {"moves": [move]}) == Score(0, 0, None, 1, 1, 2)
    for wrong in ({"rank": 1, "from": "1/0"}, {"from": "0/1"}, {"to": "1/1"}, {"job": "C"}, {"to": "x"}):
        with pytest.raises(IllegalPlan):
            evaluate(snapshot, {"moves": [move | wrong]})
    with pytest.raises(IllegalPlan):
        evaluate(snapshot, {"rings": [{"job": "A", "group": "0", "order": [0, 0]}]})


def test_evaluate_takes_a_turned_ring_for_the_same() -> None:
    snapshot = picture("AA", "A.", uplinks=1)
    for order, paused in (([1, 2, 0], 0), ([0, 2, 1], 1)):
        ring = {"job": "A", "group": "0", "order": order}
        assert evaluate(snapshot, {"rings": [ring]}).jobs_paused == paused


def all_plans(snapshot: Document) -> Iterator[Document]:
    """Every node for every rank and every cyclic order of every group, allowed or not."""
    nodes = [node for rack in snapshot["racks"] for node in rack["nodes"]]
    groups = [(job["id"], group) for job in snapshot["jobs"] for group in job["replica_groups"]]
    ranks = [(job, group, rank) for job, group in groups for rank in range(len(group["workers"]))]
    turns = [[(0, *turn) for turn in permutations(range(1, len(group["workers"])))] for _, group in groups]
    for places in product(nodes, repeat=len(ranks)):
        moves = [
            {"job": job, "group": group["id"], "rank": rank, "from": group["workers"][rank], "to": node}
            for (job, group, rank), node in zip(ranks, places, strict=True)
            if node != group["workers"][rank]
        ]
        for orders in product(*turns):
            rings = [
                {"job": job, "group": group["id"], "order": list(order)}
                for (job, group), order in zip(groups, orders, strict=True)
            ]
            yield {"moves": moves, "rings": rings}


def naive(snapshot: Document) -> Score:
    """The least score of all plans that evaluate does not refuse."""
    scores = []
    for plan in all_plans(snapshot):
        try:
            scores.append(evaluate(snapshot, plan))
        except IllegalPlan:
            continue
    return min(scores, key=Score.key)


@pytest.mark.parametrize("seed", range(60))
def test_brute_force_equals_naive_enumeration(seed: int) -> None:
    snapshot = random_snapshot(
        Random(seed), racks=(2, 3), nodes=(1, 2), slots=(1, 3), workers=(3, 4), groups=(1, 3), places=5
    )
    assert brute_force(snapshot).score.key() == naive(snapshot).key()


@pytest.mark.parametrize("make", [tiny_snapshot, small_snapshot])
@pytest.mark.parametrize("features", [(), FEATURES])
def test_snapshots_are_as_promised(make: Callable[..., Document], features: Collection[str]) -> None:
    """Placements hold as they stand, most need repair, and a seed gives the same snapshot again."""
    made = [make(Random(seed), features=features) for seed in range(60)]
    assert made == [make(Random(seed), features=features) for seed in range(60)]
    assert sum(map(in_trouble, made)) > 30
    for snapshot in made:
        evaluate(snapshot | {"planning": {}}, {})
