"""The part of the store that journals calls to agents: each is written down before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import select, update

from .again import again, again_in_any_case
from .executions_rows import ExecutionRow
from .rows import Part
from .tables import execution_calls, executions

_LONGEST_OUTCOME = 256


class LeaseLost(Exception):
    """Another worker holds the execution, or it is at its end: nothing may be done any more."""


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call as it was journalled; ``outcome`` is None where its answer was not seen."""

    number: int
    step: int
    node: str
    name: str
    attempt: int
    began_at: float
    ended_at: float | None
    outcome: str | None


class CallJournal(Part):
    """Calls of executions."""

    @again
    def begin_call(
        self, execution: ExecutionRow, step: int, node: str, name: str, fill: Mapping[str, Any] | None = None
    ) -> int:
        """Write that a call is about to be made; its number.

        Raises:
            LeaseLost: another worker is at it; the call must not be made.
        """
        values = {
            "execution_id": execution.id, "step": step, "node": node, "name": name,
            "attempt": execution.attempt, "began_at": self.now(),
            "fill": None if fill is None else orjson.dumps(fill).decode(),
        }  # fmt: skip
        held = (executions.c.id == execution.id) & (executions.c.state == "running")
        held &= executions.c.attempt == execution.attempt
        with self.writing() as connection:
            if connection.execute(select(executions.c.id).where(held).with_for_update()).first() is None:
                raise LeaseLost(execution.id)
            made = self.insert(execution_calls).values(**values).returning(execution_calls.c.number)
            return int(connection.execute(made).scalar_one())

    @again_in_any_case
    def end_call(self, number: int, outcome: str) -> None:
        """Write how it was answered."""
        change = update(execution_calls).where(execution_calls.c.number == number)
        with self.writing(durable=False) as connection:
            connection.execute(change.values(ended_at=self.now(), outcome=outcome[:_LONGEST_OUTCOME]))

    @again
    def fills(self, execution_id: str) -> dict[str, dict[str, Any]]:
        """What bodies were filled with, by name of the call, at whichever node: the first time counts."""
        calls = execution_calls.c
        query = select(calls.name, calls.fill).order_by(calls.number.desc())
        query = query.where((calls.execution_id == execution_id) & calls.fill.is_not(None))
        with self.reading() as connection:
            return {row.name: orjson.loads(row.fill) for row in connection.execute(query)}

    @again
    def calls(self, execution_id: str) -> tuple[CallRow, ...]:
        """All calls of an execution, in order."""
        columns = [execution_calls.c[name] for name in CallRow.__slots__]
        query = select(*columns).where(execution_calls.c.execution_id == execution_id)
        with self.reading() as connection:
            rows = connection.execute(query.order_by(execution_calls.c.number))
            return tuple(CallRow(**row._mapping) for row in rows)
