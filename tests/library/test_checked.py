"""Plans of random clusters, all features mixed: each one checked by code that shares nothing with it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from monkeytree.plan import Plan
from tests.oracle.generate import small_snapshot
from tests.oracle.reading import Document

from .support import assert_holds, carried_out, planned, seeds

BATCH = 25
LIMIT_S = 5.0


def batches(count: int, start: int = 0) -> list[range]:
    """``count`` seeds in batches: one test each would cost more than the plans."""
    every = seeds(count, start)
    return [every[at : at + BATCH] for at in range(0, len(every), BATCH)]


def named(batch: range) -> str:
    return f"{batch.start}-{batch.stop - 1}"


def drawn(seed: int) -> Document:
    rng = Random(seed)
    return small_snapshot(rng, chance=rng.choice([0.15, 0.35, 0.35, 0.6]))


@pytest.mark.parametrize("batch", batches(1_500), ids=named)
def test_every_plan_holds(batch: range) -> None:
    for seed in batch:
        document = drawn(seed)
        plan = planned(document, time_limit_s=LIMIT_S)
        assert_holds(document, plan)


@pytest.mark.parametrize("batch", batches(100, start=50_000), ids=named)
def test_every_plan_after_a_small_change_holds(batch: range) -> None:
    """A job has gone since the previous plan was carried out; its plan gives the orders and uplinks."""
    for seed in batch:
        document = drawn(seed)
        previous = planned(document, time_limit_s=LIMIT_S)
        changed = carried_out(document, previous)
        changed["jobs"].pop(Random(seed).randrange(len(changed["jobs"])))
        assert_holds(changed, planned(changed, time_limit_s=LIMIT_S, previous=previous))


@pytest.mark.parametrize("batch", batches(100, start=70_000), ids=named)
def test_a_plan_of_another_placement_as_previous_does_no_harm(batch: range) -> None:
    for seed in batch:
        document = drawn(seed)
        previous = planned(drawn(seed + 1), time_limit_s=LIMIT_S)
        plan = planned(document, time_limit_s=LIMIT_S, previous=previous)
        alone = planned(document, time_limit_s=LIMIT_S)
        assert_holds(document, plan)
        assert (plan.status, plan.excess, plan.moves_needed) == (
            alone.status,
            alone.excess,
            alone.moves_needed,
        )


@pytest.mark.parametrize("batch", batches(100, start=90_000), ids=named)
def test_planning_a_plan_that_was_carried_out_changes_nothing(batch: range) -> None:
    for seed in batch:
        document = drawn(seed)
        plan = planned(document, time_limit_s=LIMIT_S)
        if plan.status not in ("compliant", "optimal", "feasible"):
            continue
        after = carried_out(document, plan)
        again = planned(after, time_limit_s=LIMIT_S, previous=plan)
        assert_holds(after, again)
        assert (again.status, again.moves) == ("compliant", ())
        assert [ring.order for ring in again.rings] == [ring.order for ring in plan.rings]
        assert not any(ring.changed for ring in again.rings)
        assert colours(again) == colours(plan)


def colours(plan: Plan) -> Counter[object]:
    """Every flow with its uplink; flows of one ring between the same two racks are interchangeable."""
    return Counter(
        (flow.job, flow.group, flow.ring, flow.from_rack, flow.to_rack, flow.uplink, flow.pod_uplink)
        for flow in plan.flows
    )
