"""Can these demands be met together? An exact answer on a snapshot cut down to them.

A :class:`Part` is a job that is present, a rack or pod whose bound is demanded, or a node that drains.
Asked about some parts only, other jobs are absent (their slots are free), other racks and pods carry
what they like, and other nodes do not drain. Each part only adds to what is demanded, so whatever
contains something impossible is impossible too.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from monkeytree.columns import Ask
from monkeytree.counts import Counts, read_counts, score
from monkeytree.errors import SolverFailed, SolverUnavailable
from monkeytree.formulation import formulate
from monkeytree.optimise import Optimiser
from monkeytree.problem import Problem, state_problem
from monkeytree.realise import Unplaceable, realise
from monkeytree.search import search
from monkeytree.snapshot import Rack, Snapshot
from monkeytree.solvers.choose import Bench

EFFORT = 300
"""States a search may visit before a program is asked."""
LARGE = 40_000
"""Columns from which no program is built: it would take seconds and hundreds of megabytes."""
_ENDLESS = 10**9


class Part(NamedTuple):
    """One demand by kind and id."""

    kind: Literal["job", "rack", "pod", "drain"]
    id: str


class Undecided(Exception):  # how a question ends, not an error
    """Time is up, or no solver could tell."""


class Demands:
    """Answers questions about the demands of one snapshot until a deadline of ``time.monotonic``."""

    def __init__(self, snapshot: Snapshot, deadline: float) -> None:
        self.snapshot, self.deadline = snapshot, deadline
        self.bench = Bench("auto")
        self.known: dict[frozenset[Part], bool] = {}
        self.asked = 0

    def impossible(self, parts: Collection[Part]) -> bool:
        """Whether no placement meets all of ``parts``; ``max_moves`` does not count.

        Raises:
            Undecided: neither was proved.
        """
        key = frozenset(parts)
        if key not in self.known:
            self.known[key] = self._ask(key)
        return self.known[key]

    def _ask(self, parts: frozenset[Part]) -> bool:
        jobs = any(part.kind == "job" for part in parts)
        if not jobs or all(part.kind == "job" for part in parts):
            return False
        self.asked += 1
        try:
            return not self._possible(cut_down(self.snapshot, parts), parts)
        except (SolverFailed, SolverUnavailable) as error:
            raise Undecided from error

    def _possible(self, snapshot: Snapshot, parts: frozenset[Part]) -> bool:
        """Counts first; where workers of several sizes do not pack, node by node (as the planner)."""
        sizes = {group.slots_per_worker for _, group in snapshot.groups}
        split: frozenset[str] = frozenset()
        while True:
            problem = _unbounded_but(state_problem(snapshot, split), snapshot, parts)
            counts = None if problem.stuck else self._counts(problem)
            if counts is None or len(sizes) == 1:
                return counts is not None
            moves = realise(snapshot, problem, counts)
            if not isinstance(moves, Unplaceable):
                return True
            finer = split.union(*(problem.sites[site].nodes for site in moves.sites))
            if finer == split:
                raise Undecided
            split = finer

    def _counts(self, problem: Problem) -> Counts | None:
        """Counts that meet every bound and drain of ``problem``, or None where there are none."""
        if time.monotonic() > self.deadline:
            raise Undecided
        finding = search(problem, effort=EFFORT, deadline=self.deadline)
        if finding.counts is not None or finding.lower_bound is None:
            return finding.counts
        return self._solved(problem)

    def _solved(self, problem: Problem) -> Counts | None:
        """The same by a program: any answer will do, so it minimises nothing."""
        if sum(len(member.movable) + 3 * len(member.targets) for member in problem.members) > LARGE:
            raise Undecided
        plain = formulate(problem, Ask(integral=len({member.slots for member in problem.members}) > 1))
        left = self.deadline - time.monotonic()
        outcome = self.bench.solve(plain.program.minimising({}), max(0.0, left))
        if outcome.status == "infeasible":
            return None
        if outcome.values is not None:
            counts = read_counts(problem, plain.columns, outcome.values)
            if counts is not None and not score(problem, counts).excess:
                return counts
        answer, _ = Optimiser(problem, "moves", self.bench, self.deadline).fewest_moves()
        if answer is None:
            raise Undecided
        return answer.counts


def cut_down(snapshot: Snapshot, parts: Collection[Part]) -> Snapshot:
    """The snapshot with the jobs and drains of ``parts`` only.

    Racks whose bound is not demanded become one (one a pod, while any pod's bound is demanded): what
    a group sends from a demanded rack does not depend on which others it is on.
    """
    kinds = ("job", "rack", "pod", "drain")
    named = {kind: {part.id for part in parts if part.kind == kind} for kind in kinds}
    pods = snapshot.pods if named["pod"] else ()
    racks: list[Rack] = []
    others: dict[str | None, list[Rack]] = defaultdict(list)
    for rack in snapshot.racks:
        nodes = tuple(
            replace(node, drain=False) if node.drain and node.id not in named["drain"] else node
            for node in rack.nodes
        )
        rack = replace(rack, nodes=nodes, pod=rack.pod if pods else None)
        if rack.id in named["rack"]:
            racks.append(rack)
        else:
            others[rack.pod].append(rack)
    for alike in others.values():
        racks.append(replace(alike[0], nodes=tuple(node for rack in alike for node in rack.nodes)))
    jobs = tuple(job for job in snapshot.jobs if job.id in named["job"])
    fabric = replace(snapshot.fabric, hash=None)  # it may name switches that are gone, and decides nothing
    return replace(snapshot, fabric=fabric, racks=tuple(racks), pods=pods, jobs=jobs, pending=())


def _unbounded_but(problem: Problem, snapshot: Snapshot, parts: Collection[Part]) -> Problem:
    """``problem`` with only the bounds of the racks and pods among ``parts``."""

    def lifted(kind: Literal["rack", "pod"], ids: Sequence[str], bounds: Sequence[int]) -> tuple[int, ...]:
        pairs = zip(ids, bounds, strict=True)
        return tuple(bound if Part(kind, name) in parts else _ENDLESS for name, bound in pairs)

    return replace(
        problem,
        bounds=lifted("rack", [rack.id for rack in snapshot.racks], problem.bounds),
        pod_bounds=lifted("pod", [pod.id for pod in snapshot.pods], problem.pod_bounds),
        max_moves=None,
    )
