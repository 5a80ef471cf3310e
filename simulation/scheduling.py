"""Where a job goes: which free servers of which racks.

Servers ("blocks") are numbered rack by rack. All schedulers hand out the lowest free servers of a rack
and return them ascending, so that ranks run from left to right.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Literal

SchedulerName = Literal["best-fit", "first-fit", "random"]
Scheduler = Callable[[Sequence[Sequence[int]], int], list[int] | None]
"""(free blocks of each rack, ascending; blocks wanted) -> blocks, or None where they do not fit."""


def best_fit(free: Sequence[Sequence[int]], wanted: int) -> list[int] | None:
    """The fullest rack that fits; else greedily from the emptiest racks on (the authors' scheduler)."""
    fitting = [rack for rack in range(len(free)) if len(free[rack]) >= wanted]
    if fitting:
        rack = min(fitting, key=lambda one: (len(free[one]), one))
        return list(free[rack][:wanted])
    if sum(map(len, free)) < wanted:
        return None
    taken: list[int] = []
    for rack in sorted(range(len(free)), key=lambda one: (-len(free[one]), one)):
        taken.extend(free[rack][: wanted - len(taken)])
        if len(taken) == wanted:
            break
    return sorted(taken)


def first_fit(free: Sequence[Sequence[int]], wanted: int) -> list[int] | None:
    """The first free servers from the left, whatever rack they are in."""
    blocks = [block for rack in free for block in rack]
    return blocks[:wanted] if len(blocks) >= wanted else None


def random_fit(source: random.Random) -> Scheduler:
    """Free servers drawn evenly."""

    def fit(free: Sequence[Sequence[int]], wanted: int) -> list[int] | None:
        blocks = [block for rack in free for block in rack]
        return sorted(source.sample(blocks, wanted)) if len(blocks) >= wanted else None

    return fit


def scheduler_of(name: SchedulerName, seed: int) -> Scheduler:
    """The scheduler of a name; ``seed`` is for the random one."""
    if name == "random":
        return random_fit(random.Random(seed))
    return {"best-fit": best_fit, "first-fit": first_fit}[name]
