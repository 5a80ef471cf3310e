"""Runs between shards, beside slicing of whole arrays."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from monkeytree.agent.pytorch.boxes import Box, runs


@st.composite
def shards(draw: st.DrawFn) -> tuple[tuple[int, ...], Box, Box]:
    sizes = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))

    def box() -> Box:
        lows = [draw(st.integers(0, size - 1)) for size in sizes]
        reach = [draw(st.integers(1, size - low)) for size, low in zip(sizes, lows, strict=True)]
        return Box(tuple(lows), tuple(reach))

    return sizes, box(), box()


def cut(whole: np.ndarray, box: Box) -> np.ndarray:
    place = tuple(slice(low, low + size) for low, size in zip(box.offsets, box.sizes, strict=True))
    return np.ascontiguousarray(whole[place]).reshape(-1)


@given(shards())
def test_runs_carry_exactly_the_overlap(case: tuple[tuple[int, ...], Box, Box]) -> None:
    sizes, source, target = case
    whole = np.arange(1, prod(sizes) + 1).reshape(sizes)
    held, wanted = cut(whole, source), cut(whole, target)
    got = np.zeros_like(wanted)
    for run in runs(source, target):
        assert not got[run.target : run.target + run.length].any()  # no element twice
        got[run.target : run.target + run.length] = held[run.source : run.source + run.length]
    expected = np.where(np.isin(wanted, held), wanted, 0)
    assert (got == expected).all()


@given(shards())
def test_the_same_box_is_one_run(case: tuple[tuple[int, ...], Box, Box]) -> None:
    _, source, _ = case
    (run,) = runs(source, source)
    assert (run.source, run.target, run.length) == (0, 0, prod(source.sizes))


def test_rows_over_the_first_dimension_are_one_run() -> None:
    (run,) = runs(Box((4, 0), (4, 8)), Box((2, 0), (4, 8)))
    assert (run.source, run.target, run.length) == (0, 16, 16)
