"""Pictures that come out the same, byte by byte, wherever they are drawn."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


def pyplot() -> Any:
    """matplotlib's pyplot, set for files.

    Raises:
        ImportError: matplotlib is not installed.
    """
    matplotlib = import_module("matplotlib")  # an extra, and untyped where it is not installed
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "monkeytree", "svg.fonttype": "none", "font.size": 9})
    return import_module("matplotlib.pyplot")


def save(figure: Any, file: Path) -> None:
    """Write a figure into an SVG or PNG file, and let go of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120, metadata={"Date": None} if file.suffix == ".svg" else None)
    pyplot().close(figure)
