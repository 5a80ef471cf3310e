"""The part of the store that carries a plan from ``queued`` to its end: claim, lease, finish.

A claim is a compare-and-set that raises ``attempt``; every later write of that worker is guarded by
the attempt (a fencing token), so that a worker thought dead cannot overwrite its successor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, select, update

from .errors import NotCancellable, UnknownPlan
from .rows import LIVE_STATES, Part, PlanRow, pack, plan_row, unpack
from .tables import plan_bodies, plans, solves

#: Upper bounds of the histogram of solve seconds; the last bucket is open.
SOLVE_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A ready plan to store: its document, and what lists and metrics need of it."""

    document: bytes
    status: str
    moves_needed: int
    solver: str
    solve_s: float


class Solving(Part):
    """One plan's life."""

    def plan(self, plan_id: str) -> PlanRow:
        """One plan's row.

        Raises:
            UnknownPlan: no such plan.
        """
        with self.reading() as connection:
            row = connection.execute(select(plans).where(plans.c.id == plan_id)).one_or_none()
        if row is None:
            raise UnknownPlan(plan_id)
        return plan_row(row)

    def plan_body(self, plan_id: str) -> bytes | None:
        """The document of a ready plan; None when it is not ready."""
        with self.reading() as connection:
            body = connection.execute(select(plan_bodies.c.body).where(plan_bodies.c.id == plan_id)).scalar()
        return None if body is None else unpack(body)

    def claim(
        self, plan_id: str, lease_s: float, max_attempts: int, holder: str | None = None
    ) -> PlanRow | None:
        """Take a queued plan, or one whose worker fell silent; None when there is nothing to take.

        ``holder`` names the process that takes it (:mod:`.holder`).
        """
        now = self.now()
        free = (plans.c.state == "queued") | ((plans.c.state == "solving") & (plans.c.lease_until < now))
        taken = {
            "state": "solving",
            "attempt": plans.c.attempt + 1,
            "lease_until": now + lease_s,
            "started_at": now,
            "holder": holder,
        }
        change = update(plans).where((plans.c.id == plan_id) & free & (plans.c.attempt < max_attempts))
        with self.writing(durable=False) as connection:
            row = connection.execute(change.values(**taken).returning(*plans.c)).one_or_none()
        return None if row is None else plan_row(row)

    def holds(self, plan_id: str, attempt: int) -> bool:
        """Whether ``attempt`` is still the one that solves the plan."""
        with self.reading() as connection:
            query = select(plans.c.id).where(_held(plan_id, attempt))
            return connection.execute(query).one_or_none() is not None

    def extend(self, plan_id: str, attempt: int, lease_s: float) -> bool:
        """Prolong the lease; False when it is lost (cancelled, or taken by another)."""
        return self._guarded(plan_id, attempt, durable=False, lease_until=self.now() + lease_s)

    def holders(self) -> list[tuple[str, int, str]]:
        """Plan, attempt and holder of what is being solved under a lease."""
        query = select(plans.c.id, plans.c.attempt, plans.c.holder)
        query = query.where((plans.c.state == "solving") & plans.c.holder.is_not(None))
        query = query.where(plans.c.lease_until > self.now())
        with self.reading() as connection:
            return [(row.id, row.attempt, row.holder) for row in connection.execute(query)]

    def expire(self, plan_id: str, attempt: int) -> bool:
        """End the lease of a worker known to be dead, so that the plan is freed in the next round."""
        return self._guarded(plan_id, attempt, durable=False, lease_until=0.0)

    def finish(self, plan_id: str, attempt: int, outcome: Outcome) -> bool:
        """Store a ready plan; False when the lease was lost meanwhile, and nothing is stored."""
        change = update(plans).where(_held(plan_id, attempt)).values(
            state="ready", status=outcome.status, moves_needed=outcome.moves_needed,
            lease_until=None, finished_at=self.now(),
        )  # fmt: skip
        with self.writing() as connection:
            if not connection.execute(change).rowcount:
                return False
            connection.execute(self.insert(plan_bodies).values(id=plan_id, body=pack(outcome.document)))
            connection.execute(self._count_solve(outcome))
        return True

    def fail(self, plan_id: str, attempt: int, code: str, message: str) -> bool:
        """End a plan as ``failed``; False when the lease was lost meanwhile."""
        return self._guarded(
            plan_id, attempt, state="failed", failure_code=code, failure_message=message,
            lease_until=None, finished_at=self.now(),
        )  # fmt: skip

    def cancel(self, plan_id: str) -> PlanRow:
        """End a queued or solving plan as ``cancelled``; the row as it is after.

        Raises:
            UnknownPlan: no such plan.
            NotCancellable: it is already at its end.
        """
        change = update(plans).where((plans.c.id == plan_id) & plans.c.state.in_(LIVE_STATES))
        ended = {"state": "cancelled", "lease_until": None, "finished_at": self.now()}
        with self.writing() as connection:
            row = connection.execute(change.values(**ended).returning(*plans.c)).one_or_none()
        if row is None:
            raise NotCancellable(plan_id, self.plan(plan_id).state)
        return plan_row(row)

    def requeue_expired(self, max_attempts: int) -> tuple[list[PlanRow], list[PlanRow]]:
        """Free plans whose worker fell silent: those queued again, and those out of attempts (failed)."""
        now = self.now()
        expired = (plans.c.state == "solving") & (plans.c.lease_until < now)
        again = update(plans).where(expired & (plans.c.attempt < max_attempts))
        again = again.values(state="queued", lease_until=None, published_at=now)
        spent = update(plans).where(expired & (plans.c.attempt >= max_attempts)).values(
            state="failed", lease_until=None, finished_at=now, failure_code="solver_crashed",
            failure_message=f"the worker died while solving, {max_attempts} times of {max_attempts}: "
            "see its log; the snapshot may need more memory than the worker has",
        )  # fmt: skip
        with self.reading() as connection:  # mostly there is none: do not take the write lock to see it
            if connection.execute(select(plans.c.id).where(expired).limit(1)).one_or_none() is None:
                return [], []
        with self.writing() as connection:
            failed = [plan_row(row) for row in connection.execute(spent.returning(*plans.c))]
            queued = [plan_row(row) for row in connection.execute(again.returning(*plans.c))]
        return queued, failed

    def overdue(self, requeue_after_s: float) -> list[PlanRow]:
        """Queued plans whose last message is older than ``requeue_after_s``, oldest first."""
        late = (plans.c.state == "queued") & (plans.c.published_at < self.now() - requeue_after_s)
        with self.reading() as connection:
            query = select(plans).where(late).order_by(plans.c.created_at).limit(1000)
            return [plan_row(row) for row in connection.execute(query)]

    def note_published(self, plan_ids: Sequence[str]) -> None:
        """Remember that messages of these plans were sent just now."""
        with self.writing(durable=False) as connection:
            connection.execute(update(plans).where(plans.c.id.in_(plan_ids)).values(published_at=self.now()))

    def _guarded(self, plan_id: str, attempt: int, *, durable: bool = True, **values: Any) -> bool:
        with self.writing(durable=durable) as connection:
            return bool(
                connection.execute(update(plans).where(_held(plan_id, attempt)).values(**values)).rowcount
            )

    def _count_solve(self, outcome: Outcome) -> Any:
        bucket = sum(outcome.solve_s > bound for bound in SOLVE_BUCKETS_S)
        key = {"solver": outcome.solver, "status": outcome.status, "bucket": bucket}
        statement = self.insert(solves).values(**key, count=1, seconds=outcome.solve_s)
        return statement.on_conflict_do_update(
            index_elements=list(key),
            set_={"count": solves.c.count + 1, "seconds": solves.c.seconds + outcome.solve_s},
        )


def _held(plan_id: str, attempt: int) -> ColumnElement[bool]:
    return (plans.c.id == plan_id) & (plans.c.state == "solving") & (plans.c.attempt == attempt)
