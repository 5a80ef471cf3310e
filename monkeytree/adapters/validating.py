"""The part of the store that keeps validations: packet-level replays of plans and placements."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import orjson
from sqlalchemy import Engine, select, update

from .again import again
from .errors import UnknownValidation
from .leased import Kind, Leased
from .replay_options import ReplayOptions
from .rows import SnapshotRow, WorkRow, new_id, pack, unpack, values_of
from .tables import validation_bodies, validations

ValidationState = Literal["queued", "running", "ready", "failed", "cancelled"]
ANSWERING = ("queued", "running", "ready")
_ALL_DONE = orjson.dumps({"stage": "ready", "done": 1.0}).decode()


@dataclass(frozen=True, slots=True)
class ValidationRow(WorkRow):
    """A validation as the store knows it.

    ``plan_id`` is None where the placement is replayed as it stands. ``progress`` is the newest
    ``{"stage", "done"}`` of the attempt; ``isolated`` and ``claims_hold`` are those of a ready report.
    """

    plan_id: str | None
    options: ReplayOptions
    state: ValidationState
    progress: dict[str, Any] | None
    isolated: bool | None
    claims_hold: bool | None

    @property
    def live(self) -> bool:
        """Whether its report is still to come."""
        return self.state in ("queued", "running")

    @property
    def limit_s(self) -> float:
        """Seconds the replay may take."""
        return self.options.timeout_s

    @property
    def tag(self) -> str:
        """Changes whenever its document does (an entity tag)."""
        seen = sha256(orjson.dumps(self.progress)).hexdigest()[:8]
        return f"{self.id}.{self.state}.{self.attempt}.{seen}"


def validation_row(row: Any) -> ValidationRow:
    """The row of table ``validations`` as a :class:`ValidationRow`."""
    values = values_of(ValidationRow, row)
    values["options"] = ReplayOptions.from_text(row.options)
    values["progress"] = row.progress and orjson.loads(row.progress)
    return ValidationRow(**values)


VALIDATIONS = Kind(
    noun="validation",
    doing="running",
    table=validations,
    read=validation_row,
    unknown=UnknownValidation,
    crashed="replay_crashed",
    overran="replay_overran",
    advice="the replay may need more memory than the worker has: try smaller flows or a lower scale",
    cure="try a longer timeout_s, smaller flows or a lower scale",
)


class Validations(Leased[ValidationRow]):
    """Validations; ``store.validations``."""

    kind = VALIDATIONS

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @again
    def ask(
        self,
        snapshot: SnapshotRow,
        plan_id: str | None,
        options: ReplayOptions,
        request_id: str | None = None,
    ) -> tuple[ValidationRow, bool]:
        """Queue a replay, or find the live or ready one of the same; the row, and whether it is new."""
        digest = sha256(f"{snapshot.id} {plan_id} {options.text()}".encode()).hexdigest()
        answering = (validations.c.digest == digest) & validations.c.state.in_(ANSWERING)
        with self.writing() as connection:
            while True:
                now = self.now()
                fresh = {
                    "id": new_id(), "snapshot_id": snapshot.id, "plan_id": plan_id, "digest": digest,
                    "cluster": snapshot.cluster, "options": options.text(), "state": "queued", "attempt": 0,
                    "created_at": now, "published_at": now, "request_id": request_id,
                }  # fmt: skip
                added = self.add(connection, validations, fresh)
                row = connection.execute(select(validations).where(answering)).one_or_none()
                if row is not None:  # else the one that stood in the way has just ended: try again
                    return validation_row(row), added

    @again
    def report(self, validation_id: str) -> bytes | None:
        """The report of a ready validation; None when it is not ready."""
        query = select(validation_bodies.c.body).where(validation_bodies.c.id == validation_id)
        with self.reading() as connection:
            body = connection.execute(query).scalar()
        return None if body is None else unpack(body)

    def note_progress(self, validation_id: str, attempt: int, stage: str, done: float | None) -> bool:
        """Say how far the replay is; False when the lease was lost meanwhile."""
        text = orjson.dumps({"stage": stage, "done": done}).decode()
        return self._guarded(validation_id, attempt, durable=False, progress=text)

    @again
    def finish(
        self, validation_id: str, attempt: int, report: bytes, *, isolated: bool, claims_hold: bool
    ) -> bool:
        """Store a report; False when the lease was lost meanwhile, and nothing is stored."""
        change = update(validations).where(self._held(validation_id, attempt)).values(
            state="ready", progress=_ALL_DONE, isolated=isolated, claims_hold=claims_hold,
            lease_until=None, finished_at=self.now(),
        )  # fmt: skip
        with self.writing() as connection:
            if not connection.execute(change).rowcount:
                return False
            connection.execute(self.insert(validation_bodies).values(id=validation_id, body=pack(report)))
        return True

    def unavailable(self, within_s: float) -> str | None:
        """What the newest ended replay said, if that was within ``within_s`` and that it cannot be run."""
        at = validations.c.finished_at
        query = select(validations.c.failure_code, validations.c.failure_message)
        query = query.where((at > self.now() - within_s) & (validations.c.state != "cancelled"))
        with self.reading() as connection:
            newest = connection.execute(query.order_by(at.desc()).limit(1)).one_or_none()
        if newest is None or newest.failure_code != UNAVAILABLE:
            return None
        return str(newest.failure_message)


#: Failure code of a replay that the worker has no simulator for; also that of the HTTP problem.
UNAVAILABLE = "validation_unavailable"
