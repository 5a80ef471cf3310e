"""Carry one execution out: claim it, have agents do wave after wave, journal every step.

A worker that takes an execution up where another died finds in the journal which steps were begun, and makes
their calls again; nothing else tells it apart from the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic, sleep, time
from typing import Any

import orjson
from sqlalchemy.exc import SQLAlchemyError

from monkeytree.adapters.executions_journal import LeaseLost
from monkeytree.adapters.executions_match import (
    Difference,
    oversubscribed,
    placement,
    snapshot_differences,
    tell,
)
from monkeytree.adapters.executions_order import ring_orders
from monkeytree.adapters.executions_routes import flow_routes, route_asks, transfer_ports
from monkeytree.adapters.executions_rows import ExecutionRow, Step, StepState
from monkeytree.adapters.executions_schedule import NoRoom, Round, Unit
from monkeytree.adapters.executions_waves import Script, has_room, scene_of, second_try, wave_of
from monkeytree.adapters.executions_windows import read_windows
from monkeytree.adapters.logs import logger
from monkeytree.adapters.notify import Announcer
from monkeytree.adapters.settings import Settings
from monkeytree.adapters.store import Store
from monkeytree.errors import MonkeyTreeError
from monkeytree.wire.snapshot import parse_snapshot

from .conducting import Conductor
from .insisting import Patience, never
from .outcomes import Outcome
from .roster import BETWEEN_S, Roster
from .routing import put_routes
from .station import Station, internal

log = logger(__name__)
SETTLE_S = 20.0
"""How long agents may tell of a worker that has died, after a move of its failed."""


class Stop(Exception):
    """The execution ends before its last wave."""

    def __init__(
        self, code: str, message: str, difference: Sequence[Difference] = (), state: str = "failed"
    ) -> None:
        super().__init__(message)
        self.failure = None if state == "cancelled" else (code, message)
        self.difference = [one.document() for one in difference]
        self.state = state


class Crew(Station):
    """Where a worker's child process carries executions out, one after the other."""

    def execute(self, execution_id: str) -> None:
        """Claim the execution and carry it to its end; do nothing when there is nothing to claim."""
        rows = self.store.executions
        row = self.claim(rows, execution_id)
        if row is None:
            return
        log.info("executing", attempt=row.attempt, plan_id=row.plan_id, cluster=row.cluster)
        with self.lease(rows, row):
            try:
                stop = Run(self._settings, self.store, self.announcer, row).to_the_end()
            except LeaseLost:
                log.warning("lease_lost")
                return
            except SQLAlchemyError:  # moves may be under way: whoever takes the lease sees them to their end
                log.exception("store_lost")
                return
            except Exception as error:
                log.exception("execution_failed")
                stop = Stop(*internal(error, "executing"))
        if stop is None:
            kept = rows.end(row, "done")
        else:
            kept = rows.end(row, stop.state, stop.failure, stop.difference)
        self.announcer.announce(row.id)
        log.info("ended", kept=kept, attempt=row.attempt, why=str(stop) if stop else "done")


