"""What a plan leads to: where each rank is after it, and in which ring order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .moves import Step
from .placement import Key, Placement
from .rings import Orders, changed_groups


@dataclass(frozen=True, slots=True)
class Outcome:
    """The placement after a plan.

    Attributes:
        steps: the moves that lead there.
        workers: node of each rank, by group.
        orders: ring order of each group.
        changed: groups whose cyclic order differs from the snapshot's.
    """

    steps: tuple[Step, ...]
    workers: Mapping[Key, Sequence[str]]
    orders: Orders
    changed: frozenset[Key]

    @property
    def moved_jobs(self) -> frozenset[str]:
        return frozenset(step.group.job for step in self.steps)

    @property
    def paused_jobs(self) -> frozenset[str]:
        """Jobs with a moved rank or a new ring order."""
        return self.moved_jobs | {job for job, _ in self.changed}


def carry_out(steps: tuple[Step, ...], orders: Orders, placement: Placement) -> Outcome:
    """The outcome of ``steps`` and ``orders`` from ``placement``."""
    workers: dict[Key, Sequence[str]] = {key: group.workers for key, group in placement.groups.items()}
    moved: dict[Key, list[str]] = {}
    for step in steps:
        key = step.group.key
        moved.setdefault(key, list(step.group.workers))[step.rank] = step.target
    workers.update(moved)
    return Outcome(steps, workers, orders, changed_groups(orders, placement))


def left_on_draining(
    workers: Mapping[Key, Sequence[str]], placement: Placement
) -> set[tuple[str, str, int, str]]:
    """(job, group, rank, node) of all ranks on draining nodes."""
    draining = {name for name, node in placement.nodes.items() if node.drain}
    if not draining:
        return set()
    return {
        (job, group, rank, node)
        for (job, group), nodes in workers.items()
        for rank, node in enumerate(nodes)
        if node in draining
    }
