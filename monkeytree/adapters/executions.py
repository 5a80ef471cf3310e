"""The part of the store that keeps executions: plans that agents carry out.

The rows are the journal: a step, and each call to an agent, is written here before anything is done about
it, under the attempt that does it (:mod:`.leased`), so that a successor sees what may have happened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, Engine, func, select, update

from .again import again, again_in_any_case
from .errors import NotCancellable
from .executions_errors import UnknownExecution
from .executions_journal import CallJournal, LeaseLost
from .executions_rows import LIVE, ExecutionRow, OnFailure, Step, StepState, execution_row, step_row
from .leased import Kind, Leased
from .rows import PlanRow, new_id
from .tables import clusters, execution_steps, executions, fences

EXECUTIONS = Kind(
    noun="execution",
    doing="running",
    table=executions,
    read=execution_row,
    unknown=UnknownExecution,
    crashed="execution_crashed",
    overran="execution_overran",
    advice="agents end by themselves what they had begun; take a fresh snapshot before planning again",
    cure="the agents end by themselves what they had begun; look at the nodes its steps name",
)
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be carried out, and how."""

    plan: PlanRow
    expected_sequence: int | None
    on_failure: OnFailure
    timeout_s: float
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What else goes on in the cluster, as limits look at it.

    Attributes:
        live: steps of executions that have not ended, each with the execution's id.
        moves_begun: moves begun within the last hour by executions that have ended.
        paused_at: when a step of each job ended last, seconds since the epoch.
    """

    live: tuple[tuple[str, Step], ...]
    moves_begun: int
    paused_at: Mapping[str, float]


class Executions(CallJournal, Leased[ExecutionRow]):
    """Executions; ``store.executions``."""

    kind = EXECUTIONS

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @again
    def file(self, order: Order, steps: Sequence[Step], judge: Callable[[Standing], None]) -> ExecutionRow:
        """Queue an execution unless ``judge``, which sees what else goes on, refuses it by raising.

        Both happen in one transaction that holds the cluster's row: of two that overlap only one gets in.
        """
        plan, now = order.plan, self.now()
        row = {
            "id": new_id(), "plan_id": plan.id, "snapshot_id": plan.snapshot_id, "cluster": plan.cluster,
            "expected_sequence": order.expected_sequence, "on_failure": order.on_failure,
            "waves": max(step.wave for step in steps) + 1, "timeout_s": order.timeout_s, "state": "queued",
            "attempt": 0, "created_at": now, "published_at": now, "request_id": order.request_id,
        }  # fmt: skip
        with self.writing() as connection:
            self._lock(connection, plan.cluster)
            judge(self._standing(connection, plan.cluster, {step.job for step in steps}))
            made = connection.execute(self.insert(executions).values(**row).returning(*executions.c)).one()
            rows = [{**asdict(step), "execution_id": made.id} for step in steps]
            connection.execute(self.insert(execution_steps), rows)
        return execution_row(made)

    @again
    def standing(self, cluster: str, jobs: Collection[str]) -> Standing:
        """What else goes on in ``cluster``; pauses of ``jobs`` only."""
        with self.reading() as connection:
            return self._standing(connection, cluster, jobs)

    @again
    def steps(self, execution_id: str) -> tuple[Step, ...]:
        """The steps of an execution, by number."""
        query = select(execution_steps).where(execution_steps.c.execution_id == execution_id)
        with self.reading() as connection:
            rows = connection.execute(query.order_by(execution_steps.c.number))
            return tuple(step_row(row) for row in rows)

    @again
    def begin_steps(self, execution: ExecutionRow, by_job: Mapping[str, Collection[int]]) -> dict[str, int]:
        """Write that these steps are begun, before any agent hears of them; the epoch of each job's pause.

        Epochs grow by cluster. They start at the clock's seconds, so that a lost store does not fall behind
        the epochs that agents remember.

        Raises:
            LeaseLost: another worker is at it.
        """
        epochs: dict[str, int] = {}
        mine = execution_steps.c.execution_id == execution.id
        with self.writing() as connection:
            self._guard(connection, execution)
            self._lock(connection, execution.cluster)
            found = select(fences.c.epoch).where(fences.c.cluster == execution.cluster)
            newest = max(connection.execute(found).scalar() or 0, int(self.now()) - 1)
            for job, numbers in by_job.items():
                newest += 1
                epochs[job] = newest
                change = update(execution_steps).where(mine & execution_steps.c.number.in_(numbers))
                connection.execute(change.values(state="running", started_at=self.now(), epoch=newest))
            fence = self.insert(fences).values(cluster=execution.cluster, epoch=newest)
            connection.execute(
                fence.on_conflict_do_update(index_elements=["cluster"], set_={"epoch": newest})
            )
        return epochs

    @again_in_any_case
    def end_steps(
        self,
        execution: ExecutionRow,
        numbers: Collection[int],
        state: StepState,
        *,
        error: str | None = None,
        phases: Mapping[str, Any] | None = None,
    ) -> None:
        """Write what became of steps.

        Raises:
            LeaseLost: another worker is at it.
        """
        values: dict[str, Any] = {"state": state, "error": error, "finished_at": self.now()}
        if phases is not None:
            values["phases"] = orjson.dumps(phases).decode()
        mine = execution_steps.c.execution_id == execution.id
        change = update(execution_steps).where(mine & execution_steps.c.number.in_(numbers))
        with self.writing() as connection:
            self._guard(connection, execution, settled=execution.attempt)
            connection.execute(change.values(**values))

    @again
    def note_stage(self, execution: ExecutionRow, stage: str) -> None:
        """Say in words what goes on.

        Raises:
            LeaseLost: another worker is at it.
        """
        with self.writing(durable=False) as connection:
            self._guard(connection, execution, stage=stage[:128])

    @again
    def end(
        self,
        execution: ExecutionRow,
        state: str,
        failure: tuple[str, str] | None = None,
        difference: Sequence[Mapping[str, Any]] = (),
    ) -> bool:
        """End it; steps that wait are skipped. False when the lease was lost meanwhile."""
        code, message = failure or (None, None)
        values = {
            "state": state, "failure_code": code, "failure_message": message, "lease_until": None,
            "finished_at": self.now(), "stage": "",
            "difference": orjson.dumps(list(difference)).decode() if difference else None,
        }  # fmt: skip
        mine = execution_steps.c.execution_id == execution.id
        skip = update(execution_steps).where(mine & (execution_steps.c.state == "waiting"))
        with self.writing() as connection:
            change = update(executions).where(self._held(execution.id, execution.attempt)).values(**values)
            if not connection.execute(change).rowcount:
                return False
            connection.execute(skip.values(state="skipped"))
        return True

    @again
    def cancel(self, its_id: str) -> ExecutionRow:
        """End an execution that nobody took up yet; ask another to end before its next wave. The row after.

        One whose worker died may have moves under way: its next worker sees them to their end.

        Raises:
            UnknownExecution: no such execution.
            NotCancellable: it is at its end.
        """
        mine, now = executions.c.id == its_id, self.now()
        fresh = (executions.c.state == "queued") & (executions.c.attempt == 0)
        ended = {"state": "cancelled", "finished_at": now, "cancel_requested": True}
        steps = (execution_steps.c.execution_id == its_id) & (execution_steps.c.state == "waiting")
        with self.writing() as connection:
            change = update(executions).where(mine & fresh).values(**ended)
            row = connection.execute(change.returning(*executions.c)).one_or_none()
            if row is not None:
                connection.execute(update(execution_steps).where(steps).values(state="skipped"))
            else:
                change = update(executions).where(mine & executions.c.state.in_(LIVE))
                change = change.values(cancel_requested=True)
                row = connection.execute(change.returning(*executions.c)).one_or_none()
        if row is None:
            raise NotCancellable("execution", its_id, self.find(its_id).state, "running")
        return execution_row(row)

    def _tries(self) -> ColumnElement[int]:
        """A long execution outlives many workers: deaths count from the last step that came to its end."""
        return executions.c.attempt - executions.c.settled

    def _guard(self, connection: Connection, execution: ExecutionRow, **values: Any) -> None:
        held = self._held(execution.id, execution.attempt)
        values = values or {"attempt": execution.attempt}
        if not connection.execute(update(executions).where(held).values(**values)).rowcount:
            raise LeaseLost(execution.id)

    def _lock(self, connection: Connection, cluster: str) -> None:
        """One at a time by cluster, also on PostgreSQL; SQLite has one writer anyway."""
        connection.execute(self.insert(clusters).values(name=cluster).on_conflict_do_nothing())
        connection.execute(select(clusters.c.name).where(clusters.c.name == cluster).with_for_update())

    def _standing(self, connection: Connection, cluster: str, jobs: Collection[str]) -> Standing:
        step, live = execution_steps.c, executions.c.state.in_(LIVE)
        of_cluster = executions.c.cluster == cluster
        joined = execution_steps.join(executions, executions.c.id == step.execution_id)
        query = select(execution_steps).select_from(joined).where(of_cluster & live)
        rows = connection.execute(query.order_by(step.execution_id, step.number))
        begun = (step.kind == "move") & (step.started_at > self.now() - HOUR_S) & ~live
        count = select(func.count()).select_from(joined).where(of_cluster & begun)
        pauses = select(step.job, func.max(step.finished_at)).select_from(joined)
        pauses = pauses.where(of_cluster & step.job.in_(jobs) & step.started_at.is_not(None))
        return Standing(
            live=tuple((row.execution_id, step_row(row)) for row in rows),
            moves_begun=int(connection.execute(count).scalar_one()),
            paused_at={
                str(job): at for job, at in connection.execute(pauses.group_by(step.job)) if at is not None
            },
        )
