"""What a figure is: runs to make, rows to compare, a picture to draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..setup import Setup
from .measure import Estimate
from .runs import Run

MORE = 2
"""How much more the time of routers alone is compressed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """How much is simulated: repetitions of how many jobs each, with their time compressed so many times.

    ``whole`` names the systems whose time is not compressed.
    """

    repetitions: int
    jobs: int
    compress: int = 1
    whole: tuple[str, ...] = ()

    def compress_for(self, system: str) -> int:
        """``compress``, and for routers alone, which wait for no barrier, :data:`MORE` times that."""
        if system in self.whole:
            return 1
        return self.compress * (1 if self.compress == 1 or system.startswith("monkeytree") else MORE)


Find = Callable[[Setup], Run | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One number of ours beside theirs.

    Attributes:
        point: where in the figure: a few words, one a column.
        measure: what it is (``mean``, ``p99``, ``migrations`` ...).
        ours: None where the run has not been made.
        theirs: None where they publish none.
        within: largest relative deviation that counts as agreement; None where none is claimed.
    """

    point: tuple[str, ...]
    measure: str
    ours: Estimate | None
    theirs: float | None
    within: float | None = None

    @property
    def deviation(self) -> float | None:
        """(ours - theirs) / theirs."""
        if self.ours is None or not self.theirs:
            return None
        return self.ours.value / self.theirs - 1

    @property
    def misses(self) -> bool:
        """Whether agreement was asked for and is not there."""
        deviation = self.deviation
        return self.within is not None and deviation is not None and abs(deviation) > self.within


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper.

    Attributes:
        name: ``fig06`` ...; also the name of its entry in published.json and of its files.
        title: what it shows.
        columns: headings of ``Row.point``.
        samples: by scale; each figure has ``quick``, ``stated`` and ``paper``.
        setups: all runs of a sample.
        rows: the comparison, from the runs that have been made.
        draw: the picture, onto a matplotlib figure.
        remarks: what to know when comparing.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    samples: Mapping[str, Sample]
    setups: Callable[[Sample], Sequence[Setup]]
    rows: Callable[[Sample, Find], Sequence[Row]]
    draw: Callable[[Any, Sample, Find], None]
    remarks: tuple[str, ...] = ()


def found(setups: Sequence[Setup], find: Find) -> list[Run]:
    """The runs of ``setups`` that have been made."""
    return [run for run in map(find, setups) if run is not None]


def load_seed(load: float, repetition: int) -> int:
    """Seed of the artifact's traces: 1000 for each step of 0.1 from load 0.5, and the repetition."""
    return round((load - 0.4) * 10) * 1000 + repetition
