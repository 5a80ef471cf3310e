"""The pictures of bench.migration: the phases of a move, and the pause against the number of ranks."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from . import drawing

Document = dict[str, Any]

PAPER = (
    ("source", 0.0, 3.93, "compose 3.93 s", "#c44e52"),
    ("wire", 3.93, 6.05, "serialise, allocate 2.12 s", "#dd8452"),
    ("wire", 6.05, 7.12, "wire 1.07 s", "#4c72b0"),
    ("destination", 7.12, 10.09, "start 2.97 s", "#8172b3"),
)
"""The paper's measured move of a 12 GB shard, laid end to end (its sections of a migration, A100 testbed)."""

STATES = {
    "PREPARED": "#bbbbbb", "ARMED": "#bbbbbb", "PAUSED": "#dd8452", "SENDING": "#4c72b0",
    "VERIFIED": "#55a868", "DECIDED": "#8172b3", "REFORMED": "#64b5cd",
}  # fmt: skip


def timeline(found: Document, file: Path) -> None:
    """The paper's phases above, ours below, each on its own clock.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure, (above, below) = drawing.pyplot().subplots(2, 1, figsize=(9, 5.4), layout="constrained")
    rows = ["source", "wire", "destination"]
    for row, start, end, label, colour in PAPER:
        above.barh(rows.index(row), end - start, left=start, color=colour, height=0.6)
        above.text((start + end) / 2, rows.index(row), label, ha="center", va="center", fontsize=8)
    _dress(above, rows, "the paper's prototype: 12 GB, pause 10.09 s, 0.75 s/GB beyond the wire")
    _ours(found, below)
    gigabytes, pause, wire = found["state_gb"], found["pause_s"], found["wire_s"]
    said = f"here: {gigabytes:.2f} GB over a socket, pause {pause:.2f} s, {wire:.2f} s of it on the wire, "
    _dress(below, ["source", "destination", "ranks that stay"],
           said + f"{found['beyond_wire_s_per_gb']:.2f} s/GB beyond it")  # fmt: skip
    below.set_xlabel("seconds since the job paused")
    drawing.save(figure, file)


def _ours(found: Document, axis: Any) -> None:
    zero = min(row["started_at"] for row in found["phases"] if row["name"] == "PAUSED")
    until = found["pause_s"] + max(0.1, 0.25 * found["pause_s"])
    labelled = set()
    for phase in found["phases"]:
        if phase["name"] not in STATES or phase["seconds"] is None:
            continue
        start = max(phase["started_at"] - zero, -0.1 * until)
        end = min(phase["started_at"] + phase["seconds"] - zero, until)
        if end <= start:
            continue
        label = None if phase["name"] in labelled else phase["name"].lower()
        labelled.add(phase["name"])
        row = 0 if phase["side"] == "source" else 1
        axis.barh(row, end - start, left=start, color=STATES[phase["name"]], height=0.6, label=label)
    axis.barh(2, found["pause_s"], left=0, color="#c44e52", height=0.6, label="pause of the job")
    axis.set_xlim(-0.1 * until, until)
    axis.legend(frameon=False, fontsize=8, ncols=7, loc="upper center", bbox_to_anchor=(0.5, -0.25))


def by_ranks(curve: list[Document], file: Path) -> None:
    """Pause and re-forming against the ranks.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure, axis = drawing.pyplot().subplots(figsize=(6.4, 4), layout="constrained")
    ranks = [one["ranks"] for one in curve]
    for name, style, label in (
        ("pause_s", "o-", "pause of the job"),
        ("reformed_s", "s--", "of it re-forming the group"),
        ("wire_s", "^:", "of it on the wire (1 MB)"),
    ):
        axis.plot(ranks, [1e3 * median(one[name]) for one in curve], style, markersize=4, label=label)
    axis.set_xscale("log", base=2)
    axis.set_xticks(ranks, [str(one) for one in ranks])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.set_xlabel("gloo ranks, all on one machine")
    axis.set_ylabel("ms")
    axis.set_title("A warm move of one rank, state of 1 MB")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    drawing.save(figure, file)


def _dress(axis: Any, rows: list[str], title: str) -> None:
    axis.set_yticks(range(len(rows)), rows)
    axis.invert_yaxis()
    axis.set_title(title, fontsize=9)
    axis.grid(axis="x", alpha=0.3)
