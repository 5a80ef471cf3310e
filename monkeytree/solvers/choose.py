"""Which solver answers: the one asked for, or under ``auto`` the first that can."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from monkeytree.errors import SolverFailed, SolverUnavailable, UnknownSolver
from monkeytree.plan import Trial
from monkeytree.program import Outcome, Program

from . import cbc, gurobi, highs

AUTO = "auto"
SEARCH = "search"
SPLIT = "split"


class Solver(Protocol):
    """What an adapter module offers."""

    NAME: str

    def refusal(self, program: Program) -> str | None: ...

    def solve(self, program: Program, time_limit_s: float) -> Outcome: ...


# In order of preference: Gurobi where its licence allows, else HiGHS in process, else CBC.
SOLVERS: dict[str, Solver] = {module.NAME: module for module in (gurobi, highs, cbc)}


def named(name: str) -> tuple[Solver, ...]:
    """The solvers to try for a name, in order.

    Raises:
        UnknownSolver: no solver of that name.
    """
    if name in (AUTO, SPLIT):
        return tuple(SOLVERS.values())
    if name == SEARCH:
        return ()
    if name in SOLVERS:
        return (SOLVERS[name],)
    choices = ", ".join([AUTO, SEARCH, SPLIT, *SOLVERS])
    raise UnknownSolver(f"there is no solver {name!r}; choose one of {choices}")


class Bench:
    """Solves programs with the first solver that can, and keeps a record of what was tried.

    ``only`` is the stage asked for by name; None under ``auto``.
    """

    def __init__(self, name: str) -> None:
        self._solvers: Sequence[Solver] = named(name)
        self.only = None if name == AUTO else name
        self._trials: dict[str, Trial] = {}
        self.answered_by = ("none", "")

    @property
    def allows_search(self) -> bool:
        """Whether the search may answer."""
        return self.only in (None, SEARCH)

    @property
    def allows_programs(self) -> bool:
        """Whether programs may be solved at all."""
        return self.only != SEARCH

    @property
    def allows_whole(self) -> bool:
        """Whether the whole program may be solved."""
        return self.only not in (SEARCH, SPLIT)

    def note(self, name: str, seconds: float, outcome: str) -> None:
        """Record a stage of ours (seconds include the solvers it called)."""
        self._note(name, seconds, outcome)

    def solve(self, program: Program, time_limit_s: float) -> Outcome:
        """Minimise; refusals and crashes of one solver under ``auto`` pass to the next.

        Raises:
            SolverUnavailable: no solver could take the program.
            SolverFailed: the last solver that could crashed.
        """
        deadline = time.monotonic() + time_limit_s
        failure: Exception | None = None
        for solver in self._solvers:
            reason = solver.refusal(program)
            if reason is not None:
                self._note(solver.NAME, 0.0, f"refused: {reason}")
                failure = failure or SolverUnavailable(f"{solver.NAME}: {reason}")
                continue
            start = time.monotonic()
            try:
                outcome = solver.solve(program, max(0.05, deadline - start))
            except (SolverUnavailable, SolverFailed) as error:
                self._note(solver.NAME, time.monotonic() - start, f"failed: {error}")
                failure = error
                continue
            self._note(solver.NAME, outcome.seconds, outcome.status)
            self.answered_by = (solver.NAME, outcome.version)
            return outcome
        raise failure or SolverUnavailable("no solver is available")

    @property
    def trials(self) -> tuple[Trial, ...]:
        """What was tried: seconds summed over stages, the outcome of the first stage a solver ran."""
        return tuple(self._trials.values())

    def _note(self, name: str, seconds: float, outcome: str) -> None:
        before = self._trials.get(name)
        if before is None or (before.outcome.startswith("refused") and seconds):
            self._trials[name] = Trial(name, seconds, outcome)
        else:
            self._trials[name] = Trial(name, before.seconds + seconds, before.outcome)
