"""Tables in Markdown, aligned, so that a run can be pasted into docs/bench.md."""

from __future__ import annotations

import math
from collections.abc import Sequence


def heading(text: str) -> None:
    """Start a section."""
    print(f"\n## {text}\n", flush=True)


def show(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column to the left, the others to the right."""
    widths = [max(len(line[at]) for line in (titles, *rows)) for at in range(len(titles))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
        return "| " + " | ".join(padded) + " |"

    print(line(titles))
    print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    for row in rows:
        print(line(row))
    print(flush=True)


def number(value: float) -> str:
    """Three significant digits or so; a dash for NaN."""
    if math.isnan(value):
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def share(part: int, whole: int) -> str:
    """A share in per cent."""
    if not whole:
        return "-"
    return f"{100 * part / whole:.0f} %" if part in (0, whole) else f"{100 * part / whole:.1f} %"
