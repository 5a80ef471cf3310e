"""Figures: what they run, compare, keep and draw."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

import pytest

from monkeytree.simulation import SYSTEMS
from monkeytree.simulation.figures.catalogue import FIGURES, figure_named
from monkeytree.simulation.figures.figure import Figure, Row, Sample, load_seed
from monkeytree.simulation.figures.measure import Estimate, averaged, mean, p90, p99, pooled
from monkeytree.simulation.figures.published import published
from monkeytree.simulation.figures.reproduce import missing, run_missing, write
from monkeytree.simulation.figures.runs import Run, Runs, describe, key_of
from monkeytree.simulation.figures.table import markdown, misses, verdict

ALL = list(FIGURES.values())
TINY = Sample(repetitions=1, jobs=4, compress=20)


def a_run(slowdowns: Sequence[float], **setup: object) -> Run:
    return Run(setup, {"migrations": 3}, tuple(slowdowns), ())


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_every_run_is_of_a_known_system_and_made_once(figure: Figure) -> None:
    for sample in figure.samples.values():
        setups = figure.setups(sample)
        assert {setup.system for setup in setups} <= set(SYSTEMS)
        keys = [key_of(describe(setup)) for setup in setups]
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_no_number_of_the_authors_is_left_out(figure: Figure) -> None:
    def numbers(part: object) -> list[float]:
        if isinstance(part, dict):
            return [n for value in part.values() for n in numbers(value)]
        if isinstance(part, list):
            return [n for value in part for n in numbers(value)]
        return [float(part)] if isinstance(part, int | float) else []

    compared = [row.theirs for row in figure.rows(TINY, lambda _: None) if row.theirs is not None]
    assert sorted(compared) == sorted(numbers(published(figure.name)))


def test_figures_go_by_many_names() -> None:
    assert {figure_named(name).name for name in ("6", "06", "fig6", "Figure 6")} == {"fig06"}
    assert figure_named("14A").name == "fig14a"
    with pytest.raises(KeyError):
        figure_named("14")


def test_seeds_are_the_artifacts() -> None:
    assert [load_seed(load, 1) for load in (0.5, 0.7, 0.8, 0.9, 1.0)] == [1001, 3001, 4001, 5001, 6001]
    assert load_seed(1.0, 3) == 6003


def test_pooled_values_and_their_intervals() -> None:
    runs = [a_run([1.0, 1.2]), a_run([1.0, 1.6]), a_run([1.1, 1.1])]
    estimate = pooled(runs, mean)
    assert estimate is not None
    assert estimate.value == pytest.approx(7 / 6)
    means = [1.1, 1.3, 1.1]
    assert estimate.half_width == pytest.approx(4.303 * stdev(means) / sqrt(3))
    assert pooled([], p99) is None
    alone = pooled(runs[:1], p90)
    assert alone == Estimate(pytest.approx(1.18), None, 1)
    assert averaged([2.0, 4.0]) == Estimate(fmean([2, 4]), pytest.approx(12.706 * sqrt(2) / sqrt(2)), 2)


def test_deviations_and_misses() -> None:
    near = Row(("ECMP", "1.0"), "mean", Estimate(1.54, 0.01, 3), 1.5, 0.05)
    far = Row(("ECMP", "1.0"), "p99", Estimate(3.0, None, 1), 3.6, 0.10)
    unasked = Row(("ECMP", "1.0"), "p90", Estimate(2.0, None, 1), 2.5)
    idle = Row(("Crux", "1.0"), "mean", None, 1.2, 0.05)
    assert near.deviation == pytest.approx(0.0266, abs=1e-4)
    assert [row.misses for row in (near, far, unasked, idle)] == [False, True, False, False]
    assert misses([near, far, unasked, idle]) == ["ECMP 1.0 p99: 3.000, theirs 3.600, -16.7 % (asked: 10 %)"]
    assert verdict([near, far, unasked, idle]) == (
        "1 of 2 numbers with a bound are within it. 1 have none. 1 have not been run at this sample."
    )
    page = markdown(FIGURES["fig06"], TINY, [near, far, unasked, idle])
    assert "| ECMP | 1.0 | p99 | 3.000 | 3.600 | -16.7 % | ≤ 10 % **miss** |" in page
    assert "| Crux | 1.0 | mean | not run | 1.200 | – | ≤ 5 % |" in page


def test_runs_are_kept_once_and_by_all(tmp_path: Path) -> None:
    figure = FIGURES["fig13"]
    runs, others = Runs(tmp_path), Runs(tmp_path)
    setups = figure.setups(TINY)
    run_missing(figure, TINY, runs, at_most=1)
    first = (tmp_path / "fig13.jsonl.gz").read_bytes()
    others.keep("fig13", a_run([1.0], **describe(setups[1])))
    read = Runs(tmp_path)
    assert [read.find(setup) is not None for setup in setups[:3]] == [True, True, False]
    assert missing(figure, TINY, read) == list(setups[2:])
    run = runs.find(setups[0])
    assert run is not None
    assert len(run.slowdowns) == 4
    again = Runs(tmp_path / "again")
    again.keep("fig13", run)
    assert (tmp_path / "again" / "fig13.jsonl.gz").read_bytes() == first


def test_pictures_and_tables_are_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = FIGURES["fig13"]
    runs = Runs(tmp_path / "results")
    run_missing(figure, TINY, runs)
    assert missing(figure, TINY, runs) == []
    one = write(figure, TINY, runs, tmp_path)
    two = write(figure, TINY, Runs(tmp_path / "results"), tmp_path / "again")
    assert one.picture.read_bytes() == two.picture.read_bytes()
    assert one.table.read_text() == two.table.read_text()
    assert "not run" not in one.table.read_text()


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_a_figure_without_runs_can_be_drawn(figure: Figure, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = write(figure, TINY, Runs(tmp_path), tmp_path, kind="png")
    assert done.picture.stat().st_size > 5_000
    assert "not run" in done.table.read_text()
