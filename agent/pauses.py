"""Pauses at an agent: it arms the ranks here, and gathers what they say. The decision is the job's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from monkeytree.wire.agents import PAUSE_STATES, Command, PauseRequest, PauseStatus, dump

from .ledger import Entry, Fences, Ledger, error_of
from .moves import Moves
from .problems import AlreadyDecided, Busy, Conflict, NotPrepared, WrongMembers
from .registry import LocalWorker, Registry

PauseEntry = Entry[PauseRequest, PauseStatus]
_RETURN_S = 10.0
"""A worker connects again within this time of its agent's start."""


class Pauses:
    """The pauses of the jobs that have ranks here."""

    def __init__(
        self,
        node: str,
        ledger: Ledger[PauseRequest, PauseStatus],
        moves: Moves,
        registry: Registry,
        fences: Fences,
    ) -> None:
        self._node = node
        self.ledger = ledger
        self._moves = moves
        self._registry = registry
        self._fences = fences
        self._heard: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._missed: dict[tuple[str, str], float] = {}

    # -- calls, each under the node's lock ------------------------------------------------------------------

    def put(self, pause_id: str, request: PauseRequest) -> tuple[PauseStatus, bool]:
        """Make it (True), or find it made.

        Raises:
            Refused: as its code says.
        """
        self._fences.pass_through(request.job, request.epoch)
        known = self.ledger.known(pause_id, request)
        if known is not None:
            return known.status, False
        self.ledger.supersede(request.job, request.epoch)
        for other_id, other in self.ledger:
            if (other.request.job, other.request.epoch) == (request.job, request.epoch):
                raise Conflict(f"epoch {request.epoch} of job {request.job!r} is that of pause {other_id!r}")
            if other.request.job == request.job and not other.status.final:
                raise Busy(f"job {request.job!r} is in pause {other_id!r}, which is {other.status.state}")
        self._compare(request)
        status = PauseStatus(pause_id, request.epoch, request.job, "NEW", 1)
        return self.ledger.add(pause_id, request, status).status, True

    def start(self, pause_id: str, command: Command) -> PauseStatus:
        """Arm the ranks here."""
        entry = self._enter(pause_id, command)
        if entry.status.state != "NEW":
            return entry.status
        self._compare(entry.request)
        movers = {}
        for move in entry.request.moves:
            if move.source == self._node:
                state = self._moves.ledger.get(move.id).status.state
                if state != "ARMED":
                    raise NotPrepared(f"move {move.id!r} is {state}: start it first")
                movers[move.id] = self._moves.socket_of(move.id)
        status = self.ledger.change(pause_id, state="ARMED")
        self._arm(pause_id, entry, movers)
        return status

    def abort(self, pause_id: str, command: Command) -> PauseStatus:
        """Call it off, or ask the job to."""
        entry = self._enter(pause_id, command)
        state = entry.status.state
        if state == "ABORTED":
            return entry.status
        if state in ("DECIDED", "REFORMED", "RELEASED"):
            raise AlreadyDecided(f"pause {pause_id!r} is {state}")
        if state == "NEW":
            reason = command.reason or "the controller asked for it"
            return self.ledger.change(pause_id, state="ABORTED", error=error_of("aborted", reason))
        for worker in self._registry.of(entry.request.job):
            worker.tell("call_off", epoch=entry.request.epoch)
        return entry.status

    # -- what the ranks say ---------------------------------------------------------------------------------

    def on_report(self, worker: LocalWorker, report: Mapping[str, Any]) -> None:
        """A rank here tells how its pause goes."""
        for pause_id, entry in self.ledger:
            mine = entry.request.job == worker.job and entry.request.epoch == report.get("epoch")
            if mine and not entry.status.final:
                self._heard.setdefault(pause_id, {})[worker.member] = report
                self._gather(pause_id, entry)

    def on_gone(self, worker: LocalWorker) -> None:
        """A rank here has ended; of one that moves, :meth:`sweep` learns the end from the move."""
        for pause_id, entry in self.ledger:
            if entry.request.job != worker.job or entry.status.final or entry.status.state == "NEW":
                continue
            last = worker.reports.get(entry.request.epoch, {})
            moving = {f"{move.group}/{move.rank}" for move in entry.request.moves}
            done = worker.member in moving or last.get("state") in ("RELEASED", "ABORTED")
            if not done and worker.member in self._here(entry.request):
                error = error_of("worker_lost", f"rank {worker.member} ended in state {last.get('state')}")
                self.ledger.change(pause_id, state="ABORTED", error=error)

    def recover(self) -> None:
        """After a restart: what was not armed is off; the rest the workers tell when they come back."""
        for pause_id, entry in self.ledger:
            if entry.status.state == "NEW":
                error = error_of("interrupted", "the agent restarted before anything was armed")
                self.ledger.change(pause_id, state="ABORTED", error=error)

    def sweep(self) -> None:
        """A rank that ended while no agent was here said nothing: its move knows, or it is lost."""
        for pause_id, entry in self.ledger:
            if entry.status.final or entry.status.state == "NEW":
                continue
            heard = self._heard.setdefault(pause_id, {})
            for member in self._here(entry.request):
                if heard.get(member, {}).get("state") in ("RELEASED", "ABORTED"):
                    continue
                if self._registry.any(entry.request.job, member) is None:
                    self._missing(entry.request, heard, member)
            self._gather(pause_id, entry)

    def _missing(self, request: PauseRequest, heard: dict[str, Mapping[str, Any]], member: str) -> None:
        last = dict(heard.get(member, {}))
        for move in request.moves:
            if f"{move.group}/{move.rank}" == member and move.source == self._node:
                status = self._moves.ledger.get(move.id).status
                if status.final:
                    decision = "commit" if status.state == "RELEASED" else last.get("decision")
                    told = {"state": status.state, "decision": decision, "error": status.error}
                    heard[member] = {**last, **told}
                return
        since = self._missed.setdefault((request.job, member), time.monotonic())
        if time.monotonic() - since > _RETURN_S:
            error = error_of("worker_lost", f"rank {member} is not here any more")
            heard[member] = {**last, "state": "ABORTED", "error": error}

    def on_registered(self, worker: LocalWorker) -> None:
        """A rank has come back: one that never heard of an armed pause is armed now."""
        self._missed.pop((worker.job, worker.member), None)
        for pause_id, entry in self.ledger:
            epoch = entry.request.epoch
            unheard = epoch not in worker.reports and worker.page.armed != epoch
            if entry.request.job == worker.job and entry.status.state == "ARMED" and unheard:
                movers = {
                    move.id: self._moves.socket_of(move.id)
                    for move in entry.request.moves
                    if move.source == self._node
                }
                self._arm(pause_id, entry, movers)

    def _arm(self, pause_id: str, entry: PauseEntry, movers: Mapping[str, str]) -> None:
        request = entry.request
        for worker in self._registry.of(request.job):
            worker.tell("arm", epoch=request.epoch, id=pause_id, request=dump(request), movers=dict(movers))

    def _gather(self, pause_id: str, entry: PauseEntry) -> None:
        heard = self._heard.get(pause_id, {})
        reports = [heard.get(member, {}) for member in self._here(entry.request)]
        states = [report.get("state", "ARMED") for report in reports]
        told: dict[str, Any] = {"state": min(states, key=_order)}
        if "ABORTED" in states:
            told["state"] = "ABORTED"
        for name in ("decision", "step"):
            values = [report[name] for report in reports if report.get(name) is not None]
            if values:
                told[name] = "undo" if "undo" in values else values[0]
        errors = [report["error"] for report in reports if report.get("error")]
        if errors and told["state"] == "ABORTED":
            told["error"] = errors[0]
        pauses = [report["pause_s"] for report in reports if report.get("pause_s") is not None]
        if pauses:
            told["pause_s"] = max(pauses)
        told["figures"] = _longest(report.get("figures", {}) for report in reports)
        if _order(told["state"]) >= _order(entry.status.state):
            self.ledger.change(pause_id, **told)

    # -- helpers --------------------------------------------------------------------------------------------

    def _enter(self, pause_id: str, command: Command) -> PauseEntry:
        entry = self.ledger.get(pause_id)
        self._fences.pass_through(entry.request.job, command.epoch)
        return entry

    def _here(self, request: PauseRequest) -> set[str]:
        return {f"{seat.group}/{seat.rank}" for seat in request.members if seat.node == self._node}

    def _compare(self, request: PauseRequest) -> None:
        """Raises WrongMembers where the job's ranks here are not those of the request."""
        here = {worker.member for worker in self._registry.of(request.job)}
        said = self._here(request)
        if here != said:
            more = {"missing": sorted(said - here), "unexpected": sorted(here - said)}
            raise WrongMembers(
                f"of job {request.job!r} are missing here: {more['missing']}, and unexpected: "
                f"{more['unexpected']}; read GET /v1/workers and make the pause anew",
                more=more,
            )


def _order(state: str) -> int:
    return list[str](PAUSE_STATES).index(state)


def _longest(figures: Any) -> dict[str, float]:
    longest: dict[str, float] = {}
    for each in figures:
        for name, value in each.items():
            longest[name] = max(value, longest.get(name, value))
    return longest
