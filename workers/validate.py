"""Run one validation: claim it, replay it, store the report."""

from __future__ import annotations

from time import monotonic

import orjson

from monkeytree.adapters.logs import logger
from monkeytree.adapters.simulator import interpreter, why_not
from monkeytree.adapters.store import Store
from monkeytree.adapters.validating import UNAVAILABLE, ValidationRow

from .replaying import ReplayFailed, run_replay
from .station import Station, internal

#: Progress is stored at most this often; a new stage at once.
TELL_EVERY_S = 0.5

log = logger(__name__)


class Track(Station):
    """Where a worker's child process runs replays, one after the other."""

    def validate(self, validation_id: str) -> None:
        """Claim the validation and carry it to its end; do nothing when there is nothing to claim."""
        rows = self.store.validations
        row = self.claim(rows, validation_id)
        if row is None:
            return
        log.info("replaying", attempt=row.attempt, snapshot_id=row.snapshot_id, plan_id=row.plan_id)
        report: bytes | None = None
        failure = ("internal", "no report")
        with self.lease(rows, row):
            try:
                report = self._report(row)
                said = orjson.loads(report)
            except ReplayFailed as error:
                failure = (error.failure_code, str(error))
            except Exception as error:
                report = None
                log.exception("replay_failed")
                failure = internal(error, "replaying")
        if report is not None:
            kept = rows.finish(
                row.id, row.attempt, report, isolated=said["isolated"], claims_hold=said["claims_hold"]
            )
            log.info("replayed", kept=kept, attempt=row.attempt, isolated=said["isolated"])
        else:
            kept = rows.fail(row.id, row.attempt, *failure)
            log.info("failed", kept=kept, attempt=row.attempt, code=failure[0], failure=failure[1])
        self.announcer.announce(row.id)

    def _report(self, row: ValidationRow) -> bytes:
        missing = why_not(self._settings.validation_python)
        if missing is not None:
            raise ReplayFailed(UNAVAILABLE, missing)
        snapshot = self.store.snapshot_body(row.snapshot_id)
        plan = None if row.plan_id is None else self.store.plan_body(row.plan_id)
        python = interpreter(self._settings.validation_python)
        return run_replay(python, snapshot, plan, row.options, Teller(self.store, row).tell)


class Teller:
    """Stores how far a replay is, not more often than anybody would look."""

    def __init__(self, store: Store, row: ValidationRow) -> None:
        self._rows = store.validations
        self._row = row
        self._stage = ""
        self._next = 0.0

    def tell(self, stage: str, done: float | None) -> None:
        """The stage, and the part of it that is done."""
        if stage == self._stage and monotonic() < self._next:
            return
        self._stage, self._next = stage, monotonic() + TELL_EVERY_S
        self._rows.note_progress(self._row.id, self._row.attempt, stage, done)
