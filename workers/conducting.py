"""One unit of a wave, carried out: its calls made in order, retried, given up where need be, and its outcome.

Every call is journalled before it is made and may be made again: a worker that takes up what another began
runs the same script from its start, and agents answer with the state that they are in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any, TypeAlias

from sqlalchemy.exc import SQLAlchemyError

from monkeytree.adapters.agents import Agent
from monkeytree.adapters.executions_calls import (
    MOST_LANDINGS,
    Ask,
    Scene,
    Until,
    aborts,
    acknowledgements,
    landing,
    unit_script,
)
from monkeytree.adapters.executions_journal import LeaseLost
from monkeytree.adapters.executions_match import Rank
from monkeytree.adapters.logs import logger
from monkeytree.wire.agents import (
    MOVE_STATES,
    Command,
    MoveRequest,
    MoveStatus,
    PauseRequest,
    PauseStatus,
    WorkerStatus,
)

from .insisting import LOOK_S, Patience, Trouble, insist
from .outcomes import Outcome, judge
from .station import internal

Status: TypeAlias = MoveStatus | PauseStatus
Journal = Callable[[Ask, Mapping[str, Any] | None], Callable[[str], None]]
"""Writes that a call is about to be made; what it returns writes how that went."""

#: As many moves are prepared at once; the deadlines of all of them run meanwhile.
AT_ONCE = 64
_AT: Mapping[str, int] = {state: index for index, state in enumerate(MOVE_STATES)}

log = logger(__name__)


class Conductor:
    """Carries out one unit.

    Args:
        agent_of: the agent of a node; raises AgentUnreachable where none is known.
        fills: bodies' fills of earlier attempts, by name of the call: both sides of a move have the same.
        earlier: calls that earlier attempts may have made, by node and name.
        workers: what agents told of the unit's workers, by rank.
    """

    def __init__(
        self,
        scene: Scene,
        agent_of: Callable[[str], Agent],
        journal: Journal,
        patience: Patience,
        *,
        fills: Mapping[str, Mapping[str, Any]],
        earlier: Collection[tuple[str, str]],
        workers: Mapping[Rank, WorkerStatus],
    ) -> None:
        self._scene = scene
        self._agent_of = agent_of
        self._journal = journal
        self._patience = patience
        self._fills = fills
        self._workers = workers
        self._seen: dict[tuple[str, str], Status] = {}
        self._landing_locks = {number: Lock() for number in scene.unit.parked}
        self._failed_before: dict[int, float] = {}
        self._landings: dict[int, int] = {}
        """Which landing of a parked move is under way, where it is not the first."""
        asks = [ask for ask in _all_asks(scene) if (ask.node, ask.name) in earlier]
        self._made = {(ask.node, ask.id) for ask in asks if ask.verb == "make"}
        self._started = any(ask.noun == "pauses" and ask.verb == "start" for ask in asks)

    def carry_out(self, stage: Callable[[str], None]) -> dict[str, Outcome]:
        """Run the unit to its end; what became of each job's steps."""
        trouble: Trouble | None = None
        try:
            for batch in unit_script(self._scene):
                stage(batch.stage)
                self._together(batch.asks, self._do_or_land_again)
            self._together(self._last_looks(), self._quietly)
        except Trouble as found:
            trouble = found
            log.warning("unit_given_up", jobs=self._scene.unit.jobs, reason=found.reason, why=str(found))
            stage("give up")
            self._give_up()
        except (LeaseLost, SQLAlchemyError):  # whoever takes the lease goes on from here
            raise
        except Exception as found:
            log.exception("unit_broke", jobs=self._scene.unit.jobs)
            trouble = Trouble(*internal(found, "executing"))
            stage("give up")
            self._give_up()
        cause = None if trouble is None else (trouble.reason, str(trouble))
        return judge(self._scene, self._seen, cause, self._started)

    def acknowledge(self) -> None:
        """Tell the agents that the outcome is known; they may forget. No harm where one cannot be told."""
        self._together(acknowledgements(self._scene).asks, self._quietly)

    def _do_or_land_again(self, ask: Ask) -> None:
        """A landing that fails leaves the state where it is parked: another one is tried."""
        if not self._lands(ask):
            self._do(ask)
            return
        with self._landing_locks[ask.step]:
            if ask.step in self._landings:  # this one is over already
                return
            try:
                self._do(ask)
                return
            except Trouble as found:
                trouble = found
            while self._landings.get(ask.step, 0) + 1 < MOST_LANDINGS and self._still_parked(ask, trouble):
                self._landings[ask.step] = which = self._landings.get(ask.step, 0) + 1
                log.info("landing_again", step=ask.step, landing=which, why=str(trouble))
                try:
                    for batch in landing(self._scene, ask.step, which):
                        self._together(batch.asks, self._do)
                    return
                except Trouble as found:
                    trouble = found
            raise trouble

    def _lands(self, ask: Ask) -> bool:
        """Whether it belongs to the landing of a parked state, rather than to what comes before or after."""
        step, unit = self._scene.steps[ask.step], self._scene.unit
        if ask.noun != "moves" or ask.step not in unit.parked or ask.until == "final":
            return False
        if ask.node == step.target:
            return self._started
        return ask.fills == "descriptor" or ask.until == "VERIFIED"

    def _still_parked(self, ask: Ask, trouble: Trouble) -> bool:
        """Whether the source waits for another landing."""
        step = self._scene.steps[ask.step]
        if trouble.reason in ("agent_unreachable", "late", "returned"):
            return False
        look = Ask(step.source or "", "look", "moves", self._scene.move_id(ask.step), ask.step)
        try:
            status = self._look(look, 0.0, -1, monotonic() + self._patience.answer_s)
        except Trouble:
            return False
        return isinstance(status, MoveStatus) and status.parked and not _returns(status)

    def _last_looks(self) -> list[Ask]:
        """At destinations that are not those of the script."""
        return [
            dataclasses.replace(ask, id=self._scene.landing_id(ask.step, self._landings[ask.step]))
            for batch in unit_script(self._scene)
            for ask in batch.asks
            if ask.until == "final" and ask.noun == "moves" and ask.step in self._landings
            and ask.node == self._scene.steps[ask.step].target
        ]  # fmt: skip

    def _do(self, ask: Ask) -> None:
        deadline = monotonic() + self._time_for(ask.until)
        status = self._send(ask, deadline)
        if ask.verb in ("abort", "commit"):
            return
        while ask.until is not None and not _reached(status, ask.until):
            if status.state == "ABORTED":
                raise _aborted(ask, status)
            self._raise_if_not_landed(ask, status)
            left = deadline - monotonic()
            if left <= 0:
                raise Trouble(
                    "late", f"{ask.noun[:-1]} {ask.id} at node {ask.node!r} was still {status.state}"
                )
            status = self._look(ask, min(left, LOOK_S), status.version, deadline)
        if ask.until != "final" and status.state == "ABORTED":
            raise _aborted(ask, status)

    def _raise_if_not_landed(self, ask: Ask, status: Status) -> None:
        """A parked state that could not be sent stays parked; one that goes home is not waited for."""
        if ask.until != "VERIFIED" or not isinstance(status, MoveStatus) or not status.parked:
            return
        failed = status.figures.get("failed_landings", 0)
        if _returns(status) or failed > self._failed_before.get(ask.step, 0):
            raise _aborted(ask, status)

    def _send(self, ask: Ask, deadline: float) -> Status:
        """Make the call, again and again while the agent is away or full."""
        fill = self._fill_of(ask)
        ended = self._journal(ask, fill)
        # before the call: it may be carried out though its answer is lost
        if ask.verb == "make":
            self._made.add((ask.node, ask.id))
        if ask.noun == "pauses" and ask.verb == "start":
            self._started = True
        try:
            status = self._insist(ask, lambda agent: _call(agent, ask, _filled(ask, fill)), deadline)
        except Trouble as trouble:
            ended(f"{trouble.reason}: {trouble}")
            raise
        ended(status.state)
        if ask.fills == "descriptor" and isinstance(status, MoveStatus):
            self._failed_before[ask.step] = status.figures.get("failed_landings", 0)
        return self._note(ask, status)

    def _look(self, ask: Ask, wait_s: float, since: int, deadline: float) -> Status:
        status = self._insist(ask, lambda agent: _get(agent, ask, wait_s, since), deadline)
        return self._note(ask, status)

    def _insist(self, ask: Ask, call: Callable[[Agent], Status], deadline: float) -> Status:
        return insist(partial(self._agent_of, ask.node), call, self._patience, deadline)

    def _note(self, ask: Ask, status: Status) -> Status:
        self._seen[ask.node, ask.id] = status
        return status

    def _fill_of(self, ask: Ask) -> Mapping[str, Any] | None:
        if ask.fills is None:
            return None
        first = f"make moves/{self._scene.move_id(ask.step)}"
        if ask.fills == "standby" and first in self._fills:
            return self._fills[first]
        step = self._scene.steps[ask.step]
        if ask.fills == "descriptor":
            its_id = self._scene.landing_id(ask.step, self._landings.get(ask.step, 0))
            told = self._seen.get((step.target or "", its_id))
            return {"descriptor": told.descriptor if isinstance(told, MoveStatus) else None}
        worker = self._workers.get((step.job, step.group, step.rank or 0))
        if worker is None:
            raise Trouble("worker_unknown", f"no agent tells of worker {step.job}/{step.group}/{step.rank}")
        return {
            "state_bytes": worker.state_bytes,
            "standby_command": list(worker.standby_command),
            "standby_env": dict(worker.standby_env),
        }

    def _give_up(self) -> None:
        """Abort what was made, and see what the jobs decided."""
        for batch in aborts(self._scene, self._made):
            self._together(batch.asks, self._quietly)
        if self._started:
            looks = [ask for batch in unit_script(self._scene) for ask in batch.asks if ask.until == "final"]
            known = [ask for ask in looks if (ask.node, ask.id) in self._made]
            self._together(known, self._quietly)

    def _quietly(self, ask: Ask) -> None:
        try:
            self._do(ask)
        except Trouble as trouble:
            log.info("call_failed", node=ask.node, call=ask.name, reason=trouble.reason, why=str(trouble))
        except (LeaseLost, SQLAlchemyError):
            raise
        except Exception:  # the other calls that give the unit up are made all the same
            log.exception("call_broke", node=ask.node, call=ask.name)

    def _together(self, asks: Iterable[Ask], do: Callable[[Ask], None]) -> None:
        """Make calls at once; all are over before the first trouble is raised."""
        asks = tuple(asks)
        if not asks:
            return
        with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(asks))) as pool:
            futures = [pool.submit(do, ask) for ask in asks]
        for future in futures:
            future.result()

    def _time_for(self, until: Until | None) -> float:
        limits = self._scene.deadlines
        paused = limits.arm_s + limits.pause_s
        allowed = {
            None: 0.0, "ARMED": 0.0, "PREPARED": limits.prepare_s, "parked": paused, "VERIFIED": paused,
            "final": paused + limits.first_iteration_s,
        }  # fmt: skip
        return allowed[until] + self._patience.answer_s


