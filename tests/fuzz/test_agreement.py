"""``auto`` against the whole program, on random snapshots with every feature mixed in.

Seeds are the numbers of the cases: ``MONKEYTREE_FUZZ=20`` (``make fuzz``) runs 20 times as many, and a
failure names its seed.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

import monkeytree
from monkeytree.errors import SolverUnavailable
from tests.oracle.evaluate import evaluate
from tests.oracle.generate import small_snapshot, tiny_snapshot

TIMES = int(os.environ.get("MONKEYTREE_FUZZ", "1"))
BLOCK = 10
TINY_BLOCKS, SMALL_BLOCKS = range(20 * TIMES), range(10 * TIMES)


@pytest.mark.parametrize("block", TINY_BLOCKS)
def test_tiny(block: int) -> None:
    for seed in range(100_000 + block * BLOCK, 100_000 + (block + 1) * BLOCK):
        agree(tiny_snapshot(Random(seed)), seed)


@pytest.mark.parametrize("block", SMALL_BLOCKS)
def test_small(block: int) -> None:
    for seed in range(200_000 + block * BLOCK, 200_000 + (block + 1) * BLOCK):
        agree(small_snapshot(Random(seed)), seed)


def agree(document: dict[str, Any], seed: int) -> None:
    """The same rank in the objective from both, where both are proved; both plans hold."""
    snapshot = monkeytree.load_snapshot(document)
    plan = monkeytree.make_plan(snapshot, time_limit_s=20)
    assert monkeytree.check(snapshot, plan) == [], seed
    try:
        whole = monkeytree.make_plan(snapshot, solver="gurobi", time_limit_s=20)
    except SolverUnavailable:  # beyond the restricted licence
        whole = monkeytree.make_plan(snapshot, solver="highs", time_limit_s=20)
    assert monkeytree.check(snapshot, whole) == [], seed
    assert plan.status == whole.status, seed
    if plan.objective.ties_proved and whole.objective.ties_proved:
        ranks = [evaluate(document, monkeytree.dump_plan(each)).key() for each in (plan, whole)]
        assert ranks[0] == ranks[1], seed
