"""The lexicographic optimum on counts, tier by tier, each tier with its proof or its gap.

First every bound and every drain is demanded outright: that program is the smallest, and where it is
feasible the first two tiers (undrained, excess) are settled. Only where it is not, or where
``max_moves`` cuts its answer off, the soft program walks all tiers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from .columns import Ask, Formulation
from .counts import Counts, Score, read_counts, score
from .formulation import formulate
from .plan import LimitedBy, ObjectiveName
from .problem import Problem
from .program import Outcome, Program, Row
from .solvers.choose import Bench


@dataclass(frozen=True, slots=True)
class Tier:
    """One level of the objective: its costs, and the step between two of its values."""

    name: str
    costs: Callable[[Formulation], Mapping[int, float]]
    step: float = 1.0


UNDRAINED = Tier("undrained", Formulation.drained)
EXCESS = Tier("excess", Formulation.excess)
GPU_SECONDS = Tier("gpu_seconds", Formulation.gpu_seconds, step=0.0)
MOVES = Tier("moves", Formulation.moves)
JOBS = Tier("jobs", Formulation.jobs_paused)
DEGREE = Tier("degree", Formulation.summed_degree)


@dataclass(frozen=True, slots=True)
class Answer:
    """The best placement found, and what is proved about it.

    Attributes:
        lower_bound: fewest moves among placements of this undrained and excess; None if unproved.
        least_excess: no placement (within max_moves) has fewer undrained, then less excess.
        objective_bound: bound of the named objective where it is not ``moves``.
        objective_proved: the named objective is least.
        ties_proved: so are the tie-breaks after it.
        unlimited: the better counts that ``max_moves`` keeps away, where ``limited_by`` says so.
    """

    counts: Counts
    score: Score
    lower_bound: int | None
    least_excess: bool
    objective_bound: float | None
    objective_proved: bool
    ties_proved: bool
    limited_by: LimitedBy | None = None
    unlimited: Counts | None = None


def unmoved(problem: Problem) -> Answer:
    """Everything stays where it is, and nothing is proved."""
    still = Counts({}, {})
    return Answer(still, score(problem, still), None, False, None, False, False)


class Optimiser:
    """Walks the tiers for one problem under one deadline.

    Attributes:
        start: an answer within the cap on moves to do better than, where one is known.
    """

    def __init__(self, problem: Problem, objective: ObjectiveName, bench: Bench, deadline: float) -> None:
        self.problem, self.objective, self.bench = problem, objective, bench
        self.deadline = deadline
        self.start: Answer | None = None
        sizes = {member.slots for member in problem.members}
        self.integral = len(sizes) > 1

    def best(self, tie_deadline: Callable[[], float] | None = None) -> Answer:
        """The story: demand everything; if that cannot be, give up as little as possible.

        Args:
            tie_deadline: asked once the fewest moves are known: when to stop breaking ties.
        """
        answer, _ = self.fewest_moves()
        return self.compromise() if answer is None else self.settled(answer, tie_deadline)

    def settled(self, answer: Answer, tie_deadline: Callable[[], float] | None = None) -> Answer:
        """A compliant answer of fewest moves, taken through the rest of the objective and the cap."""
        if self.problem.max_moves is not None and answer.counts.moves > self.problem.max_moves:
            return self._capped(answer)
        if tie_deadline is not None and self.objective == "moves":
            self.deadline = min(self.deadline, tie_deadline())
        answer = self.refined(answer)
        if self.problem.max_moves is not None and answer.counts.moves > self.problem.max_moves:
            return self._capped(answer)
        return answer

    def _capped(self, answer: Answer) -> Answer:
        capped = self.compromise(capped=True)
        worse = (capped.score.undrained, capped.score.excess) > (
            answer.score.undrained,
            answer.score.excess,
        )
        return replace(capped, limited_by="max_moves", unlimited=answer.counts) if worse else capped

    def fewest_moves(self) -> tuple[Answer | None, Outcome]:
        """The fewest moves that meet every bound and drain, ties left open, and how the solve ended."""
        problem = replace(self.problem, max_moves=None)
        plain = formulate(problem, Ask(integral=self.integral))
        outcome = self._solve(plain, MOVES, [])
        counts = self._read(plain, outcome)
        if counts is None or score(problem, counts).excess:
            return None, outcome
        found = score(problem, counts)
        bound = _whole(outcome.bound)
        proved = bound is not None and found.moves <= bound
        return Answer(counts, found, bound, True, None, proved, False), outcome

    def refined(self, answer: Answer) -> Answer:
        """What comes after the fewest moves: another objective, or the tie-breaks."""
        if self.objective == "gpu_seconds":
            return self._cheapest(answer)
        return self._break_ties(answer)

    def _cheapest(self, answer: Answer) -> Answer:
        """Least GPU-seconds, then fewest moves, from a compliant answer."""
        answer = replace(answer, objective_proved=False, ties_proved=False)
        problem = replace(self.problem, max_moves=None)
        costed = formulate(problem, Ask(jobs=True, costs=True, integral=self.integral))
        return self._walk(costed, [GPU_SECONDS, MOVES, JOBS, DEGREE], answer)

    def compromise(self, *, capped: bool = False) -> Answer:
        """Fewest undrained, least excess, then the objective, with bounds that may be exceeded."""
        problem = self.problem
        costs = self.objective == "gpu_seconds"
        integral = self.integral or problem.max_moves is not None
        soft = formulate(problem, Ask(soft=True, jobs=True, costs=costs, integral=integral))
        start = self.start or unmoved(problem)
        tiers = [UNDRAINED] if problem.must_drain else []
        tiers += [EXCESS] if soft.columns.excess else []
        tiers += [GPU_SECONDS] if costs else []
        answer = self._walk(soft, [*tiers, MOVES, JOBS, DEGREE], start)
        if not answer.score.excess:
            answer = replace(answer, least_excess=True)
        if not capped and problem.max_moves is not None and answer.score.moves <= problem.max_moves:
            return self._name_the_limit(answer)
        return answer

    def _name_the_limit(self, answer: Answer) -> Answer:
        """Whether the cap on moves, not the cluster, keeps the answer from being better."""
        if not (answer.score.undrained > self.problem.stuck or answer.score.excess):
            return answer
        free = Optimiser(replace(self.problem, max_moves=None), self.objective, self.bench, self.deadline)
        uncapped = free.compromise()
        if (uncapped.score.undrained, uncapped.score.excess) < (
            answer.score.undrained,
            answer.score.excess,
        ):
            return replace(answer, limited_by="max_moves", unlimited=uncapped.counts)
        return answer

    def _break_ties(self, answer: Answer) -> Answer:
        """Fewest jobs paused, then lowest summed f_t, at the same moves."""
        if not answer.objective_proved:
            return answer
        problem = replace(self.problem, max_moves=None)
        tied = formulate(problem, Ask(jobs=True, integral=self.integral))
        return self._walk(tied, [JOBS, DEGREE], answer, fixed=[(MOVES, answer.score.moves)])

    def _walk(
        self,
        formulation: Formulation,
        tiers: Sequence[Tier],
        answer: Answer,
        fixed: Sequence[tuple[Tier, float]] = (),
    ) -> Answer:
        """Minimise tier after tier, each within the best of those before; stop at the first gap."""
        rows = [_at_most(formulation, tier, value) for tier, value in fixed]
        for tier in tiers:
            outcome = self._solve(formulation, tier, rows)
            counts = self._read(formulation, outcome)
            answer = self._better(answer, counts)
            reached = _tier_value(self.problem, answer.score, tier)
            bound = _tier_bound(self.problem, formulation, outcome, tier)
            proved = bound is not None and reached <= bound + (1e-6 * max(1.0, abs(reached)))
            answer = _record(answer, tier, self.objective, bound, proved)
            if not proved:
                return answer
            rows.append(_at_most(formulation, tier, _column_value(self.problem, formulation, tier, reached)))
        return replace(answer, ties_proved=True)

    def _better(self, answer: Answer, counts: Counts | None) -> Answer:
        if counts is None:
            return answer
        found = score(self.problem, counts)
        if found.key(self.objective) < answer.score.key(self.objective):
            return replace(answer, counts=counts, score=found)
        return answer

    def _solve(self, formulation: Formulation, tier: Tier, rows: Sequence[Row]) -> Outcome:
        program = formulation.program.with_rows(*rows)
        program = program.minimising(tier.costs(formulation), tier.step)
        outcome = self._run(program)
        if outcome.values is not None and _fractional(formulation, outcome.values):
            whole = self._run(_with_whole_counts(formulation, program, outcome.values))
            outcome = replace(outcome, values=whole.values)
        return outcome

    def _run(self, program: Program) -> Outcome:
        left = self.deadline - time.monotonic()
        if left <= 0:
            return Outcome("no_answer", None, None, None, 0.0, "")
        return self.bench.solve(program, left)

    def _read(self, formulation: Formulation, outcome: Outcome) -> Counts | None:
        if outcome.values is None:
            return None
        return read_counts(self.problem, formulation.columns, outcome.values)


def _fractional(formulation: Formulation, values: Sequence[float]) -> bool:
    columns = [*formulation.columns.out.values(), *formulation.columns.into.values()]
    return any(abs(values[column] - round(values[column])) > 1e-6 for column in columns)


def _with_whole_counts(formulation: Formulation, program: Program, values: Sequence[float]) -> Program:
    """The same program at the binaries found, with integral counts.

    A solver may stop inside the face of optimal transports; its vertices are integral and cost the
    same, so this finds one (docs/solver.md).
    """
    counts = {*formulation.columns.out.values(), *formulation.columns.into.values()}
    lower, upper = list(program.lower), list(program.upper)
    integer = list(program.integer)
    for column in range(program.width):
        if column in counts:
            integer[column] = True
        elif program.integer[column]:
            lower[column] = upper[column] = values[column]
    return replace(program, lower=tuple(lower), upper=tuple(upper), integer=tuple(integer))


def _whole(bound: float | None) -> int | None:
    return None if bound is None else max(0, round(bound))


def _offset(problem: Problem, formulation: Formulation, tier: Tier) -> float:
    """What the columns of a tier leave out: tier value = column value + offset."""
    if tier is UNDRAINED:
        return problem.stuck + problem.must_drain
    if tier is DEGREE:
        base = sum(problem.fixed.values())
        for g in formulation.columns.reorder:
            member = problem.members[g]
            base += sum(times - 1 for times in member.rack_departures.values()) * sum(member.rings)
        return base
    return 0.0


def _tier_value(problem: Problem, found: Score, tier: Tier) -> float:
    values = {
        "undrained": found.undrained,
        "excess": found.excess,
        "gpu_seconds": found.gpu_seconds,
        "moves": found.moves,
        "jobs": found.jobs_paused,
        "degree": found.summed_degree,
    }
    return values[tier.name]


def _tier_bound(problem: Problem, formulation: Formulation, outcome: Outcome, tier: Tier) -> float | None:
    return None if outcome.bound is None else outcome.bound + _offset(problem, formulation, tier)


def _column_value(problem: Problem, formulation: Formulation, tier: Tier, value: float) -> float:
    return value - _offset(problem, formulation, tier)


def _at_most(formulation: Formulation, tier: Tier, value: float) -> Row:
    costs = {column: cost for column, cost in tier.costs(formulation).items() if cost}
    slack = 1e-6 * max(1.0, abs(value)) if not tier.step else 0.0
    return Row(tuple(costs), tuple(costs.values()), "<=", value + slack)


def _record(
    answer: Answer, tier: Tier, objective: ObjectiveName, bound: float | None, proved: bool
) -> Answer:
    """Note what a tier's outcome proves."""
    if tier is EXCESS or (tier is UNDRAINED and not proved):
        return replace(answer, least_excess=proved)
    if tier is GPU_SECONDS:
        return replace(answer, objective_bound=bound, objective_proved=proved)
    if tier is MOVES and objective == "moves":
        return replace(answer, lower_bound=_whole(bound), objective_proved=proved)
    return answer
