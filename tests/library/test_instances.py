"""The instances whose optimum is known (``X.expect.json`` beside ``X.json``), 4 to 65,536 GPUs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monkeytree.errors import SolverUnavailable
from monkeytree.plan import Plan
from tests.oracle.reading import Document

from .support import FUZZ, INSTANCES, assert_holds, planned

ENOUGH_S = 60.0
NAMES = sorted(path.stem for path in INSTANCES.glob("*.json") if not path.stem.endswith(".expect"))
MOST_NODES = {"authors": 64, "authors-rail": 130}
"""Largest cluster that every solver takes in CI, by kind (130 otherwise); all with ``MONKEYTREE_FUZZ``."""
OWN_STAGES_S = 3.0
"""The search and the split alone may never end on some; their claims are tested, not their reach."""


def read(path: Path) -> Document:
    document: Document = json.loads(path.read_text())
    return document


def assert_expected(name: str, plan: Plan) -> None:
    expected = read(INSTANCES / f"{name}.expect.json")
    if not expected["feasible"]:
        assert (plan.status, plan.excess_proved) == ("best_effort", True)
        return
    assert (plan.status, plan.excess) == ("optimal", 0)
    assert plan.lower_bound == plan.moves_needed
    assert plan.moves_needed <= expected["optimum"]
    if not expected.get("at_most"):
        assert plan.moves_needed == expected["optimum"]


def test_there_are_instances() -> None:
    assert len(NAMES) >= 60


@pytest.mark.parametrize("name", NAMES)
def test_auto_reaches_the_known_optimum(name: str) -> None:
    document = read(INSTANCES / f"{name}.json")
    plan = planned(document, time_limit_s=ENOUGH_S)
    assert_expected(name, plan)
    assert_holds(document, plan)


def in_ci(name: str) -> bool:
    nodes = sum(len(rack["nodes"]) for rack in read(INSTANCES / f"{name}.json")["racks"])
    kind = name.rsplit("-", 2)[0]
    return FUZZ > 1 or nodes <= MOST_NODES.get(kind, 130)


@pytest.mark.parametrize("solver", ["gurobi", "highs", "cbc"])
@pytest.mark.parametrize("name", [name for name in NAMES if in_ci(name)])
def test_each_solver_by_name_reaches_the_known_optimum(name: str, solver: str) -> None:
    """As far as it can take the size: the restricted licence of Gurobi ends at 2,000 columns."""
    document = read(INSTANCES / f"{name}.json")
    refusal = None
    try:
        plan = planned(document, solver=solver, time_limit_s=ENOUGH_S)
    except SolverUnavailable as error:
        refusal = str(error)
    if refusal is not None:
        assert (solver, "restricted licence" in refusal) == ("gurobi", True)
        return
    assert_expected(name, plan)
    assert_holds(document, plan)


@pytest.mark.parametrize("solver", ["search", "split"])
@pytest.mark.parametrize("name", [name for name in NAMES if in_ci(name)])
def test_what_the_own_stages_claim_of_them_is_true(name: str, solver: str) -> None:
    document = read(INSTANCES / f"{name}.json")
    plan = planned(document, solver=solver, time_limit_s=OWN_STAGES_S)
    assert_holds(document, plan)
    if plan.status == "optimal":
        assert_expected(name, plan)
    expected = read(INSTANCES / f"{name}.expect.json")
    if expected["feasible"] and plan.excess == 0 and plan.lower_bound is not None:
        assert plan.lower_bound <= expected["optimum"]
