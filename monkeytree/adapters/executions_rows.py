"""Executions as the store hands them out: the row, and the steps it consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import orjson

from .executions_schedule import Transfer
from .rows import WorkRow, values_of

ExecutionState = Literal["queued", "running", "done", "failed", "cancelled"]
StepState = Literal["waiting", "running", "done", "failed", "skipped"]
StepKind = Literal["move", "reorder", "routes"]
OnFailure = Literal["stop", "continue"]
LIVE = ("queued", "running")


@dataclass(frozen=True, slots=True)
class Step:
    """A move, (``reorder``) the new ring order of a group none of whose workers moves, or (``routes``) the
    table of source ports of node ``source``: of no job, and no group.

    Attributes:
        number: its place in the execution; moves keep their index in the plan.
        slots: of ``target`` that are promised to it while the execution lives.
        epoch: of its job's pause, once it was begun.
        phases: what the agents said of it at its end.
    """

    number: int
    kind: StepKind
    job: str
    group: str
    rank: int | None
    source: str | None
    target: str | None
    source_rack: str | None
    target_rack: str | None
    wave: int
    staged: bool
    slots: int
    state_gb: float
    state: StepState = "waiting"
    epoch: int | None = None
    error: str | None = None
    phases: Mapping[str, Any] | None = None
    started_at: float | None = None
    finished_at: float | None = None

    @property
    def begun(self) -> bool:
        """Whether its worker may have left its source."""
        return self.state in ("running", "done", "failed")

    @property
    def again(self) -> bool:
        """Whether it has failed before and is under way once more."""
        return self.state == "running" and self.error is not None

    @property
    def over(self) -> bool:
        """Whether nothing more will be done about it."""
        return self.state in ("done", "failed", "skipped")

    def transfer(self) -> Transfer:
        """The move as the schedule takes it."""
        assert self.source is not None
        assert self.target is not None
        return Transfer(
            self.number, self.job, self.source, self.target, self.source_rack or "", self.target_rack or "",
            self.slots, self.staged, self.state_gb,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExecutionRow(WorkRow):
    """An execution as the store knows it; ``difference`` says what stopped it."""

    plan_id: str
    expected_sequence: int | None
    on_failure: OnFailure
    waves: int
    timeout_s: float
    cancel_requested: bool
    stage: str
    difference: tuple[dict[str, Any], ...]
    state: ExecutionState

    @property
    def live(self) -> bool:
        """Whether its end is still to come."""
        return self.state in LIVE

    @property
    def limit_s(self) -> float:
        """Seconds the work on it may take."""
        return self.timeout_s

    def tag(self, steps: Sequence[Step]) -> str:
        """Changes whenever its document does (an entity tag)."""
        seen = "".join(f"{step.number}{step.state}" for step in steps)
        digest = sha256(f"{self.stage}{self.cancel_requested}{seen}".encode()).hexdigest()[:12]
        return f"{self.id}.{self.state}.{self.attempt}.{digest}"


def execution_row(row: Any) -> ExecutionRow:
    """The row of table ``executions`` as an :class:`ExecutionRow`."""
    values = values_of(ExecutionRow, row)
    values["difference"] = tuple(orjson.loads(row.difference)) if row.difference else ()
    return ExecutionRow(**values)


def step_row(row: Any) -> Step:
    """The row of table ``execution_steps`` as a :class:`Step`."""
    values = {name: getattr(row, name) for name in Step.__slots__}
    values["phases"] = row.phases and orjson.loads(row.phases)
    return Step(**values)
