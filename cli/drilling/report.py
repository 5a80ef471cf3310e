"""The figures of a drill, and how they are printed."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .outcome import Outcome, differences

PAPER_BEYOND_WIRE_S_PER_GB = 0.75
"""The paper's prototype: 10.09 s of pause, 1.07 s of it on the wire, for a shard of 12 GB."""

Document = dict[str, Any]


def make_report(
    run: Outcome, reference: Outcome, result: Document, moved: int, ranks: int, **more: Any
) -> Document:
    """Everything as one JSON document.

    Args:
        result: of the controller: the last status of every pause and move.
        moved: the rank that moved.
        more: members that the caller knows.
    """
    found = differences(run, reference, ranks)
    pauses = [one for one in result.get("pauses", {}).values() if one]
    moves = [one for one in result.get("moves", {}).values() if one]
    source = next((one for one in moves if one["role"] == "source"), None)
    decisions = {one["decision"] for one in pauses if one["decision"]}
    at = next((one["step"] for one in pauses if one["step"] is not None), None)
    pause_s = _longest_boundary(run, at, moved, ranks)
    wire_s = source["wire_s"] if source else None
    gigabytes = source["bytes_sent"] / 1e9 if source and source["bytes_sent"] else None
    moved_on = bool(source and source["state"] == "RELEASED")
    beyond = pause_s - wire_s if pause_s is not None and wire_s is not None and moved_on else None
    return {
        "identical": not found,
        "rank": moved,
        "ranks": ranks,
        "differences": found,
        "losses_equal": not any("losses" in one or "twice" in one for one in found),
        "digest_equal": not any("ended with" in one for one in found),
        "decision": "undo" if "undo" in decisions else next(iter(decisions), None),
        "moved": moved_on,
        "pause_s": pause_s,
        "wire_s": wire_s,
        "beyond_wire_s": beyond,
        "beyond_wire_s_per_gb": beyond / gigabytes if beyond is not None and gigabytes else None,
        "paper_beyond_wire_s_per_gb": PAPER_BEYOND_WIRE_S_PER_GB,
        "state_gb": gigabytes,
        "paused_at_step": at,
        "steps": run.steps,
        "iteration_s": _iteration_s(run),
        "first_iteration_s": _of(run, at, "train_s", moved, ranks),
        "reformed_s": max((one["seconds"] for one in run.events if _formed_again(one)), default=None),
        "phases": _phases(moves),
        "figures": {one["role"]: one["figures"] for one in moves},
        "pause_figures": _merged(one["figures"] for one in pauses),
        "errors": [one["error"] for one in [*moves, *pauses] if one["error"]],
        **more,
    }


def _formed_again(event: Document) -> bool:
    return event["event"] == "formed" and event.get("group") != "start"


def _longest_boundary(run: Outcome, at: int | None, moved: int, ranks: int) -> float | None:
    """The longest that a rank which stays stood at the boundary: what the job lost, as the job sees it."""
    return _of(run, at, "boundary_s", moved, ranks)


def _of(run: Outcome, at: int | None, name: str, moved: int, ranks: int) -> float | None:
    if at is None:
        return None
    lines = [run.iterations.get((rank, at + 1)) for rank in range(ranks) if rank != moved]
    return max((line[name] for line in lines if line), default=None)


def _iteration_s(run: Outcome) -> float | None:
    seconds = [line["train_s"] for line in run.iterations.values()]
    return median(seconds) if seconds else None


def _phases(moves: list[Document]) -> list[Document]:
    """States of both sides with their times, by when they began."""
    rows = [{"side": one["role"], **phase} for one in moves for phase in one["phases"]]
    return sorted(rows, key=lambda row: row["started_at"])


def _merged(figures: Any) -> dict[str, float]:
    """The longest of each."""
    merged: dict[str, float] = {}
    for one in figures:
        for name, value in one.items():
            merged[name] = max(value, merged.get(name, value))
    return merged


def print_report(console: Console, report: Mapping[str, Any]) -> None:
    """For people."""
    if report["identical"]:
        console.print(
            f"[green]identical[/green]: all {report['steps']} losses of {report['ranks']} ranks, and the "
            "digest of weights and optimizer state, are those of the unmigrated run"
        )
    else:
        console.print("[red]not identical[/red] to the unmigrated run:")
        for one in report["differences"]:
            console.print(f"  {escape(one)}", highlight=False)
    console.print(_what_happened(report), highlight=False)
    if report["pause_s"] is not None:
        console.print(_pause(report), highlight=False)
        console.print(_phase_table(report["phases"]))


def _what_happened(report: Mapping[str, Any]) -> str:
    kill = report["killed"]
    killed = f"; killed: {kill['who']} at {kill['at']}" if kill else ""
    errors = sorted({one["code"] for one in report["errors"]})
    because = f" ({', '.join(errors)})" if errors else ""
    outcome = "moved" if report["moved"] else "did not move"
    return f"rank {report['rank']} {outcome}, the job decided: {report['decision']}{because}{killed}"


def _pause(report: Mapping[str, Any]) -> str:
    said = f"pause {report['pause_s']:.3f} s at step {report['paused_at_step']}"
    if report["beyond_wire_s"] is not None:
        said += (
            f"; {report['state_gb']:.3f} GB in {report['wire_s']:.3f} s on the wire; beyond it "
            f"{report['beyond_wire_s']:.3f} s, {report['beyond_wire_s_per_gb']:.2f} s/GB "
            f"(the paper: {PAPER_BEYOND_WIRE_S_PER_GB} s/GB)"
        )
    return said


def _phase_table(phases: list[Document]) -> Table:
    table = Table(title="Phases of the move", title_justify="left")
    for heading in ("side", "state"):
        table.add_column(heading)
    for heading in ("began at, s", "lasted, s"):
        table.add_column(heading, justify="right")
    zero = next((row["started_at"] for row in phases if row["name"] == "PAUSED"), None)
    for row in phases:
        began = "" if zero is None else f"{row['started_at'] - zero:+.3f}"
        table.add_row(
            row["side"], row["name"], began, "" if row["seconds"] is None else f"{row['seconds']:.3f}"
        )
    return table


def unfinished(kill: str | None, warm: bool, why: str) -> Document:
    """What a matrix says of a drill whose job or move did not come to its end."""
    told = {"errors": [{"code": "not_finished", "message": why}], "differences": [why]}
    missing = dict.fromkeys(("killed", "decision", "pause_s"))
    return {"kill": kill, "warm": warm, "identical": False, "moved": False, **missing, **told}


def print_matrix(console: Console, reports: list[Document]) -> None:
    """One line for each drill."""
    table = Table(title="Drills", title_justify="left")
    for heading in ("drill", "hit at", "rank moved", "decision", "errors"):
        table.add_column(heading)
    for heading in ("pause, s", "identical"):
        table.add_column(heading, justify="right")
    for one in reports:
        what = one["kill"] or ("warm" if one["warm"] else "cold")
        hit = one["killed"]["at"] if one["killed"] else "-" if one["kill"] is None else "nothing to kill"
        pause = "" if one["pause_s"] is None else f"{one['pause_s']:.3f}"
        identical = "[green]yes[/green]" if one["identical"] else "[red]NO[/red]"
        errors = ", ".join(sorted({error["code"] for error in one["errors"]}))
        moved = "yes" if one["moved"] else "no"
        table.add_row(what, hit, moved, one["decision"] or "-", errors, pause, identical)
    console.print(table)
    good = sum(one["identical"] for one in reports)
    console.print(f"{good} of {len(reports)} drills are identical to the unmigrated run")
