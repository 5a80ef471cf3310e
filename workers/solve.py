"""Solve one plan: claim it, plan, store."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any

import orjson

from monkeytree.adapters.documents import utc_text
from monkeytree.adapters.errors import BadSetting
from monkeytree.adapters.logs import logger
from monkeytree.adapters.reservations import hold, planning_key
from monkeytree.adapters.rows import PlanRow
from monkeytree.adapters.solving import Outcome
from monkeytree.errors import MonkeyTreeError
from monkeytree.plan import Plan
from monkeytree.snapshot import Snapshot
from monkeytree.wire.plan import dump_plan, load_plan
from monkeytree.wire.snapshot import parse_snapshot

from .station import Station, internal

log = logger(__name__)


class Bench(Station):
    """Where a worker's child process solves plans, one after the other."""

    @cached_property
    def make_plan(self) -> Callable[..., Plan]:
        """The planning function the settings name."""
        module, _, name = self._settings.planner.partition(":")
        try:
            function: Callable[..., Plan] = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise BadSetting(f"MONKEYTREE_PLANNER={self._settings.planner!r}: {error}") from None
        return function

    def warm_up(self) -> None:
        """Load what the first solve would wait for."""
        _ = self.store, self.announcer
        try:
            _ = self.make_plan
        except BadSetting as error:  # each plan will fail with the same words
            log.error("no_planner", error=str(error))

    def solve(self, plan_id: str) -> None:
        """Claim the plan and carry it to its end; do nothing when there is nothing to claim."""
        plan = self.claim(self.store, plan_id)
        if plan is None:
            return
        log.info("solving", attempt=plan.attempt, snapshot_id=plan.snapshot_id)
        failure: tuple[str, str] | None = None
        outcome: Outcome | None = None
        with self.lease(self.store, plan):
            try:
                outcome = self._outcome(plan)
            except MonkeyTreeError as error:
                failure = (error.code, str(error))
            except Exception as error:
                log.exception("solve_failed")
                failure = internal(error, "planning")
        if outcome is not None:
            kept = self.store.finish(plan.id, plan.attempt, outcome)
        else:
            kept = self.store.fail(plan.id, plan.attempt, *(failure or ("internal", "no outcome")))
        self.announcer.announce(plan.id)
        log.info(
            "solved" if outcome else "failed", kept=kept, attempt=plan.attempt, **_figures(outcome, failure)
        )

    def _outcome(self, row: PlanRow) -> Outcome:
        snapshot = self._snapshot(row)
        reservations = self.store.reservations({row.cluster})
        snapshot, reserved = hold(snapshot, reservations)
        plan = self.make_plan(snapshot, previous=self._previous(row), plan_id=row.id)
        document = {**dump_plan(plan), "id": row.id, "created_at": utc_text(row.created_at)}
        if reserved:
            document |= _of_reserved(row, reserved)
        return Outcome(
            document=orjson.dumps(document),
            status=plan.status,
            moves_needed=plan.moves_needed,
            solver=plan.solver.name,
            solve_s=plan.solver.seconds,
            key=planning_key(row.planning, reservations),
        )

    def _snapshot(self, row: PlanRow) -> Snapshot:
        """The stored snapshot with the plan's own options (a what-if has others)."""
        snapshot = parse_snapshot(self.store.snapshot_body(row.snapshot_id))
        if snapshot.planning == row.planning:
            return snapshot
        return dataclasses.replace(snapshot, planning=row.planning)

    def _previous(self, row: PlanRow) -> Plan | None:
        """The plan whose orders and colours to keep, when it is ready."""
        previous_id = row.planning.previous_plan_id
        if previous_id is None:
            return None
        body = self.store.plan_body(previous_id)
        if body is None:
            log.warning("previous_plan_not_ready", previous_plan_id=previous_id)
            return None
        return load_plan(orjson.loads(body))


def _of_reserved(row: PlanRow, reserved: dict[str, int]) -> dict[str, Any]:
    """What differs in the document of a plan that works around reservations.

    It is a plan of the snapshot as it was sent; what was proved with slots held is no proof about that one.
    """
    return {"snapshot_id": row.snapshot_id, "reserved": reserved, "certificate": None, "conflict": None}


def _figures(outcome: Outcome | None, failure: tuple[str, str] | None) -> dict[str, Any]:
    if outcome is None:
        return {"code": failure[0], "failure": failure[1]} if failure else {}
    return {
        "status": outcome.status,
        "moves_needed": outcome.moves_needed,
        "solver": outcome.solver,
        "solve_s": outcome.solve_s,
    }
