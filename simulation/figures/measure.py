"""Figures of several repetitions: pooled values, and how sure they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from ..run import quantile
from .runs import Run

# Two-sided 95 % points of Student's t by degrees of freedom (any table; beyond ten the normal one is near).
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value over repetitions; ``half_width`` of its 95 % interval, None with one repetition."""

    value: float
    half_width: float | None
    repetitions: int


Measure = Callable[[Sequence[float]], float]


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return fmean(values)


def p90(values: Sequence[float]) -> float:
    """90th percentile, between neighbours linearly."""
    return quantile(sorted(values), 0.9)


def p99(values: Sequence[float]) -> float:
    """99th percentile, likewise."""
    return quantile(sorted(values), 0.99)


def pooled(runs: Sequence[Run], measure: Measure) -> Estimate | None:
    """``measure`` of the slowdowns of all jobs of all repetitions, as the authors pool theirs.

    The interval is that of the repetitions' own values (Student's t): jobs of a run feel each other, so
    they are no independent sample; runs are.
    """
    if not runs:
        return None
    value = measure([slowdown for run in runs for slowdown in run.slowdowns])
    return Estimate(value, _half_width([measure(run.slowdowns) for run in runs]), len(runs))


def averaged(values: Sequence[float]) -> Estimate | None:
    """The mean of one value a repetition."""
    if not values:
        return None
    return Estimate(fmean(values), _half_width(values), len(values))


def _half_width(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    t = _T95[len(values) - 2] if len(values) - 1 <= len(_T95) else 1.96
    return t * stdev(values) / sqrt(len(values))
