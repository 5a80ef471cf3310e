"""Every solver against a brute force on tiny clusters, feature by feature and all mixed."""

from __future__ import annotations

from random import Random

import pytest

from tests.oracle.brute import Best, brute_force
from tests.oracle.generate import FEATURES, tiny_snapshot
from tests.oracle.reading import Document

from .support import assert_claims, assert_holds, assert_optimum, padded, planned, seeds

ENOUGH_S = 120.0
EXACT = ("auto", "gurobi", "highs", "cbc")


def drawn(seed: int, *, chance: float = 0.35, without: frozenset[str] = frozenset()) -> tuple[Document, Best]:
    document = tiny_snapshot(Random(seed), chance=chance, features=sorted(FEATURES - without))
    return document, brute_force(document)


@pytest.mark.parametrize("seed", seeds(80))
def test_every_solver_finds_and_proves_the_optimum(seed: int) -> None:
    document, best = drawn(seed)
    for solver in EXACT:
        plan = planned(document, solver=solver, time_limit_s=ENOUGH_S)
        assert_optimum(plan, assert_holds(document, plan), best)


@pytest.mark.parametrize("seed", seeds(160, start=100_000))
def test_auto_finds_and_proves_the_optimum_of_dense_mixtures(seed: int) -> None:
    document, best = drawn(seed, chance=0.6)
    plan = planned(document, time_limit_s=ENOUGH_S)
    assert_optimum(plan, assert_holds(document, plan), best)


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_auto_finds_and_proves_the_optimum_of_each_feature_alone(feature: str) -> None:
    for seed in seeds(8):
        document = tiny_snapshot(Random(seed), chance=1.0, features=[feature, "slots"])
        plan = planned(document, time_limit_s=ENOUGH_S)
        assert_optimum(plan, assert_holds(document, plan), brute_force(document))


@pytest.mark.parametrize("seed", seeds(100, start=200_000))
def test_what_the_search_and_the_split_claim_is_true(seed: int) -> None:
    document, best = drawn(seed)
    for solver in ("search", "split"):
        plan = planned(document, solver=solver, time_limit_s=ENOUGH_S)
        assert_claims(plan, assert_holds(document, plan), best)


@pytest.mark.parametrize("seed", seeds(20, start=300_000))
def test_what_is_claimed_of_a_larger_cluster_is_true(seed: int) -> None:
    """Padding takes the same decision above the size that is solved whole at once."""
    document, best = drawn(seed, chance=0.5)
    large = padded(document)
    for solver in ("auto", "split"):
        plan = planned(large, solver=solver, time_limit_s=20)
        assert_claims(plan, assert_holds(large, plan), best)