def _reached(status: Status, until: Until) -> bool:
    if until == "final" or isinstance(status, PauseStatus):
        return status.final
    if status.state == "ABORTED":
        return False
    if until == "parked":
        return status.parked or _AT.get(status.state, -1) >= _AT["SENDING"]
    return _AT.get(status.state, -1) >= _AT[until]


def _returns(status: MoveStatus) -> bool:
    """Whether a parked state is on its way home."""
    return (status.error or {}).get("code") == "returned"


def _all_asks(scene: Scene) -> Iterable[Ask]:
    """Of the script, and of landings that are made anew."""
    for batch in unit_script(scene):
        yield from batch.asks
    for number in scene.unit.parked:
        for which in range(1, MOST_LANDINGS):
            for batch in landing(scene, number, which):
                yield from batch.asks


def _aborted(ask: Ask, status: Status) -> Trouble:
    error = status.error or {}
    message = (
        f"{ask.noun[:-1]} {ask.id} at node {ask.node!r} was aborted: {error.get('message', 'no reason told')}"
    )
    return Trouble(error.get("code", "aborted"), message)


def _filled(ask: Ask, fill: Mapping[str, Any] | None) -> Any:
    body = ask.body
    if fill is None or body is None:
        return body
    if isinstance(body, MoveRequest):
        values = {**fill, "standby_command": tuple(fill["standby_command"])}
        return dataclasses.replace(body, **values)
    return dataclasses.replace(body, **fill)


def _call(agent: Agent, ask: Ask, body: Any) -> Status:
    match ask.verb, body:
        case "make", MoveRequest():
            return agent.put_move(ask.id, body)
        case "make", PauseRequest():
            return agent.put_pause(ask.id, body)
        case "look", _:
            return _get(agent, ask, 0.0, -1)
        case verb, Command():
            noun = ask.noun[:-1]
            status: Status = getattr(agent, f"{verb}_{noun}")(ask.id, body)
            return status
    raise AssertionError(ask)


def _get(agent: Agent, ask: Ask, wait_s: float, since: int) -> Status:
    if ask.noun == "moves":
        return agent.move(ask.id, wait_s=wait_s, since=since)
    return agent.pause(ask.id, wait_s=wait_s, since=since)
