"""The results that are committed: in step with their tables, and what is claimed of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from monkeytree.simulation.figures import fig06, fig13
from monkeytree.simulation.figures.catalogue import FIGURES
from monkeytree.simulation.figures.figure import Figure, found
from monkeytree.simulation.figures.measure import mean, p99, pooled
from monkeytree.simulation.figures.runs import Runs, describe, key_of
from monkeytree.simulation.figures.table import markdown

INTO = Path(__file__).parent.parent.parent / "docs" / "figures"
ALL = list(FIGURES.values())


@cache
def committed() -> Runs:
    return Runs(INTO / "results")


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_the_table_is_that_of_the_results(figure: Figure) -> None:
    sample = figure.samples["stated"]
    page = (INTO / f"{figure.name}.md").read_text(encoding="utf-8")
    assert page == markdown(figure, sample, figure.rows(sample, committed().find))
    assert (INTO / f"{figure.name}.svg").stat().st_size > 5_000


def test_no_result_is_kept_for_nothing() -> None:
    asked = {key_of(describe(setup)) for figure in ALL for setup in figure.setups(figure.samples["stated"])}
    assert committed().keys() <= asked


def test_results_are_small() -> None:
    assert sum(path.stat().st_size for path in (INTO / "results").glob("*.gz")) < 3_000_000


def test_at_full_load_monkeytree_beats_every_router_alone() -> None:
    sample = FIGURES["fig06"].samples["stated"]
    runs = {
        system: found(fig06.point(system, 1.0, sample), committed().find) for system in fig06.CORE_SYSTEMS
    }
    ours = runs.pop("monkeytree")
    assert ours
    for system, theirs in runs.items():
        assert theirs, system
        for measure in (mean, p99):
            here, there = pooled(ours, measure), pooled(theirs, measure)
            assert here is not None
            assert there is not None
            assert here.value < there.value, system


def test_the_rule_moves_far_less_than_threshold_2_and_costs_nothing() -> None:
    found_figures = fig13.rule_against_two(FIGURES["fig13"].samples["stated"], committed().find)
    assert found_figures is not None
    fewer, slower = found_figures
    assert fewer >= fig13.FEWER
    assert slower <= fig13.SLOWER
