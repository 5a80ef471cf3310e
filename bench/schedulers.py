"""Schedulers for the churn: where a new job's workers go, on free slots by rack alone.

``seq``   first fit in node order, splits freely (Slurm without a topology plugin): the stress case.
``first`` the first rack that holds the job, else split over racks in order.
``best``  the fullest rack that holds the job, else the fewest racks, the rest best-fit again.
``block`` the fullest rack that holds the job, else greedily from the emptiest (the authors' own).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Shares = list[tuple[int, int]]
"""Workers by rack."""
Scheduler = Callable[[Sequence[int], int], Shares]


def seq(free: Sequence[int], size: int) -> Shares:
    """Racks in order, each filled up."""
    return _fill(range(len(free)), free, size)


def first(free: Sequence[int], size: int) -> Shares:
    """One rack if any holds it, else in order."""
    for rack, room in enumerate(free):
        if room >= size:
            return [(rack, size)]
    return seq(free, size)


def best(free: Sequence[int], size: int) -> Shares:
    """Whole racks first where it must be split, the remainder where it fits tightest."""
    shares: Shares = []
    for rack in sorted(range(len(free)), key=lambda rack: (-free[rack], rack)):
        taken = {used for used, _ in shares}
        tightest = _tightest(free, size, taken)
        if tightest is not None:
            return [*shares, (tightest, size)]
        shares.append((rack, free[rack]))
        size -= free[rack]
    raise ValueError(f"{size} workers too many")


def block(free: Sequence[int], size: int) -> Shares:
    """The fullest rack that holds it, else from the emptiest."""
    tightest = _tightest(free, size, set())
    if tightest is not None:
        return [(tightest, size)]
    return _fill(sorted(range(len(free)), key=lambda rack: (-free[rack], rack)), free, size)


SCHEDULERS: dict[str, Scheduler] = {"seq": seq, "first": first, "best": best, "block": block}


def _fill(racks: Sequence[int] | range, free: Sequence[int], size: int) -> Shares:
    shares: Shares = []
    for rack in racks:
        if not size:
            break
        taken = min(free[rack], size)
        if taken:
            shares.append((rack, taken))
            size -= taken
    if size:
        raise ValueError(f"{size} workers too many")
    return shares


def _tightest(free: Sequence[int], size: int, but: set[int]) -> int | None:
    holding = [rack for rack, room in enumerate(free) if room >= size and rack not in but]
    return min(holding, key=lambda rack: (free[rack], rack), default=None)
