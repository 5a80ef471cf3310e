"""The agent of a node, put together: workers at its socket, moves, pauses and routes, after a restart too."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from monkeytree import __version__
from monkeytree.wire.agents import (
    Announcement,
    MoveRequest,
    MoveStatus,
    PauseRequest,
    PauseStatus,
    WorkersAnswer,
    WorkerStatus,
)

from .channel import Channel, Closed, Message, accept_local, listen_local
from .journal import Journal
from .ledger import Entry, Fences, Ledger
from .logs import logger
from .metrics import Metrics
from .moves import Moves
from .options import Options
from .parked import folder_of
from .pauses import Pauses
from .published import Published
from .registry import LocalWorker, Registry
from .routes import Routes
from .transports import available

_SWEEP_S = 0.5
_KEEP_S = 7 * 86_400.0
_HELLO_S = 10.0
_AGAIN_S = 0.5
_TIDY_S = 3_600.0

log = logger(__name__)


class Node:
    """Everything an agent does, without HTTP. Calls on its parts are made under :attr:`changed`."""

    def __init__(self, options: Options) -> None:
        """Opens the journal and the socket, and takes up what an agent before this one left."""
        self.options = options
        options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        options.data.chmod(0o700)  # the journal has the environments of workers, and tokens of moves
        self.journal = Journal(options.data / "journal.sqlite")
        self.journal.forget(time.time() - _KEEP_S)
        _sweep_files(options.data / "moves", time.time() - _KEEP_S)
        self.epoch = self.journal.next("starts")
        self.metrics = Metrics()
        self.metrics.starts.set(self.epoch)
        self.changed = threading.Condition(threading.RLock())
        self.published = None if options.public is None else Published(options.public)
        if self.published is not None:
            self.published.sweep()
        self.routes = Routes(options.data, self.published)
        self.registry = Registry()
        self._logged: dict[str, str] = {}
        self._refused: tuple[int, str] = (0, "")
        fences = Fences(self.journal)
        moves = Ledger("move", MoveRequest, MoveStatus, self.journal, self.changed, self._move_changed)
        pauses = Ledger("pause", PauseRequest, PauseStatus, self.journal, self.changed, self._pause_changed)
        memory = options.arena_bytes or psutil.virtual_memory().total // 2
        self.arena_bytes = memory
        self.moves = Moves(options, memory, moves, self.registry, fences)
        self.pauses = Pauses(options.node, pauses, self.moves, self.registry, fences)
        self.registry.on_report = self._reported
        self.registry.on_gone = self.pauses.on_gone
        self._stopping = threading.Event()
        self._server = listen_local(options.data / "agent.sock")

    def start(self) -> None:
        """Serve workers; finish or abort what the journal says is under way."""
        threading.Thread(target=self._accept, name="workers", daemon=True).start()
        threading.Thread(target=self._sweep, name="sweep", daemon=True).start()
        with self.changed:
            self.pauses.recover()
            self.moves.recover()

    def stop(self) -> None:
        """Stop serving; workers and movers go on, the next agent finds them."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self.changed:
            self.moves.stopped = True
            for worker in list(self.registry):
                if worker.channel is not None:
                    worker.channel.close()
            self.journal.close()
        with contextlib.suppress(OSError):  # where nothing is parked
            folder_of(self.options.data, self.options.memory).rmdir()
        if self.published is not None:
            self.published.close()

    def workers(self) -> WorkersAnswer:
        """``GET /v1/workers``: registered ones, arriving standbys and parked states."""
        with self.changed:
            listed = [worker.status() for worker in self.registry]
            seen = {(worker.job, worker.group, worker.rank) for worker in listed}
            for state, entries in (("parked", self.moves.parked()), ("standby", self.moves.arriving())):
                for entry in entries:
                    request = entry.request
                    key = (request.job, request.group, request.rank)
                    if key in seen and state == "parked":  # its process is about to leave
                        listed = [w for w in listed if (w.job, w.group, w.rank) != key]
                    elif key in seen:
                        continue
                    listed.append(_unregistered(request, state))
        return WorkersAnswer(self.options.node, self.epoch, tuple(listed))

    def announcement(self, url: str) -> Announcement:
        """What the service is told."""
        return Announcement(
            node=self.options.node,
            url=url,
            epoch=self.epoch,
            cluster=self.options.cluster,
            capabilities={
                "transports": available(),
                "slots": self.options.slots,
                "arena_bytes": self.arena_bytes,
                "version": __version__,
            },
        )

    def _reported(self, worker: LocalWorker, report: Mapping[str, Any]) -> None:
        self.pauses.on_report(worker, dict(report))
        self.moves.on_report(worker, report)
        self.changed.notify_all()

    def _move_changed(self, move_id: str, entry: Entry[MoveRequest, MoveStatus]) -> None:
        status = entry.status
        if self._logged.get(move_id) != status.state:
            self._logged[move_id] = status.state
            told = {"role": status.role, "state": status.state, "error": status.error}
            log.info("move", move=move_id, job=status.job, rank=status.rank, epoch=status.epoch, **told)
        if status.final:
            self.metrics.moves.labels(status.role, status.state, (status.error or {}).get("code", "")).inc()
            self.metrics.bytes.labels(status.role).inc(status.bytes_sent)
            if status.wire_s is not None:
                self.metrics.wire_seconds.observe(status.wire_s)

    def _pause_changed(self, pause_id: str, entry: Entry[PauseRequest, PauseStatus]) -> None:
        status = entry.status
        if self._logged.get(pause_id) != status.state:
            self._logged[pause_id] = status.state
            told = {"state": status.state, "decision": status.decision, "error": status.error}
            log.info("pause", pause=pause_id, job=status.job, epoch=status.epoch, **told)
        if status.final:
            self.metrics.pauses.labels(status.state, (status.error or {}).get("code", "")).inc()
            if status.pause_s is not None:
                self.metrics.pause_seconds.observe(status.pause_s)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                accepted = accept_local(self._server)
            except OSError as error:
                if not self._stopping.wait(_AGAIN_S):  # out of descriptors, say: that passes
                    log.warning("cannot accept workers", why=str(error))
                continue
            if accepted is not None:
                threading.Thread(target=self._serve, args=accepted, name="worker", daemon=True).start()

    def _serve(self, channel: Channel, pid: int) -> None:
        """One worker's connection."""
        worker: LocalWorker | None = None
        try:
            hello = channel.receive(_HELLO_S)
            if hello is None or hello.kind != "register":
                _drop(hello)
                raise Closed("it did not register")
            with self.changed:
                worker = self.registry.register(hello, channel, pid)
                self.pauses.on_registered(worker)
                self.changed.notify_all()
            log.info("worker registered", job=worker.job, member=worker.member, pid=pid)
            while (message := channel.receive(None)) is not None:
                _drop(message)
                with self.changed:
                    if self._stopping.is_set():
                        return
                    self.registry.hear(worker, message)
        except Closed as error:
            if worker is None and self._refused != (pid, str(error)):  # it tries again each second
                self._refused = (pid, str(error))
                log.warning("worker refused", pid=pid, why=str(error))
        except Exception as error:  # what one worker says must not end more than its connection
            log.error("worker failed", pid=pid, exc_info=error)
        finally:
            with self.changed:
                if worker is not None and worker.channel is channel:
                    worker.channel = None
            channel.close()

    def _sweep(self) -> None:
        tidied = time.monotonic()
        while not self._stopping.wait(_SWEEP_S):
            try:
                with self.changed:
                    if self._stopping.is_set():
                        return
                    self.registry.sweep()
                    self.moves.ledger.sweep()
                    self.pauses.ledger.sweep()
                    self.pauses.sweep()
                    self.metrics.workers.set(len(list(self.registry)))
                    if time.monotonic() - tidied > _TIDY_S:
                        tidied = time.monotonic()
                        self._tidy()
            except Exception as error:  # a full disk, say: the next round may do better
                log.error("sweep failed", exc_info=error)

    def _tidy(self) -> None:
        """Forget what ended long ago."""
        before = time.time() - _KEEP_S
        self.journal.forget(before)
        for ledger in (self.moves.ledger, self.pauses.ledger):
            ledger.forget(before)
        self.moves.sweep()
        _sweep_files(self.options.data / "moves", before)
        if self.published is not None:
            self.published.sweep()


def _drop(message: Message | None) -> None:
    """Close the descriptors of a message that has no use for any."""
    for fd in () if message is None else message.fds:
        os.close(fd)


def _sweep_files(folder: Path, before: float) -> None:
    """Drop logs and last words of moves that ended long ago."""
    for file in folder.glob("*"):
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < before:
                file.unlink()


def _unregistered(request: MoveRequest, state: str) -> WorkerStatus:
    return dataclasses.replace(
        WorkerStatus(request.job, request.group, request.rank, state, 0, 0, 0),
        slots=0 if state == "parked" else request.slots,
        state_bytes=request.state_bytes,
        epoch=request.epoch,
    )
