"""The plan's sums: moves, undrained workers, paused jobs, seconds of pause, objective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import isclose
from typing import Any

from .fault import Fault, pointer_to, show
from .outcome import Outcome, left_on_draining
from .placement import Placement

TOLERANCE = 1e-6
"""Relative difference up to which two numbers of seconds are the same."""


def total_faults(plan: Mapping[str, Any], outcome: Outcome, placement: Placement) -> list[Fault]:
    """All wrong sums of ``plan``."""
    return [
        *_move_faults(plan, placement),
        *_undrained_faults(plan, outcome, placement),
        *_pause_faults(plan, outcome, placement),
        *_objective_faults(plan, outcome, placement),
    ]


def same_seconds(one: float, other: float) -> bool:
    """Whether two numbers of seconds are equal but for rounding."""
    return isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-9)


def _move_faults(plan: Mapping[str, Any], placement: Placement) -> Iterator[Fault]:
    moves, needed = len(plan["moves"]), plan["moves_needed"]
    if needed != moves:
        yield Fault("wrong_moves_needed", "/moves_needed", f"there are {moves} moves, not {needed}")
    most = placement.planning.max_moves
    if most is not None and moves > most:
        yield Fault("max_moves_exceeded", "/moves", f"there are {moves} moves, max_moves is {most}")
    bound = plan["lower_bound"]
    if bound is not None and bound > needed:
        message = f"the lower bound {bound} is above the {needed} moves needed"
        yield Fault("bound_above_value", "/lower_bound", message)


def _undrained_faults(plan: Mapping[str, Any], outcome: Outcome, placement: Placement) -> Iterator[Fault]:
    left = left_on_draining(outcome.workers, placement)
    listed = set()
    for index, entry in enumerate(plan["undrained"]):
        key = (entry["job"], entry["group"], entry["rank"], entry["node"])
        if key not in left or key in listed:
            message = f"{key} is not left on a draining node, or listed already"
            yield Fault("wrong_undrained", pointer_to("undrained", index), message)
        listed.add(key)
    missing = sorted(left - listed)
    if missing:
        yield Fault("wrong_undrained", "/undrained", f"{show(missing)} stay on draining nodes, not listed")


def _pause_faults(plan: Mapping[str, Any], outcome: Outcome, placement: Placement) -> Iterator[Fault]:
    paused = len(outcome.paused_jobs)
    if plan["jobs_paused"] != paused:
        message = f"{paused} jobs are moved or reordered, not {plan['jobs_paused']}"
        yield Fault("wrong_jobs_paused", "/jobs_paused", message)
    seconds = sum(pause_by_job(outcome, placement, one_wave=False).values())
    if not same_seconds(plan["pause_s"], seconds):
        yield Fault("wrong_pause", "/pause_s", f"the pauses add up to {seconds:.6f} s, not {plan['pause_s']}")


def pause_by_job(outcome: Outcome, placement: Placement, *, one_wave: bool) -> dict[str, float]:
    """Seconds each paused job stands still; with ``one_wave`` as if all moves were in one."""
    planning = placement.planning
    largest: dict[str, dict[int, float]] = defaultdict(dict)
    for step in outcome.steps:
        waves = largest[step.group.job]
        wave = 0 if one_wave else step.wave
        waves[wave] = max(waves.get(wave, 0.0), step.group.state_gb * 8 / placement.nic_gbps)
    pauses = {}
    for job in outcome.paused_jobs:
        if job not in largest:
            pauses[job] = planning.pause_overhead_s
        elif placement.jobs[job].mobility == "restart":
            pauses[job] = planning.restart_s
        else:
            pauses[job] = sum(planning.pause_overhead_s + seconds for seconds in largest[job].values())
    return pauses


def _objective_faults(plan: Mapping[str, Any], outcome: Outcome, placement: Placement) -> Iterator[Fault]:
    objective = plan["objective"]
    name, value, bound = objective["name"], objective["value"], objective.get("lower_bound")
    if name != placement.planning.objective:
        message = f"planning.objective is {placement.planning.objective!r}, not {name!r}"
        yield Fault("wrong_objective", "/objective/name", message)
    elif name == "gpu_seconds":
        pauses = pause_by_job(outcome, placement, one_wave=True)
        right = sum(placement.jobs[job].slots * seconds for job, seconds in pauses.items())
        if not same_seconds(value, right):
            message = f"slots x pause of the paused jobs add up to {right:.6f}, not {value}"
            yield Fault("wrong_objective_value", "/objective/value", message)
    elif value != len(plan["moves"]):
        message = f"there are {len(plan['moves'])} moves, not {value}"
        yield Fault("wrong_objective_value", "/objective/value", message)
    if bound is not None and bound > value and not same_seconds(bound, value):
        message = f"the lower bound {bound} is above the value {value}"
        yield Fault("bound_above_value", "/objective/lower_bound", message)
