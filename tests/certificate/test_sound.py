"""Against the brute force: no certificate above the optimum, and no row that a real plan breaks."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import monkeytree
from monkeytree.certify.standing import standings
from monkeytree.certify.statement import state
from monkeytree.checker.certificate_program import Assumption
from monkeytree.checker.certificate_view import View
from monkeytree.checker.reading import read_placement
from tests.oracle.brute import brute_force
from tests.oracle.generate import FEATURES, small_snapshot, tiny_snapshot

from .samples import Document, faults, made

SEEDS = 120
ASKED = FEATURES - {"max_moves", "gpu_seconds"}


@pytest.mark.parametrize("start", range(0, SEEDS, 20))
def test_nothing_above_the_optimum_is_certified(start: int) -> None:
    for seed in range(start, start + 20):
        snapshot = tiny_snapshot(Random(seed), features=ASKED)
        best = brute_force(snapshot)
        if best.undrained or best.excess or not best.moves:
            continue
        assert made(snapshot, best.moves + 1) is None, seed
        certificate = made(snapshot, best.moves)
        if certificate is not None:
            assert faults(snapshot, certificate, best.moves) == [], seed
            for more in (1, 2):
                raised = {**certificate, "bound": best.moves + more}
                assert faults(snapshot, raised, best.moves + more), seed


@pytest.mark.parametrize("start", range(0, SEEDS, 20))
def test_a_plan_is_a_point_of_every_program(start: int) -> None:
    """Whatever racks are told apart and whoever's landing is followed."""
    for seed in range(start, start + 20):
        rng = Random(seed)
        snapshot = (tiny_snapshot if seed % 2 else small_snapshot)(rng, features=ASKED)
        loaded = monkeytree.load_snapshot(snapshot)
        plan = monkeytree.dump_plan(monkeytree.make_plan(loaded, time_limit_s=2))
        if plan["excess"] or plan["undrained"]:
            continue
        view = View(read_placement(snapshot))
        racks = list(view.placement.racks)
        mobile = [number for number, group in enumerate(view.groups) if not view.fixed(group)]
        landing = set(rng.sample(mobile, rng.randint(0, len(mobile))))
        for chosen, followed in ((racks, landing), (rng.sample(racks, rng.randint(1, len(racks))), set())):
            _fits(view, plan, chosen, followed, plan["moves_needed"] + rng.randint(0, 1), seed)


@pytest.mark.parametrize("seed", range(40))
def test_maker_and_checker_state_the_same_rows(seed: int) -> None:
    rng = Random(1000 + seed)
    snapshot = small_snapshot(rng, features=ASKED)
    loaded, view = monkeytree.load_snapshot(snapshot), View(read_placement(snapshot))
    racks = list(view.placement.racks)
    mobile = [number for number, group in enumerate(view.groups) if not view.fixed(group)]
    landing = frozenset(rng.sample(mobile, rng.randint(0, len(mobile))))
    budget = rng.randint(0, 6)
    stated = state(loaded, standings(loaded), budget, racks, landing)
    program = Assumption(view, budget, racks, landing).program
    assert dict(zip(stated.names, stated.upper, strict=True)).items() <= program.most.items()
    for row, (terms, limit) in stated.rows.items():
        named = {stated.names[column]: value for column, value in terms.items() if value}
        checked, checked_limit = program.rows[row]
        rest = {column: value for column, value in checked.items() if value}
        if row == "moves":  # the maker leaves out "spare" of racks that have room for all
            rest = {column: value for column, value in rest.items() if column in stated.names}
        assert (named, limit) == (rest, checked_limit), row


def _fits(view: View, plan: Document, racks: list[str], landing: set[int], budget: int, seed: int) -> None:
    program = Assumption(view, budget, racks, landing).program
    point = _read(view, plan, racks, landing, program.most)
    for column, value in point.items():
        assert 0 <= value <= program.most[column], (seed, column)
    for row, (terms, limit) in program.rows.items():
        assert sum(value * point[column] for column, value in terms.items()) <= limit, (seed, row)


def _read(view: View, plan: Document, racks: list[str], landing: set[int], names: Any) -> Counter[str]:
    """What the columns mean, read off a plan."""
    placement = view.placement
    moved = {(move["job"], move["group"], move["rank"]): move["to"] for move in plan["moves"]}
    point: Counter[str] = Counter(dict.fromkeys(names, 0))
    for number, group in enumerate(view.groups):
        after = [moved.get((*group.key, rank), node) for rank, node in enumerate(group.workers)]
        pairs = [
            (placement.rack_of[old], placement.rack_of[new], placement.nodes[old].drain)
            for old, new in zip(group.workers, after, strict=True)
        ]
        for index, rack in enumerate(racks):
            there = sum(new == rack for _, new, _ in pairs)
            came = sum(new == rack != old for old, new, _ in pairs)
            left = sum(old == rack != new and not drain for old, new, drain in pairs)
            at = f"{number} {index}"
            told_apart = view.spread(group) or number in landing
            if told_apart and there == len(pairs) and pairs:
                point[f"whole {at}"] = 1
            elif told_apart and there > 0:
                point[f"fragment {at}"] = 1
            if number in landing:
                fragment = 0 < there < len(pairs)
                point[f"enters {at}"] += came if fragment else 0
                point[f"leaves {at}"] += left if fragment else 0
            elif there or not view.spread(group):
                point[f"spare {index}"] += left
    followed = {
        f"{word} {number}" for word in ("fragment", "whole", "enters", "leaves") for number in landing
    }
    for column, value in point.items():
        assert not value or column in names or column.rpartition(" ")[0] not in followed, column
    # Elsewhere a group that comes to a rack anew has no columns.
    return Counter({column: point[column] for column in names})
