"""What a program of the fewest-moves problem is asked for, and where its variables stand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from .problem import Problem
from .program import Program


@dataclass(frozen=True, slots=True)
class Ask:
    """What a program is for.

    Attributes:
        soft: bounds may be exceeded (at the cost of e) and drains left undone.
        jobs: columns for paused jobs, for tie-breaks and ``gpu_seconds``.
        costs: also columns for moved jobs and their pause, for ``gpu_seconds``.
        integral: in and out integral, where side rows break the transportation polytope.
    """

    soft: bool = False
    jobs: bool = False
    costs: bool = False
    integral: bool = False


@dataclass(slots=True)
class Columns:
    """Where each variable stands: column numbers by key."""

    out: dict[tuple[int, int], int] = field(default_factory=dict)
    into: dict[tuple[int, int], int] = field(default_factory=dict)
    fragment: dict[tuple[int, int], int] = field(default_factory=dict)
    whole: dict[tuple[int, int], int] = field(default_factory=dict)
    pod_fragment: dict[tuple[int, int], int] = field(default_factory=dict)
    pod_whole: dict[tuple[int, int], int] = field(default_factory=dict)
    reorder: dict[int, int] = field(default_factory=dict)
    paused: dict[int, int] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)
    group_moved: dict[int, int] = field(default_factory=dict)
    wire: dict[int, int] = field(default_factory=dict)
    excess: dict[tuple[str, int, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Formulation:
    """A problem as a program, with what is needed to state objectives and read answers."""

    problem: Problem
    program: Program
    columns: Columns

    def moves(self) -> dict[int, float]:
        """Objective: workers moved."""
        return dict.fromkeys(self.columns.out.values(), 1.0)

    def drained(self) -> dict[int, float]:
        """Objective: fewest workers left on draining nodes (less those that leave; a constant off)."""
        sites = self.problem.sites
        return {column: -1.0 for (_, site), column in self.columns.out.items() if sites[site].drain}

    def excess(self) -> dict[int, float]:
        """Objective: sum of f_t - lambda_t over leaves and pods that are over."""
        return dict.fromkeys(self.columns.excess.values(), 1.0)

    def jobs_paused(self) -> dict[int, float]:
        """Objective: jobs paused."""
        return dict.fromkeys(self.columns.paused.values(), 1.0)

    def summed_degree(self) -> dict[int, float]:
        """Objective: sum of f_t over the leaves (a constant off)."""
        cost: dict[int, float] = defaultdict(float)
        for (g, _), column in self.columns.fragment.items():
            cost[column] += sum(self.problem.members[g].rings)
        for g, column in self.columns.reorder.items():
            member = self.problem.members[g]
            extra = sum(surplus(member.rack_departures).values())
            cost[column] -= extra * sum(member.rings)
        return dict(cost)

    def gpu_seconds(self) -> dict[int, float]:
        """Objective: job-slots x pause, each paused job once, as if in one wave."""
        problem, columns = self.problem, self.columns
        cost: dict[int, float] = defaultdict(float)
        for j, column in columns.paused.items():
            cost[column] += problem.jobs[j].slots * problem.overhead_s
        for j, column in columns.moved.items():
            cost[column] += problem.jobs[j].slots * (problem.restart_s - problem.overhead_s)
        for j, column in columns.wire.items():
            cost[column] += problem.jobs[j].slots
        return dict(cost)


def surplus(departures: Mapping[int, int]) -> dict[int, int]:
    """Departures of an order beyond those with adjacent workers: d - 1 where it departs at all."""
    return {place: times - 1 for place, times in departures.items() if times > 1}
