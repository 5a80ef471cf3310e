"""What the pictures share: colours, marks, and files that are the same to the byte each time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from .measure import Estimate

# Okabe and Ito's colours, told apart by the colour-blind too.
COLOURS: Mapping[str, str] = {
    "ecmp": "#E69F00", "crux": "#56B4E9", "perfect": "#0072B2", "sglb": "#CC79A7", "cassini": "#F0E442",
    "monkeytree": "#009E73", "monkeytree3": "#000000", "monkeytree-ecmp": "#D55E00",
    "monkeytree-crux": "#7F7F7F", "monkeytree-sglb": "#8C564B",
}  # fmt: skip
NAMES: Mapping[str, str] = {
    "ecmp": "ECMP", "crux": "Crux", "perfect": "Perfect routing", "sglb": "SGLB", "monkeytree": "MonkeyTree",
    "monkeytree3": "MonkeyTree, pods bounded too", "monkeytree-ecmp": "MonkeyTree over ECMP",
    "monkeytree-crux": "MonkeyTree over Crux", "monkeytree-sglb": "MonkeyTree over SGLB",
}  # fmt: skip

At = TypeVar("At", bound=float)


class NoMatplotlib(Exception):
    """matplotlib is not installed; the message names the cure."""


def require_matplotlib() -> None:
    """For before runs are made: whether they can be drawn.

    Raises:
        NoMatplotlib: it is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        message = "pictures need matplotlib: pip install 'monkeytree[figures]'"
        raise NoMatplotlib(message) from None


def new_picture(width: float = 9.0, height: float = 4.0) -> Any:
    """An empty figure, in inches.

    Raises:
        NoMatplotlib: it is not installed.
    """
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure as Picture

    matplotlib.rcParams.update({"svg.hashsalt": "monkeytree", "font.size": 9, "axes.grid": True,
                                "grid.alpha": 0.3, "axes.axisbelow": True})  # fmt: skip
    return Picture(figsize=(width, height), layout="constrained")


def save(picture: Any, path: Path) -> None:
    """Write ``picture``; SVG without dates, so that the same numbers give the same file."""
    metadata = {"Date": None} if path.suffix == ".svg" else None
    picture.savefig(path, metadata=metadata, dpi=110)


def bars(axes: Any, at: float, width: float, value: float, interval: float | None, colour: str) -> None:
    """One bar, with its interval."""
    axes.bar(at, value, width, color=colour, yerr=interval or None, capsize=2, error_kw={"lw": 0.8})


def line(axes: Any, system: str, ours: Mapping[At, Estimate | None], published: Mapping[At, float]) -> None:
    """A system over what varies: a line of ours where there is one, diamonds of theirs."""
    known = {at: one.value for at, one in ours.items() if one is not None}
    axes.plot(list(known), list(known.values()), color=COLOURS[system], marker="o", markersize=3,
              label=NAMES[system])  # fmt: skip
    for at, value in published.items():
        theirs(axes, at, value, COLOURS[system])


def explain_theirs(axes: Any) -> None:
    """The diamond in the legend."""
    axes.plot([], [], marker="D", color="black", markerfacecolor="white", ls="none", label="the authors")


def theirs(axes: Any, x: float, y: float, colour: str = "black") -> None:
    """A number of the authors: a hollow diamond."""
    axes.plot([x], [y], marker="D", markersize=5, markerfacecolor="white", markeredgecolor=colour, ls="none",
              zorder=5)  # fmt: skip
