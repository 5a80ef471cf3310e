"""The paper's own integer program, as its authors wrote it, to be solved beside ours.

Only fragmented groups may move; the others are taken off the racks' capacity. For each of them, s,
and rack, t: workers w (integer), present x and present-and-only-here y (binary), and d >= |w - w0|
(integer).

    min  sum d                                      (twice the moves)
    sum_t w = size;   sum_s w <= capacity less the others
    w <= min(size, capacity) x                      (big-M)
    sum_s r x - sum_s r y <= lambda_t
    d >= w - w0;   d >= w0 - w;   y <= x
    sum over t' != t of x(t') + (T - 1) y(t) <= T - 1

One tier, one rail, and one slot a worker: what their states are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from monkeytree.program import INFINITY, Program, Row
from monkeytree.snapshot import ReplicaGroup, Snapshot


@dataclass(frozen=True, slots=True)
class _Columns:
    """Column numbers of one (group, rack): four in a row."""

    first: int

    @property
    def w(self) -> int:
        return self.first

    @property
    def x(self) -> int:
        return self.first + 1

    @property
    def y(self) -> int:
        return self.first + 2

    @property
    def d(self) -> int:
        return self.first + 3


def fewest_moves(snapshot: Snapshot) -> Program:
    """The program of a snapshot; half its objective is the moves.

    Raises:
        ValueError: pods, rails or workers of several slots, which the paper's program does not know.
    """
    groups = [group for _, group in snapshot.groups]
    if snapshot.pods or snapshot.fabric.rails > 1 or any(group.slots_per_worker > 1 for group in groups):
        raise ValueError("the paper's program has one tier, one rail and one slot a worker")
    rack_of = {node.id: at for at, rack in enumerate(snapshot.racks) for node in rack.nodes}
    counts = [Counter(rack_of[node] for node in group.workers) for group in groups]
    capacity = [sum(node.usable for node in rack.nodes) for rack in snapshot.racks]
    for count in counts:
        if len(count) == 1:
            for rack, workers in count.items():
                capacity[rack] -= workers
    moving = [(group, count) for group, count in zip(groups, counts, strict=True) if len(count) > 1]
    bounds = [snapshot.bound(rack) for rack in snapshot.racks]
    return _program(moving, capacity, bounds)


def _program(
    moving: list[tuple[ReplicaGroup, Counter[int]]], capacity: list[int], bounds: list[int]
) -> Program:
    racks = range(len(capacity))
    at = [[_Columns(4 * (s * len(capacity) + t)) for t in racks] for s in range(len(moving))]
    upper: list[float] = []
    rows: list[Row] = []
    for (group, count), columns in zip(moving, at, strict=True):
        size = len(group.workers)
        upper += [bound for _ in racks for bound in (float(size), 1.0, 1.0, INFINITY)]
        rows.append(Row(tuple(c.w for c in columns), (1.0,) * len(columns), "==", size))
        rows += _rows_of_group(size, count, columns, capacity)
    for t in racks:
        here = [columns[t] for columns in at]
        rows.append(Row(tuple(c.w for c in here), (1.0,) * len(here), "<=", capacity[t]))
        weights = tuple(float(group.rings) for group, _ in moving)
        pairs = tuple(c.x for c in here) + tuple(c.y for c in here)
        rows.append(Row(pairs, weights + tuple(-weight for weight in weights), "<=", bounds[t]))
    width = len(upper)
    objective = {c.d: 1.0 for columns in at for c in columns}
    return Program((0.0,) * width, tuple(upper), (True,) * width, tuple(rows), objective)


def _rows_of_group(
    size: int, count: Counter[int], columns: list[_Columns], capacity: list[int]
) -> Iterator[Row]:
    others = len(columns) - 1
    for t, c in enumerate(columns):
        yield Row((c.w, c.x), (1.0, -float(min(size, capacity[t]))), "<=", 0.0)
        yield Row((c.d, c.w), (1.0, -1.0), ">=", -float(count[t]))
        yield Row((c.d, c.w), (1.0, 1.0), ">=", float(count[t]))
        yield Row((c.y, c.x), (1.0, -1.0), "<=", 0.0)
        elsewhere = tuple(other.x for other in columns if other is not c)
        yield Row((*elsewhere, c.y), (*(1.0,) * others, float(others)), "<=", float(others))
