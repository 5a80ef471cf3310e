"""The source's side: it reads the worker's arena where it lies, and keeps a parked state until it lands."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from .arena import Arena, Layout
from .channel import Channel, Closed, Message
from .mover import Config, Event, Mover
from .transfer import send

_START_S = 5.0
"""How long a worker that comes before the word to start waits for it: they come on two connections."""
_RETURN_EARLY = 0.8
"""Share of the pause after which a parked state that nobody fetched goes home."""


class SourceMover(Mover):
    """Sends the state, and stands by the worker until it may let go."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.worker: Channel | None = None
        self.early: Event | None = None
        self.paused_at = 0.0
        self.token = ""
        self.command: tuple[str, ...] = ()
        self.env: Mapping[str, str] = {}
        self.returning = False
        self.home_by = 0.0
        self.home: subprocess.Popen[bytes] | None = None
        self.arrived = False
        """Whether the successor at home has the state."""

    def begin(self) -> None:
        self.enter("PREPARING")

    def handle(self, event: Event) -> None:
        message = event.message
        if event.who == "agent" and message is not None:
            self._agent(message)
        elif event.who == "worker":
            self._worker(event)
        elif event.who == "peer":
            self._peer(message)
        elif event.who == "standby":
            self._standby(event)
        elif event.who == "exit" and self.returning and not self.final:
            self._stranded("it ended")
        elif event.who == "work" and message is not None:
            self._work(message)

    def fail(self, code: str, message: str) -> None:
        """Before the decision: tell the worker, which has the job abort; a parked state goes home."""
        self.tell_peer("failed", code=code)
        if self.returning:
            if time.monotonic() >= self.home_by:
                self._stranded("it did not come up, or not back into its group, in time")
            return
        if self.progress.parked:
            self._go_home(code, message)
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
            if message.body.get("descriptor"):
                self._call(message.body["descriptor"])
            elif self.request.staged:
                self.enter("PREPARED")
        elif message.kind == "start":
            if self.progress.state == "PREPARED":
                self.enter("ARMED")
                self.wait_until(self.request.deadlines.arm_s + self.request.deadlines.pause_s, "arm_timeout")
                if self.early is not None:
                    self._offered(self.early)
            elif self.progress.parked and message.body.get("descriptor") and self.peer is None:
                self._call(message.body["descriptor"])
        elif message.kind == "abort":
            self.fail("aborted", str(message.body.get("reason") or "the controller asked for it"))

    def _call(self, descriptor: Mapping[str, Any]) -> None:
        """Connect to the mover of the destination."""
        self.token = str(descriptor["token"])
        layout = self.arena.layout().document() if self.arena else None

        def call() -> dict[str, Any]:
            limit = self.config.chunk_timeout_s
            address = (str(descriptor["host"]), int(descriptor["port"]))
            connection = socket.create_connection(address, limit)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.peer = Channel(connection, limit)
            self.peer.send("hello", token=self.token, move=self.config.id, layout=layout)
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
        offered = _attach(event.message)
        same = os.path.samestat(os.fstat(offered.fd), os.fstat(self.arena.fd))
        if not same or offered.layout() != self.arena.layout():
            self.fail("bad_layout", "the arena is another than the one the worker registered")
            return
        self.state = event.message
        self.paused_at = time.monotonic()
        self.enter("PAUSED")
        if self.request.staged:
            self.tell_agent(parked=True)
            event.channel.send("parked")
            self.wait_until(_RETURN_EARLY * self.request.deadlines.pause_s, "pause_timeout")
        else:
            self.wait_until(self.request.deadlines.pause_s, "pause_timeout")
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

    def _peer(self, message: Message | None) -> None:
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
        if self.progress.parked or not self.reached("VERIFIED"):
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
        self.peer.send("begin", self.state.blob, (), elapsed_s=elapsed_s, layout=layout, **self._about())
        self.transfer("sent", send)

    def _about(self) -> dict[str, Any]:
        """What the successor needs to know besides the state."""
        assert self.state is not None
        return {name: self.state.body.get(name) for name in ("step", "pause", "orders", "identity")}

    def _work(self, message: Message) -> None:
        body = message.body
        if message.kind == "connected":
            self.connected = True
            if self.progress.state == "PREPARING":
                self.enter("PREPARED")
            self.transfer("sent", send)
        elif message.kind == "sent":
            self.progress.figures["chunks"] = body["chunks"]
            self.tell_agent(bytes_sent=body["bytes"], wire_s=body["seconds"])
        elif message.kind == "failed" and not self.reached("VERIFIED"):
            self.fail(str(body["code"]), str(body["message"]))

    # -- a parked state that goes home --------------------------------------------------------------------

    def _back_within(self, seconds: float) -> None:
        """The peer may change the deadline meanwhile, but not how long we wait for the successor at home."""
        self.home_by = time.monotonic() + seconds
        self.wait_until(seconds, "standby_failed")

    def _go_home(self, code: str, message: str) -> None:
        self.returning = True
        self.tell_agent(error={"code": "returned", "message": f"{code}: {message}"})
        self._back_within(self.request.deadlines.prepare_s)
        if not self.command:
            self._stranded("the worker told no standby_command")
            return
        try:
            self.home = self.spawn(self.command, self.env, home=True)
        except OSError as error:
            self._stranded(f"cannot start {self.command[0]!r}: {error}")

    def _stranded(self, why: str) -> None:
        """The state cannot go home: the worker is lost, and that must be seen."""
        if self.home is not None and not self.arrived:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.home.pid, signal.SIGKILL)
        self.abort("standby_failed", f"the worker could not be started at home again: {why}")

    def _standby(self, event: Event) -> None:
        """The worker's successor at home: it gets the parked state."""
        message = event.message
        if message is None or self.state is None or self.arena is None or event.channel is None:
            return
        if message.kind == "standby":
            home = _attach(message, prefault=True)
            if home.layout() != self.arena.layout():
                self.abort("standby_failed", "the successor at home lays its arena out otherwise")
                return
            home.whole()[:] = self.arena.whole()
            elapsed_s = time.monotonic() - self.paused_at
            event.channel.send("state", self.state.blob, (), elapsed_s=elapsed_s, **self._about())
            self.arrived = True
            self._back_within(2 * self.request.deadlines.first_iteration_s)
        elif message.kind == "outcome" and message.body.get("outcome") in ("returned", "released"):
            self.abort("returned", (self.progress.error or {}).get("message", "the state went home"))
        elif message.kind == "outcome":
            self.enter("RELEASED", parked=False)  # it had landed after all


def _attach(message: Message, *, prefault: bool = False) -> Arena:
    """The arena that came with a message."""
    return Arena.attach(message.fds[-1], Layout.read(message.body["layout"]), prefault=prefault)
