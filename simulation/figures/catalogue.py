"""All figures that can be regenerated, by name."""

from __future__ import annotations

from collections.abc import Mapping

from . import fig06, fig08, fig09, fig13, fig14, fig15, fig16
from .figure import Figure

FIGURES: Mapping[str, Figure] = {
    figure.name: figure
    for figure in (
        fig06.FIGURE, fig08.FIGURE, fig09.FIGURE, fig09.TIMES, fig13.FIGURE, fig14.RAILS, fig14.PODS,
        fig15.FIGURE, fig16.FIGURE,
    )
}  # fmt: skip
"""By ``fig06`` ...; :func:`figure_named` also takes 6, fig6 and 14a."""


def figure_named(name: str) -> Figure:
    """The figure that ``name`` means.

    Raises:
        KeyError: none.
    """
    text = name.lower().removeprefix("figure").removeprefix("fig").strip(" -_.")
    number = text.rstrip("ab")
    return FIGURES[f"fig{number.zfill(2)}{text[len(number) :]}"]
