"""The source's side: it reads the worker's arena where it lies, and keeps a parked state until it lands."""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from .arena import Arena, Layout
from .channel import Channel, Closed, Message
from .mover import Config, Event
from .mover_parking import ParkingMover
from .transfer import send

_START_S = 5.0
"""How long a worker that comes before the word to start waits for it: they come on two connections."""


class SourceMover(ParkingMover):
    """Sends the state, and stands by the worker until it may let go."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.worker: Channel | None = None
        self.early: Event | None = None
        self.token = ""
        self.calling = False
        self.descriptor: Mapping[str, Any] | None = None
        """Of the destination, while the arena is not there yet."""

    def begin(self) -> None:
        if self.config.resume:
            self.resume()
        else:
            self.enter("PREPARING")

    def handle(self, event: Event) -> None:
        message = event.message
        if event.who == "agent" and message is not None:
            self._agent(message)
        elif event.who == "worker":
            self._worker(event)
        elif event.who == "peer":
            self._peer(event)
        elif event.who == "standby":
            self.welcome_home(event)
        elif event.who == "exit" and self.returning and not self.final:
            self.home_ended(event.pid)
        elif event.who == "work" and message is not None:
            self._work(message)

    def fail(self, code: str, message: str) -> None:
        """Before the decision: tell the worker, which has the job abort; a parked state goes home."""
        self.tell_peer("failed", code=code)
        if self.returning:
            if time.monotonic() >= self.home_by:
                self.home_late()
            return
        if self.progress.parked:
            self.go_home(code, message)
            return
        told = self.worker is not None
        if told:
            assert self.worker is not None
            with contextlib.suppress(Closed):
                self.worker.send("failed", code=code, message=message)
        if not self.reached("VERIFIED") or not told:
            self.abort(code, message)

    # -- the agent ----------------------------------------------------------------------------------------

    def _agent(self, message: Message) -> None:
        if message.kind == "prepare":
            self.command = tuple(message.body.get("standby_command", ()))
            self.env = message.body.get("standby_env", {})
            if self.arena is None:
                self.arena = _attach(message, prefault=True)
            self.descriptor = message.body.get("descriptor")
            if self.request.staged:
                self.reserve()
            else:
                self._call()
        elif message.kind == "settled":
            self.settled(message.body.get("error") or {})
        elif message.kind == "start":
            if self.progress.state == "PREPARED":
                self.enter("ARMED")
                self.wait_until(self.request.deadlines.arm_s + self.request.deadlines.pause_s, "arm_timeout")
                if self.early is not None:
                    self._offered(self.early)
            elif self.progress.parked and not self.returning:
                self._land_at(message.body.get("descriptor") or {})
        elif message.kind == "abort":
            self.fail("aborted", str(message.body.get("reason") or "the controller asked for it"))

    def _land_at(self, descriptor: Mapping[str, Any]) -> None:
        """Send the parked state there; where a landing is under way, once that has failed."""
        if descriptor and descriptor.get("token") != self.token:
            self.descriptor = descriptor
            if self.peer is None and not self.calling:
                self._call()

    def _call(self) -> None:
        """Connect to the mover of the destination, once we know where it is, and have what it is to get."""
        descriptor, self.descriptor = self.descriptor, self.descriptor if self.arena is None else None
        if descriptor is None or self.arena is None:
            return
        try:
            token = str(descriptor["token"])
            address = (str(descriptor["host"]), int(descriptor["port"]))
        except (KeyError, TypeError, ValueError) as error:  # it must cost a landing, not the parked state
            self._peer_failed("peer_lost", f"no descriptor of a destination: {error!r}")
            return
        self.calling, self.token = True, token
        layout = self.arena.layout().document()
        again = self.config.resume  # it may have the state already
        self.progress.error = None

        def call() -> dict[str, Any]:
            limit = self.config.chunk_timeout_s
            connection = socket.create_connection(address, limit)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.peer = Channel(connection, limit)
            self.peer.send("hello", token=self.token, move=self.config.id, layout=layout, again=again)
            self.listen_to("peer", self.peer)
            return {}

        self.work("called", call)

    # -- the worker ---------------------------------------------------------------------------------------

    def _worker(self, event: Event) -> None:
        if event.message is None:
            self.worker = None  # its state is at rest in the arena, which lives on: the move may save the job
        elif event.message.kind == "state":
            self._offered(event)
        elif event.message.kind == "outcome":
            self._outcome(str(event.message.body.get("outcome")))

    def _offered(self, event: Event) -> None:
        """The worker has paused: its arena is at rest."""
        assert event.message is not None
        assert event.channel is not None
        self.worker = event.channel
        if self.progress.state == "PREPARED" and self.early is None:
            self.early = event
            self.wait_until(_START_S, "not_armed")
            return
        if self.progress.state != "ARMED" or self.arena is None:
            event.channel.send("failed", code="not_armed", message=f"the move is {self.progress.state}")
            return
        # Closed here: of a worker that has left its state parked it would keep the memory.
        with contextlib.closing(_attach(event.message)) as offered:
            same = os.path.samestat(os.fstat(offered.fd), os.fstat(self.arena.fd))
            same = same and offered.layout() == self.arena.layout()
        if not same:
            self.fail("bad_layout", "the arena is another than the one the worker registered")
            return
        self.state = event.message
        self.paused_at = time.monotonic()
        self.enter("PAUSED")
        self.wait_until(self.request.deadlines.pause_s, "pause_timeout")
        if self.request.staged:
            self.park()
        else:
            self._begin()

    def _outcome(self, outcome: str) -> None:
        if outcome == "committed":
            if self.reached("SENDING") and not self.reached("DECIDED"):
                self.walk_to("DECIDED")
            self.wait_until(2 * self.request.deadlines.first_iteration_s, "undone")
        elif outcome == "released":
            self.progress.figures.setdefault("pause_s", time.monotonic() - self.paused_at)
            self.walk_to("RELEASED")
        elif outcome == "aborted":
            self.tell_peer("failed", code="job_aborted")
            self.abort("job_aborted", "the job decided to go on as it was")
        elif outcome == "undone":
            self.tell_peer("failed", code="undone")
            self.abort("undone", "the destination did not finish its first iteration")

    # -- the other side -----------------------------------------------------------------------------------

    def _peer(self, event: Event) -> None:
        message = event.message
        if event.channel is not self.peer:
            return  # of a landing that has failed before
        if message is None:
            self.peer = None
            if not self.final:
                self._peer_failed("peer_lost", "the destination's mover went away")
        elif message.kind == "welcome":
            if message.body.get("cold") and self.progress.state == "PREPARING":
                self.enter("PREPARED")
            elif self.progress.parked:
                self._begin()
        elif message.kind == "transport":
            self._connect(base64.b64decode(message.body["described"]))
        elif message.kind == "verified":
            if not self.reached("VERIFIED"):
                self.walk_to("VERIFIED")
            if self.worker is not None:
                self.worker.send("verified")
            self.wait_until(self.request.deadlines.pause_s, "pause_timeout")
        elif message.kind == "failed":
            self._peer_failed(str(message.body.get("code")), str(message.body.get("message", "")))
        elif message.kind == "outcome":
            self._peer_outcome(str(message.body.get("outcome")))

    def _peer_failed(self, code: str, message: str) -> None:
        """After the decision the worker (or, parked, the state) is still here and goes on."""
        if self.progress.parked and not self.returning and not self.reached("VERIFIED"):
            self._not_landed(code, message)
        elif self.progress.parked or not self.reached("VERIFIED"):
            self.fail(code, message)
        elif self.worker is not None:
            with contextlib.suppress(Closed):
                self.worker.send("failed", code=code, message=message)
        elif not self.reached("REFORMED"):
            self.abort(code, message)

    def _peer_outcome(self, outcome: str) -> None:
        if outcome == "reformed" and self.reached("SENDING") and not self.reached("REFORMED"):
            self.progress.figures["pause_s"] = time.monotonic() - self.paused_at
            self.walk_to("REFORMED")
            self.wait_until(2 * self.request.deadlines.first_iteration_s, "undone")
        elif outcome == "released" and (self.worker is None or self.progress.parked):
            self.end_home()
            self.tell_agent(parked=False)
            self.walk_to("RELEASED")

    def _connect(self, described: bytes) -> None:
        assert self.arena is not None
        transport = self.make_transport(self.token)
        began = time.monotonic()
        transport.register(self.arena.whole())
        self.progress.figures["register_s"] = time.monotonic() - began
        self.tell_transport()
        self.connect(described)

    # -- the transfer -------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Tell the destination that the state comes, and send it as soon as the wire is there."""
        if self.state is None or self.peer is None:
            return
        elapsed_s = time.monotonic() - self.paused_at
        layout = self.state.body["layout"]
        self.peer.send("begin", self.state.blob, (), elapsed_s=elapsed_s, layout=layout, **self.about())
        self.transfer("sent", send)

    def _not_landed(self, code: str, message: str) -> None:
        """The destination does not get the state: it stays parked, and may be sent to another."""
        self.landing += 1
        self.connected = self.calling = False
        if self.transport is not None:
            self.transport.close()
        if self.peer is not None:
            self.peer.close()
        self.peer = self.transport = None
        self.token = ""
        if self.descriptor is None:  # otherwise word of the next one has come already
            failed = self.progress.figures.get("failed_landings", 0) + 1
            self.progress.figures["failed_landings"] = failed
        self.enter("PAUSED", error={"code": code, "message": message})
        self.wait_parked()
        self._call()

    def _parking(self, message: Message) -> None:
        """Word of the memory that the state waits in."""
        if message.kind == "reserved" and self.progress.state == "PREPARING":
            if self.descriptor is not None:
                self._call()
            else:
                self.enter("PREPARED")
        elif message.kind == "stored" and not self.final:
            self.stored()
            if self.worker is not None:
                with contextlib.suppress(Closed):
                    self.worker.send("parked")
            self._begin()
        elif message.kind == "attached" and not self.final:
            self.attached()
            if not self.returning:
                self._call()

    def _work(self, message: Message) -> None:
        body = message.body
        if body["landing"] != self.landing:
            return  # of a try that is over
        if message.kind in ("reserved", "stored", "attached"):
            self._parking(message)
        elif message.kind == "called":
            self.calling = False
        elif message.kind == "connected":
            self.connected = True
            if self.progress.state == "PREPARING":
                self.enter("PREPARED")
            self.transfer("sent", send)
        elif message.kind == "sent":
            self.progress.figures["chunks"] = body["chunks"]
            self.tell_agent(bytes_sent=body["bytes"], wire_s=body["seconds"])
        elif message.kind == "failed" and body["code"] == "parked_lost":
            self.abort(str(body["code"]), str(body["message"]))
        elif message.kind == "failed" and self.config.resume and self.state is None:
            raise RuntimeError(body["message"])  # out of memory, say: the next mover may do better
        elif message.kind == "failed" and not self.reached("VERIFIED"):
            self._peer_failed(str(body["code"]), str(body["message"]))


def _attach(message: Message, *, prefault: bool = False) -> Arena:
    """The arena that came with a message."""
    return Arena.attach(message.fds[-1], Layout.read(message.body["layout"]), prefault=prefault)
