"""Moves at an agent: what each call does, and what becomes of a move whose mover or agent has died."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from typing import Any

from monkeytree.errors import MonkeyTreeError
from monkeytree.wire.agents import Command, MoveRequest, MoveStatus, Phase, dump

from .ledger import Entry, Fences, Ledger, error_of
from .mover import Config
from .mover_process import MoverLink, start_mover
from .options import Options
from .problems import (
    AlreadyDecided,
    ArenaFull,
    MovesFull,
    NotDecided,
    NotPrepared,
    TransportUnavailable,
    UnknownWorker,
    WrongNode,
)
from .registry import LocalWorker, Registry
from .resuming import Resuming
from .transports import transport_class

MoveEntry = Entry[MoveRequest, MoveStatus]
_RETRY_S = 2
_LATE = frozenset({"VERIFIED", "DECIDED", "REFORMED"})


class Moves(Resuming):
    """The moves of the node, each with its mover."""

    def __init__(
        self,
        options: Options,
        arena_bytes: int,
        ledger: Ledger[MoveRequest, MoveStatus],
        registry: Registry,
        fences: Fences,
    ) -> None:
        super().__init__(options, ledger, registry)
        self._arena_bytes = arena_bytes
        self._fences = fences

    # -- calls, each under the node's lock ------------------------------------------------------------------

    def put(self, move_id: str, request: MoveRequest) -> tuple[MoveStatus, bool]:
        """Make it (True), or find it made.

        Raises:
            Refused: as its code says.
        """
        self._fences.pass_through(request.job, request.epoch)
        known = self.ledger.known(move_id, request)
        if known is not None:
            return known.status, False
        here = request.source if request.role == "source" else request.target
        if here != self._options.node:
            raise WrongNode(f"the {request.role} of the move is {here!r}, this is {self._options.node!r}")
        try:
            transport_class(request.transport)
        except MonkeyTreeError as error:
            raise TransportUnavailable(str(error)) from None
        if request.role == "source":
            self._worker_of(request)
        self.ledger.supersede(request.job, request.epoch)
        self._admit(request)
        status = MoveStatus(
            id=move_id, epoch=request.epoch, job=request.job, group=request.group, rank=request.rank,
            role=request.role, state="NEW", version=1, source=request.source, target=request.target,
        )  # fmt: skip
        return self.ledger.add(move_id, request, status).status, True

    def prepare(self, move_id: str, command: Command) -> MoveStatus:
        """Start its mover; at a source also call the destination's."""
        entry = self._enter(move_id, command)
        if entry.status.state != "NEW":
            return entry.status
        request = entry.request
        if request.role == "source" and command.descriptor is None and not request.staged:
            raise NotPrepared("the source's prepare needs the destination's `descriptor`")
        worker = self._worker_of(request) if request.role == "source" else None
        status = self.ledger.change(move_id, state="PREPARING")
        link = MoverLink(self._config(move_id, request), None)
        try:
            link.process = start_mover(link.config)
        except OSError as error:
            lost = error_of("mover_lost", f"no mover could be started: {error}")
            return self.ledger.change(move_id, state="ABORTED", error=lost)
        self._links[move_id] = link
        order: dict[str, Any] = {"descriptor": command.descriptor}
        fds: tuple[int, ...] = ()
        if worker is not None:
            told = worker.status()
            order["layout"] = worker.layout.document()
            order["standby_command"] = list(told.standby_command)
            order["standby_env"] = dict(told.standby_env)
            fds = (os.dup(worker.arena_fd),)  # the worker may go meanwhile
        threading.Thread(target=self._drive, args=(move_id, link, order, fds), daemon=True).start()
        return status

    def start(self, move_id: str, command: Command) -> MoveStatus:
        """Let it take part in the job's next pause; of a parked one: send it to ``descriptor``."""
        entry = self._enter(move_id, command)
        state = entry.status.state
        if state in ("NEW", "PREPARING"):
            raise NotPrepared(f"move {move_id!r} is {state}: wait until it is PREPARED")
        if entry.status.parked and command.descriptor is not None:
            self._land(move_id, command.descriptor)
        elif state == "PREPARED":
            link = self._links.get(move_id)
            if link is None or not link.tell("start", descriptor=command.descriptor):
                raise NotPrepared(f"the mover of {move_id!r} does not answer")
            return self.ledger.change(move_id, state="ARMED")
        return entry.status

    def _land(self, move_id: str, descriptor: Mapping[str, Any]) -> None:
        """Written down before it is told: a mover that is started anew is told again."""
        self.ledger.change(move_id, descriptor=descriptor)
        link = self._links.get(move_id)
        if link is not None:
            link.tell("start", descriptor=descriptor)

    def commit(self, move_id: str, command: Command) -> MoveStatus:
        """The controller knows the outcome."""
        entry = self._enter(move_id, command)
        if not entry.status.final:
            raise NotDecided(f"move {move_id!r} is {entry.status.state}: wait for RELEASED or ABORTED")
        return entry.status

    def abort(self, move_id: str, command: Command) -> MoveStatus:
        """Stop it, or ask the job to."""
        entry = self._enter(move_id, command)
        state = entry.status.state
        if state == "ABORTED":
            return entry.status
        if state == "RELEASED" or (state in ("DECIDED", "REFORMED") and not entry.status.parked):
            raise AlreadyDecided(f"move {move_id!r} is {state}")
        reason = command.reason or "the controller asked for it"
        if state == "NEW":
            return self.ledger.change(move_id, state="ABORTED", error=error_of("aborted", reason))
        link = self._links.get(move_id)
        if entry.status.parked:
            self._aborted[move_id] = reason
        if link is None or not link.tell("abort", reason=reason):
            self._settle(move_id)
        return self.ledger.get(move_id).status

    def parked(self) -> list[MoveEntry]:
        """Those whose state this node keeps."""
        return [entry for _, entry in self.ledger if entry.status.parked and not entry.status.final]

    def arriving(self) -> list[MoveEntry]:
        """Those whose standby is up here."""
        return [
            entry
            for _, entry in self.ledger
            if entry.request.role == "destination"
            and entry.status.state not in ("NEW", "PREPARING", "RELEASED", "ABORTED")
            and (entry.request.warm or entry.status.state not in ("PREPARED", "ARMED"))
        ]

    # -- after a restart ------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Find the movers of unfinished moves again; finish or abort the others."""
        self.sweep()
        for move_id, entry in self.ledger:
            if entry.status.final:
                continue
            if entry.status.state == "NEW":
                error = error_of("interrupted", "the agent restarted before anything was prepared")
                self.ledger.change(move_id, state="ABORTED", error=error)
                continue
            link = MoverLink(self._config(move_id, entry.request), None)
            if link.connect():
                self._links[move_id] = link
                threading.Thread(target=self._follow, args=(move_id, link), daemon=True).start()
            else:
                self._end(move_id, link.last_words())

    def on_report(self, worker: LocalWorker, report: Mapping[str, Any]) -> None:
        """A worker told how its pause went: moves whose mover is lost learn their end from it."""
        for move_id, entry in self.ledger:
            request = entry.request
            if (request.job, request.epoch) != (worker.job, report.get("epoch")) or entry.status.final:
                continue
            if move_id not in self._links:
                self._settle(move_id)
            elif entry.status.parked and worker.member == f"{request.group}/{request.rank}":
                self._tell_settled(move_id, report)

    def _tell_settled(self, move_id: str, report: Mapping[str, Any]) -> None:
        """The rank is here and trains: whoever still holds its state must not start it once more."""
        if report.get("state") == "ABORTED":
            self._links[move_id].tell("settled", error=report.get("error"))

    # -- movers ---------------------------------------------------------------------------------------------

    def _config(self, move_id: str, request: MoveRequest) -> Config:
        short = hashlib.sha256(move_id.encode()).hexdigest()[:16]
        folder = self._options.data / "moves"
        folder.mkdir(parents=True, exist_ok=True)
        return Config(
            id=move_id,
            request=dump(request),
            socket=str(folder / f"{short}.sock"),
            state_file=str(folder / f"{short}.json"),
            agent=str(self._options.data / "agent.sock"),
            host=self._options.host,
            log=str(folder / f"{short}.log"),
            parked=str(self._parked_in / f"{short}.state"),
            chunk_timeout_s=self._options.chunk_timeout_s,
            device=self._options.device,
            faults=self._options.faults,
        )

    def socket_of(self, move_id: str) -> str:
        """Where the worker of a source move finds its mover."""
        return self._config(move_id, self.ledger.get(move_id).request).socket

    def _drive(self, move_id: str, link: MoverLink, order: Mapping[str, Any], fds: tuple[int, ...]) -> None:
        there = link.connect() and link.tell("prepare", fds, **order)
        for fd in fds:
            os.close(fd)
        if there:
            self._follow(move_id, link)
        else:
            link.end()
            with self.ledger.changed:
                self._end(move_id, link.last_words())

    def _follow(self, move_id: str, link: MoverLink) -> None:
        def on_status(status: Mapping[str, Any]) -> None:
            with self.ledger.changed:
                if not self.stopped:
                    self._take(move_id, status)

        words = link.follow(on_status)
        link.close()
        with self.ledger.changed:
            self._links.pop(move_id, None)
            self._end(move_id, words)

    def _take(self, move_id: str, status: Mapping[str, Any]) -> None:
        told = {
            name: status[name]
            for name in ("descriptor", "parked", "bytes_sent", "wire_s", "figures")
            if status.get(name) is not None
        }
        told["error"] = status.get("error")
        phases = tuple(Phase(**phase) for phase in status.get("phases", ()))
        if status["state"] != "NEW":
            told |= {"state": status["state"], "phases": phases}
        entry = self.ledger.get(move_id)
        if entry.status.state == "ARMED" and status["state"] in ("PREPARED", "PREPARING"):
            told.pop("state")  # it has yet to hear of the start
            told.pop("phases")
        self.ledger.change(move_id, **told)

    def _end(self, move_id: str, words: Mapping[str, Any] | None) -> None:
        """The mover is gone; its last words may be the end, or the worker knows it."""
        if self.stopped:
            return
        if words is not None:
            self._take(move_id, words)
            self.sweep()
        if not self.ledger.get(move_id).status.final:
            self._settle(move_id)

    def _settle(self, move_id: str) -> None:
        """Without a mover: what the rank here says of the epoch decides; before VERIFIED nothing can land."""
        entry = self.ledger.get(move_id)
        request = entry.request
        worker = self._registry.any(request.job, f"{request.group}/{request.rank}")
        report = worker.reports.get(request.epoch, {}) if worker is not None else {}
        lost = error_of("mover_lost", "the mover process died")
        if report.get("state") == "RELEASED":
            self.ledger.change(move_id, state="RELEASED", parked=False)
        elif report.get("state") == "ABORTED":
            self.ledger.change(move_id, state="ABORTED", error=report.get("error") or lost, parked=False)
        elif self._resume(move_id, entry):
            return
        elif entry.status.state not in _LATE or worker is None:
            if entry.status.parked:
                lost = error_of("parked_lost", self._lost(move_id, request))
            self.ledger.change(move_id, state="ABORTED", error=lost, parked=False)
        if entry.status.final:
            self.sweep()

    # -- helpers --------------------------------------------------------------------------------------------

    def _enter(self, move_id: str, command: Command) -> MoveEntry:
        entry = self.ledger.get(move_id)
        self._fences.pass_through(entry.request.job, command.epoch)
        return entry

    def _worker_of(self, request: MoveRequest) -> LocalWorker:
        worker = self._registry.find(request.job, request.group, request.rank)
        if worker is None:
            raise UnknownWorker(
                f"no worker here is rank {request.rank} of group {request.group!r} of job {request.job!r}"
            )
        return worker

    def _admit(self, request: MoveRequest) -> None:
        """Raises MovesFull or ArenaFull."""
        open_moves = [entry for _, entry in self.ledger if not entry.status.final]
        same = [entry for entry in open_moves if entry.request.role == request.role]
        parties = {_party(entry.request) for entry in same}
        most = self._options.max_sources if request.role == "source" else self._options.max_destinations
        if len(parties | {_party(request)}) > most:
            raise MovesFull(
                f"{len(parties)} executions have moves here as {request.role}, the limit is {most}",
                retry_after_s=_RETRY_S,
            )
        keeps = [e for e in open_moves if e.request.role == "destination" or e.request.staged]
        kept = self.kept_bytes()
        used = kept + sum(entry.request.state_bytes or 0 for entry in keeps)
        wanted = request.state_bytes or 0
        if (request.role == "destination" or request.staged) and used + wanted > self._arena_bytes:
            of_them = f" ({kept:,} of them could not go home, see {self._parked_in})" if kept else ""
            raise ArenaFull(
                f"{wanted:,} bytes on top of {used:,}{of_them} exceed the {self._arena_bytes:,} of this node",
                retry_after_s=_RETRY_S,
            )


def _party(request: MoveRequest) -> str:
    """Whose move it is, as the limits count: jobs of one execution that change places come together."""
    return request.execution_id or f"{request.epoch} {request.job}"
