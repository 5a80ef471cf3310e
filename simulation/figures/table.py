"""The comparison as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from .drawing import NAMES
from .figure import MORE, Figure, Row, Sample
from .measure import Estimate
from .published import published


def markdown(figure: Figure, sample: Sample, rows: Sequence[Row]) -> str:
    """The page of a figure: picture, sample, table, and what misses."""
    lines = [
        f"# {figure.title}",
        "",
        f"![{figure.title}]({figure.name}.svg)",
        "",
        f"Sample: {sample.repetitions} repetition{'s' * (sample.repetitions != 1)} of {sample.jobs:,} jobs"
        f"{_compressed(sample)}. "
        "± is half the 95 % interval over repetitions (Student's t).",
        f"Theirs: {published(figure.name)['source']}.",
        *(f"\n{remark}" for remark in figure.remarks),
        "",
        f"| {' | '.join(figure.columns)} | measure | ours | theirs | deviation | asked |",
        f"|{'---|' * (len(figure.columns) + 5)}",
        *(_line(row, sample) for row in rows),
        "",
        verdict(rows),
    ]
    return "\n".join(lines) + "\n"


def verdict(rows: Sequence[Row]) -> str:
    """How many numbers agree, miss, or have not been run."""
    asked = [row for row in rows if row.within is not None and row.deviation is not None]
    missed = [row for row in rows if row.misses]
    idle = sum(row.ours is None for row in rows)
    words = [f"{len(asked) - len(missed)} of {len(asked)} numbers with a bound are within it."]
    words += [f"{len(rows) - len(asked) - idle} have none."] if len(rows) - len(asked) - idle else []
    words += [f"{idle} have not been run at this sample."] if idle else []
    return " ".join(words)


def misses(rows: Sequence[Row]) -> list[str]:
    """A line for each number out of its bound."""
    return [
        f"{' '.join(row.point)} {row.measure}: {_number(row.ours)}, theirs {_plain(row.theirs)}, "
        f"{_percent(row.deviation)} (asked: {_percent(row.within, sign=False)})"
        for row in rows
        if row.misses
    ]


def _compressed(sample: Sample) -> str:
    if sample.compress == 1:
        return ""
    uncompressed = " and ".join(NAMES[system] for system in sample.whole)
    return (
        f", time compressed {sample.compress} times (arrivals, iterations, bytes of state and pauses; "
        f"waits for barriers are not), for routers alone {MORE} times as much: they wait for no barrier, so "
        "only the iterations over which a slowdown is averaged grow fewer"
        + (f"; not at all for {uncompressed}" if sample.whole else "")
    )


def _line(row: Row, sample: Sample) -> str:
    mark = " **miss**" if row.misses else ""
    asked = "" if row.within is None else f"≤ {_percent(row.within, sign=False)}{mark}"
    few = row.ours is not None and row.ours.repetitions < sample.repetitions
    made = f" ({row.ours.repetitions} of {sample.repetitions} repetitions)" if row.ours and few else ""
    cells = [
        *row.point,
        row.measure,
        _number(row.ours) + made,
        _plain(row.theirs),
        _percent(row.deviation),
        asked,
    ]
    return f"| {' | '.join(cells)} |"


def _number(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not run"
    if estimate.half_width is None:
        return _plain(estimate.value)
    return f"{_plain(estimate.value)} ± {_plain(estimate.half_width)}"


def _plain(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 20 else f"{value:.3f}"


def _percent(part: float | None, *, sign: bool = True) -> str:
    if part is None:
        return "–"
    return f"{100 * part:+.1f} %" if sign else f"{100 * part:g} %"
