"""The part of the store that carries a plan to its end (:mod:`.leased`), and counts solves."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, select, update

from .again import again
from .errors import UnknownPlan
from .leased import Kind, Leased
from .paging import Span
from .rows import Page, PlanRow, pack, plan_row, unpack
from .tables import plan_bodies, plans, solves

#: Upper bounds of the histogram of solve seconds; the last bucket is open.
SOLVE_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

PLANS = Kind(
    noun="plan",
    doing="solving",
    table=plans,
    read=plan_row,
    unknown=UnknownPlan,
    crashed="solver_crashed",
    overran="solve_overran",
    advice="the snapshot may need more memory than the worker has",
    cure="try a longer time_limit_s or another solver",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A ready plan to store: its document, and what lists and metrics need of it.

    ``key`` says what it was made of (:func:`~.reservations.planning_key`), where that is known.
    """

    document: bytes
    status: str
    moves_needed: int
    solver: str
    solve_s: float
    key: str | None = None


class Solving(Leased[PlanRow]):
    """The life of plans."""

    kind = PLANS

    def plan(self, plan_id: str) -> PlanRow:
        """One plan's row.

        Raises:
            UnknownPlan: no such plan.
        """
        return self.find(plan_id)

    def list_plans(
        self, span: Span, *, state: str | None = None, status: str | None = None, min_moves: int | None = None
    ) -> Page:
        """Plans by ``created_at``, newest first; ``min_moves`` leaves those out that are not ready."""
        enough = () if min_moves is None else (plans.c.moves_needed >= min_moves,)
        return self.list_rows(span, *enough, state=state, status=status)

    @again
    def plan_body(self, plan_id: str) -> bytes | None:
        """The document of a ready plan; None when it is not ready."""
        with self.reading() as connection:
            body = connection.execute(select(plan_bodies.c.body).where(plan_bodies.c.id == plan_id)).scalar()
        return None if body is None else unpack(body)

    @again
    def finish(self, plan_id: str, attempt: int, outcome: Outcome) -> bool:
        """Store a ready plan; False when the lease was lost meanwhile, and nothing is stored."""
        change = update(plans).where(self._held(plan_id, attempt)).values(
            state="ready", status=outcome.status, moves_needed=outcome.moves_needed,
            lease_until=None, finished_at=self.now(),
        )  # fmt: skip
        with self.writing() as connection:
            if not connection.execute(change).rowcount:
                return False
            self._relabel(connection, plan_id, outcome.key)
            connection.execute(self.insert(plan_bodies).values(id=plan_id, body=pack(outcome.document)))
            connection.execute(self._count_solve(outcome))
        return True

    def _relabel(self, connection: Connection, plan_id: str, key: str | None) -> None:
        """A plan made under other reservations than it was asked under answers nobody else."""
        if key is None:
            return
        other = sha256(f"{key} {plan_id}".encode()).hexdigest()
        asked = (plans.c.id == plan_id) & (plans.c.planning_hash != key)
        connection.execute(update(plans).where(asked).values(planning_hash=other))

    def _count_solve(self, outcome: Outcome) -> Any:
        bucket = sum(outcome.solve_s > bound for bound in SOLVE_BUCKETS_S)
        key = {"solver": outcome.solver, "status": outcome.status, "bucket": bucket}
        statement = self.insert(solves).values(**key, count=1, seconds=outcome.solve_s)
        return statement.on_conflict_do_update(
            index_elements=list(key),
            set_={"count": solves.c.count + 1, "seconds": solves.c.seconds + outcome.solve_s},
        )