@dataclass
class Run:
    """One attempt at an execution."""

    settings: Settings
    store: Store
    announcer: Announcer
    row: ExecutionRow

    def __post_init__(self) -> None:
        row = self.row
        body = self.store.plan_body(row.plan_id)
        self.plan = orjson.loads(body or b"{}")
        self.planned = parse_snapshot(self.store.snapshot_body(row.snapshot_id))
        self.script = Script(
            row.id, row.plan_id, self.planned, ring_orders(self.plan), self.settings.move_pause_s,
            self.settings.agent_transport, self._transfer_ports(),
        )  # fmt: skip
        self.roster = Roster(self.settings, self.store, row.cluster)
        self.fills = self.store.executions.fills(row.id)
        self.earlier = {(call.node, call.name) for call in self.store.executions.calls(row.id)}

    def _transfer_ports(self) -> dict[int, int]:
        """Of the transports only one can choose where it sends from."""
        if self.settings.agent_transport != "verbs":
            return {}
        return transfer_ports(self.plan, self.planned, self._steps())

    def to_the_end(self) -> Stop | None:
        """All waves; why it ended before the last, or that some steps did not come about."""
        try:
            for wave in range(self.row.waves):
                self._carry_out(wave)
        except Stop as stop:
            return stop
        except (MonkeyTreeError, NoRoom) as error:
            return Stop(getattr(error, "code", "not_executable"), str(error))
        finally:
            self.roster.close()
        steps = self._steps()
        lost = [step for step in steps if step.state != "done"]
        if not lost:
            return None
        code = "routes_not_put" if all(step.kind == "routes" for step in lost) else "move_failed"
        return Stop(code, f"{len(lost)} of {len(steps)} steps were not done: {lost[0].error}")

    def _carry_out(self, wave: int) -> None:
        mine = [step for step in self._steps() if step.wave == wave]
        if all(step.over for step in mine) and not self._oversubscribed():
            return
        if all(step.state == "waiting" for step in mine):
            self._may_begin()
        self._put_routes([step for step in mine if step.kind == "routes" and not step.over])
        found = wave_of(self.planned, self._steps(), wave)
        waiting = {step.number for step in mine if step.state == "waiting" and step.kind != "routes"}
        if left_out := waiting & set(found.impossible):
            why = "its slot was not freed, since an earlier step was not done"
            self.store.executions.end_steps(self.row, left_out, "skipped", error=why)
        for units in found.rounds:
            self._carry_out_round(wave, units)

    def _put_routes(self, steps: Sequence[Step]) -> None:
        """Give nodes their tables, before any job connects anew."""
        if not steps:
            return
        rows, waiting = self.store.executions, [step for step in steps if step.state == "waiting"]
        if waiting:  # one epoch for all, drawn once: then none of them waits
            self._check_snapshot(self._steps())
            epoch = rows.begin_steps(self.row, {"": [step.number for step in waiting]})[""]
        else:
            epoch = steps[0].epoch or 0
        self._tell(f"source ports of {len(steps)} nodes")
        asks = route_asks(flow_routes(self.plan, self.planned), steps, epoch)
        patience = Patience(self.settings.agent_patience_s)
        lost = put_routes(asks, self.roster.agent, self._journal, patience, self._cancelled)
        for number, why in lost.items():
            rows.end_steps(self.row, [number], "failed", error=why)
        rows.end_steps(self.row, {step.number for step in steps} - lost.keys(), "done")
        if lost:
            self._stop_if(self._cancelled)
        if lost and self.row.on_failure == "stop":
            first = next(iter(lost.values()))
            raise Stop(
                "routes_not_put",
                f"{len(lost)} of {len(steps)} nodes did not take their source ports: {first}",
            )

    def _may_begin(self) -> None:
        """What only counts between waves."""
        self._stop_if(self._cancelled)
        if not read_windows(self.settings.execution_windows).open_at(time()):
            raise Stop(
                "outside_window", "the maintenance window has closed; plan what is left in the next one"
            )

    def _cancelled(self) -> bool:
        """Whether its end was asked for."""
        return self.store.executions.find(self.row.id).cancel_requested

    def _stop_if(self, cancelled: Callable[[], bool]) -> None:
        if cancelled():
            raise Stop("cancelled", "cancelled between waves", state="cancelled")

    def _carry_out_round(self, wave: int, units: Round) -> None:
        steps = {step.number: step for step in self._steps()}
        mine = [step for step in steps.values() if step.wave == wave and step.kind != "routes"]
        between = all(step.state == "waiting" for step in mine)
        first = {number for number, step in steps.items() if not (step.over or step.again)}
        todo = [unit for unit in units if first & self._numbers(wave, unit)]
        fresh = [unit for unit in todo if not self._begun(wave, unit)]
        if fresh:
            self._check(steps, fresh, self._cancelled if between else never)
        if len(fresh) < len(todo):
            self._look_again(steps, todo)
        todo = [unit for unit in todo if unit not in fresh or self._fits(wave, unit)]
        outcomes: dict[str, Outcome] = {}
        if todo:
            with ThreadPoolExecutor(max_workers=min(8, len(todo))) as pool:
                for by_job in pool.map(partial(self._carry_out_unit, wave), todo):
                    outcomes |= by_job
        if not any(outcome.state == "unknown" for outcome in outcomes.values()):
            for unit in units:
                outcomes |= self._mend(wave, unit)
        self._weigh(list(outcomes.values()))

    def _mend(self, wave: int, unit: Unit) -> dict[str, Outcome]:
        """Bring a circle to an end that fits.

        Where one job aborted after another had landed in its place, its node holds too much. But some job of
        the circle has left a slot that nobody has taken: what failed is made once more from there on, each
        move directly to a slot that is free by then.
        """
        outcomes: dict[str, Outcome] = {}
        while over := self._oversubscribed():
            steps = self._steps()
            mine = [step for step in steps if step.kind == "move" and step.number in unit.moves]
            if not set(unit.jobs) & {step.job for step in mine if step.source in _nodes(over)}:
                break  # not this circle's doing
            begun = [step for step in mine if step.again]
            lost = begun or [step for step in mine if step.state == "failed" and not _tried_again(step)]
            units = second_try(self.planned, steps, lost)
            if not units:
                break
            if not begun:
                self._check({step.number: step for step in steps}, list(units))
            else:
                self._look_again({step.number: step for step in steps}, list(units))
            for one in units:
                outcomes |= self._carry_out_unit(wave, one, again=True)
        return outcomes

    def _check(
        self, steps: dict[int, Step], fresh: list[Unit], cancelled: Callable[[], bool] = never
    ) -> None:
        """Stop unless the cluster is as it should be before ``fresh`` units begin.

        Agents that do not answer are waited for until ``cancelled``. After a move that failed they are asked
        again for a moment: an agent may still tell of a worker that has just died there.
        """
        now = tuple(steps.values())
        self._check_snapshot(now)
        jobs = {job for unit in fresh for job in unit.jobs}
        targets = [steps[number].target or "" for unit in fresh for number in unit.moves]
        moving = {(step.job, step.group, step.rank or 0) for step in now if step.state == "running"}
        places = placement(self.planned, now)
        patience = monotonic() + (SETTLE_S if any(step.state == "failed" for step in now) else 0.0)
        try:
            while found := self.roster.look(places, jobs, targets, moving, cancelled):
                if monotonic() > patience or cancelled():
                    break
                sleep(BETWEEN_S)
        except MonkeyTreeError:
            self._stop_if(cancelled)
            raise
        self._stop_if(cancelled)
        self._stop_at(found, "what agents tell")

    def _check_snapshot(self, now: tuple[Step, ...]) -> None:
        newest = self.store.newest_snapshot(self.row.cluster)
        if newest is not None and newest.id != self.row.snapshot_id:
            newer = parse_snapshot(self.store.snapshot_body(newest.id))
            self._stop_at(snapshot_differences(self.planned, newer, now), "the newest snapshot")

    def _look_again(self, steps: dict[int, Step], units: list[Unit]) -> None:
        """Learn what workers need to be moved, where a worker died before any call was made."""
        jobs = {job for unit in units for job in unit.jobs}
        try:
            self.roster.look(placement(self.planned, steps.values()), jobs, ())
        except MonkeyTreeError as error:
            log.warning("workers_not_told", why=str(error))

    def _stop_at(self, found: Sequence[Difference], where: str) -> None:
        if found:
            raise Stop("cluster_changed", f"{where} differs from what is expected: {tell(found)}", found)

    def _fits(self, wave: int, unit: Unit) -> bool:
        """Whether its slots are free; they are not where a step before it failed."""
        if has_room(self.planned, self._steps(), unit):
            return True
        why = "its slot was not freed, since an earlier step was not done"
        self.store.executions.end_steps(self.row, self._numbers(wave, unit), "skipped", error=why)
        return False

    def _carry_out_unit(self, wave: int, unit: Unit, again: bool = False) -> dict[str, Outcome]:
        rows, steps = self.store.executions, self._steps()
        numbers = self._numbers(wave, unit)
        by_job = {
            job: [step.number for step in steps if step.number in numbers and step.job == job]
            for job in unit.jobs
        }
        begun = [step for step in steps if step.number in numbers and (step.again or not again)]
        epochs = {step.job: step.epoch for step in begun if step.epoch is not None}
        if not epochs:
            epochs = dict(rows.begin_steps(self.row, by_job))
        scene = replace(scene_of(self.script, steps, wave, unit, epochs), again=again)
        conductor = Conductor(
            scene,
            self.roster.agent,
            self._journal,
            Patience(self.settings.agent_patience_s),
            fills=self.fills,
            earlier=self.earlier,
            workers=self.roster.workers,
        )
        label = f"wave {wave + 1} of {self.row.waves}, {', '.join(unit.jobs)}"
        outcomes = conductor.carry_out(lambda stage: self._tell(f"{label}: {stage}"))
        for job, outcome in outcomes.items():
            for number in by_job[job]:
                state: StepState = "done" if outcome.state == "done" else "failed"
                phases = outcome.phases.get(number)
                if again:
                    phases = {**(phases or {}), "again": True}
                rows.end_steps(self.row, [number], state, error=outcome.error, phases=phases)
        self.announcer.announce(self.row.id)
        conductor.acknowledge()
        return outcomes

    def _weigh(self, outcomes: list[Outcome]) -> None:
        unknown = next((outcome for outcome in outcomes if outcome.state == "unknown"), None)
        if unknown is not None:
            raise Stop(
                "outcome_unknown",
                f"agents could not be asked how a move ended ({unknown.error}); look at their nodes, and "
                "take a fresh snapshot",
            )
        if over := self._oversubscribed():
            raise Stop(
                "oversubscribed",
                f"{tell(over)}: jobs that were to change places did not all move; move one of its workers "
                "away, and take a fresh snapshot",
                over,
            )
        failed = next((outcome for outcome in outcomes if outcome.state == "failed"), None)
        if failed is not None and self.row.on_failure == "stop":
            raise Stop("move_failed", f"a move failed: {failed.error}")

    def _oversubscribed(self) -> list[Difference]:
        """Nodes that hold more than they may, as the steps stand now."""
        return oversubscribed(self.planned, placement(self.planned, self._steps()))

    def _begun(self, wave: int, unit: Unit) -> bool:
        numbers = self._numbers(wave, unit)
        return any(step.state == "running" for step in self._steps() if step.number in numbers)

    def _numbers(self, wave: int, unit: Unit) -> set[int]:
        """Its steps: moves, and reorders of its jobs."""
        alone = {
            step.number
            for step in self._steps()
            if step.kind == "reorder" and step.wave == wave and step.job in unit.jobs
        }
        return {*unit.moves, *alone}

    def _steps(self) -> tuple[Step, ...]:
        return self.store.executions.steps(self.row.id)

    def _tell(self, stage: str) -> None:
        self.store.executions.note_stage(self.row, stage)
        self.announcer.announce(self.row.id)

    def _journal(self, ask: Any, fill: Any) -> Any:
        rows = self.store.executions
        number = rows.begin_call(self.row, ask.step, ask.node, ask.name, fill)
        return partial(rows.end_call, number)


def _nodes(over: Sequence[Difference]) -> set[str]:
    return {one.subject.removeprefix("node ") for one in over}


def _tried_again(step: Step) -> bool:
    return bool(step.phases and step.phases.get("again"))
