"""A picture of a replay: what each uplink carried over time, the subject beside its ECMP control (SVG)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from xml.sax.saxutils import escape as escape_xml

from .junit import clean
from .network import Hop
from .replay import CONTROL_ECMP, Replay
from .simulate import Samples
from .verdict import Run

Line = list[float]
"""One value an interval."""

MOST_PANELS = 24
COLUMNS = 3
WIDTH, HEIGHT, GAP, LEFT, TOP = 300, 110, 46, 60, 90
COLOURS = {"plan": "#1b7837", "placement": "#1b7837", CONTROL_ECMP: "#d95f02"}
QUEUE_BYTES = 2e6
"""Top of the scale of queues."""


def plot(found: Replay, interval_us: float) -> str:
    """An SVG document: one panel an uplink, throughput (lines) and queue (dashed) over time.

    Args:
        interval_us: between two samples of a port.
    """
    runs = [found.subject, *(run for run in found.controls if run.name == CONTROL_ECMP)]
    by_run = {run.name: _uplinks(run) for run in runs}
    carried: dict[str, int] = {}
    for uplinks in by_run.values():
        for name, (sent, _) in uplinks.items():
            carried[name] = max(carried.get(name, 0), sent[-1] if sent else 0)
    busiest = sorted(carried, key=lambda name: (-carried[name], name))[:MOST_PANELS]
    samples = max((len(sent) for uplinks in by_run.values() for sent, _ in uplinks.values()), default=1)
    gbps = found.subject.traffic.network.uplink_gbps
    width = LEFT + COLUMNS * (WIDTH + GAP)
    height = TOP + max(1, -(-len(busiest) // COLUMNS)) * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_heading(found, runs, len(busiest), len(carried)),
    ]
    for index, name in enumerate(sorted(busiest)):
        x = LEFT + (index % COLUMNS) * (WIDTH + GAP)
        y = TOP + (index // COLUMNS) * (HEIGHT + GAP)
        parts += _panel(x, y, name, gbps, samples * interval_us)
        for run, uplinks in by_run.items():
            if name in uplinks:
                sent, queue = uplinks[name]
                parts.append(_polyline(x, y, _rates(sent, interval_us), gbps, samples, COLOURS[run]))
                drawn = _polyline(x, y, [float(q) for q in queue], QUEUE_BYTES, samples, COLOURS[run])
                parts.append(drawn.replace("<polyline", '<polyline stroke-dasharray="2 2"', 1))
    return "\n".join([*parts, "</svg>", ""])


def _uplinks(run: Run) -> dict[str, Samples]:
    """Samples of the first uplink of each cross-rack flow, by its name."""
    names: Mapping[int, str] = run.traffic.network.names
    hops: set[Hop] = {v.flow.hops[1] for v in run.crossing if v.flow.path}
    return {
        f"{names[hop[0]]} to {names[hop[1]]}": run.outcome.samples[hop]
        for hop in hops
        if hop in run.outcome.samples
    }


def _rates(sent: list[int], interval_us: float) -> Line:
    return [(after - before) * 8 / (interval_us * 1000) for before, after in pairwise([0, *sent])]


def _heading(found: Replay, runs: list[Run], shown: int, all_of: int) -> list[str]:
    verdict = "isolated" if found.subject.isolated else "not isolated"
    title = f"{found.snapshot.cluster}: {verdict}"
    if shown < all_of:
        title += f" (the {shown} busiest uplinks of {all_of})"
    top = f"{QUEUE_BYTES / 1e6:g} MB"
    axes = f"lines: throughput, Gb/s; dashed: queue, the whole height is {top}; across: time, us"
    parts = [
        f'<text x="{LEFT}" y="24" font-size="15">{escape_xml(clean(title))}</text>',
        f'<text x="{LEFT}" y="64" fill="#666">{axes}</text>',
    ]
    for index, run in enumerate(runs):
        x = LEFT + index * 260
        parts.append(f'<rect x="{x}" y="40" width="18" height="4" fill="{COLOURS[run.name]}"/>')
        slowest = max((v.slowdown for v in run.crossing if v.slowdown is not None), default=0.0)
        name = "hashed ECMP (control)" if run.name == CONTROL_ECMP else run.name
        parts.append(f'<text x="{x + 24}" y="46">{name}, slowest flow {slowest:.2f}</text>')
    return parts


def _panel(x: float, y: float, name: str, gbps: float, end_us: float) -> list[str]:
    return [
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>',
        f'<text x="{x}" y="{y - 5}">{escape_xml(clean(name))}</text>',
        f'<text x="{x - 4}" y="{y + 9}" text-anchor="end" fill="#666">{gbps:g}</text>',
        f'<text x="{x - 4}" y="{y + HEIGHT}" text-anchor="end" fill="#666">0</text>',
        f'<text x="{x + WIDTH}" y="{y + HEIGHT + 13}" text-anchor="end" fill="#666">{end_us:.0f}</text>',
    ]


def _polyline(x: float, y: float, line: Line, top: float, samples: int, colour: str) -> str:
    points = [
        f"{x + WIDTH * (at + 1) / samples:.1f},{y + HEIGHT * (1 - min(1.05, value / top)):.1f}"
        for at, value in enumerate(line)
    ]
    return f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.2"/>'
