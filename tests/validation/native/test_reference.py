"""Fast ones of the public reference runs; `make fidelity` compares all of them."""

from __future__ import annotations

import pytest

from tools.fidelity import compare_runs, reference, scenario, seeds_of

from .fabrics import needs_ns3, run

pytestmark = needs_ns3


@pytest.mark.parametrize(
    "name", ["b_two_10MB", "c_incast4_10MB", "e_victim_7to1_10MB", "d_ring_collide_10MB"]
)
def test_pauses_as_in_the_reference(name: str) -> None:
    compared = compare_runs(name, "pfconly_small", [run(scenario(name, "pfconly_small", 1))])
    assert [row for row in compared if not row.holds] == []


@pytest.mark.parametrize("profile", ["hpcc", "paper"])
@pytest.mark.parametrize("name", ["b_two_10MB", "c_incast4_10MB"])
def test_dcqcn_as_in_the_reference(name: str, profile: str) -> None:
    ours = [run(scenario(name, profile, seed)) for seed in seeds_of(profile)]
    compared = [row for row in compare_runs(name, profile, ours) if row.measure == "mean FCT, us"]
    assert [row for row in compared if not row.holds] == []


@pytest.mark.parametrize("name", ["a_single_10MB", "b_two_10MB", "d_ring_distinct_10MB"])
def test_equal_to_the_nanosecond_where_nothing_ties(name: str) -> None:
    result = run(scenario(name, "pfconly_small", 1, truncate_ns=1))
    theirs = next(r for r in reference(name)["runs"] if r["profile"] == "pfconly_small")
    assert [row["fct_ns"] for row in result["flows"]] == theirs["fct_ns"]
