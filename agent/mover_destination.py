"""The destination's side: it starts the standby, and has the state written into the standby's arena."""

from __future__ import annotations

import base64
import contextlib
import hmac
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from typing import Any

from .arena import Arena, Layout
from .channel import LONGEST, Channel, Closed, Message
from .mover import AGAIN_S, Config, Event, Mover
from .transfer import receive
from .transports.transport import SharingTransport

_HELLO_S = 5.0
_LONGEST_HELLO = 4 * 2**20  # with the layout of some 50,000 tensors
_CALLERS = 16
_GRACE_S = 2.0
_WAITS_S = 60.0
"""How long a source's mover that was killed is waited for: it holds a state that has landed here."""


class DestinationMover(Mover):
    """Receives the state, and watches the standby until its first iteration is done."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.token = secrets.token_urlsafe(32)
        self.standby: Channel | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.expected: Layout | None = None
        self._welcome = threading.Lock()  # one caller gets in, once
        self._callers = threading.BoundedSemaphore(_CALLERS)

    def begin(self) -> None:
        family = socket.AF_INET6 if ":" in self.config.host else socket.AF_INET
        listener = socket.create_server((self.config.host, 0), family=family)
        self.progress.descriptor = {
            "move": self.config.id,
            "host": self.config.host,
            "port": listener.getsockname()[1],
            "token": self.token,
            "transport": self.request.transport,
        }
        self.enter("PREPARING")
        threading.Thread(target=self._accept_peer, args=(listener,), name="peer", daemon=True).start()
        if self.request.warm:
            self._start_standby()
        else:
            self.enter("PREPARED")

    def handle(self, event: Event) -> None:
        message = event.message
        if event.who == "agent" and message is not None:
            self._agent(message)
        elif event.who == "standby":
            self._standby(event)
        elif event.who == "peer":
            self._peer(event)
        elif event.who == "exit" and not self.final:
            code = message.body.get("code") if message else None
            self.fail("standby_failed", f"the standby ended with {code}; see {self.config.log}")
        elif event.who == "work" and message is not None:
            self._work(message)

    def fail(self, code: str, message: str) -> None:
        told = self.reached("VERIFIED")  # then the standby has the state, and goes by the job's decision
        self.tell_peer("failed", code=code, message=message)
        self.abort(code, message)
        if told:
            return
        if self.standby is not None:
            with contextlib.suppress(Closed):
                self.standby.send("leave")
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_GRACE_S)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def _agent(self, message: Message) -> None:
        if message.kind == "start" and self.progress.state == "PREPARED":
            self.enter("ARMED")
            self.wait_until(self.request.deadlines.arm_s + self.request.deadlines.pause_s, "arm_timeout")
        elif message.kind == "abort" and not self.reached("VERIFIED"):
            self.fail("aborted", str(message.body.get("reason") or "the controller asked for it"))

    # -- the standby --------------------------------------------------------------------------------------

    def _start_standby(self) -> None:
        if not self.request.standby_command:
            self.fail("standby_failed", "the request has no standby_command")
            return
        try:
            self.process = self.spawn(self.request.standby_command, self.request.standby_env, home=False)
        except (OSError, ValueError, subprocess.SubprocessError) as error:  # NUL in a word is a ValueError
            self.fail("standby_failed", f"cannot start {self.request.standby_command[0]!r}: {error}")

    def _standby(self, event: Event) -> None:
        message = event.message
        if message is None:
            if event.channel is self.standby:  # not one that was never let in
                self.standby = None
                self.fail("standby_failed", f"the standby went away; see {self.config.log}")
        elif message.kind == "standby":
            if self.process is not None and os.getsid(event.pid) == self.process.pid:
                self._arrived(event)  # it, or what it launched; nobody else's arena is written into
        elif message.kind == "outcome":
            self._outcome(str(message.body.get("outcome")))

    def _arrived(self, event: Event) -> None:
        assert event.message is not None
        self.standby = event.channel
        layout = Layout.read(event.message.body["layout"])
        # Faults one by one, as the bytes come, cost 0.3 s per GB of the pause; all at once 0.04 before.
        self.arena = Arena.attach(event.message.fds[-1], layout, prefault=True)
        if self._differs():
            return
        transport = self.make_transport(self.token)
        transport.register(self.arena.whole())
        if isinstance(transport, SharingTransport):
            transport.share(self.arena.fd)
        if self.progress.state == "PREPARING":
            self.enter("PREPARED")
        self._describe()

    def _outcome(self, outcome: str) -> None:
        self.tell_peer("outcome", outcome=outcome)
        if outcome == "reformed":
            self.walk_to("REFORMED")
            self.wait_until(2 * self.request.deadlines.first_iteration_s, "undone")
        elif outcome == "released":
            self.walk_to("RELEASED")
        elif outcome == "undone":
            self.tell_peer("failed", code="undone")
            self.abort("undone", "the first iteration here was not finished in time")

    def _differs(self) -> bool:
        """Whether the two arenas do not match (then the move fails)."""
        if self.arena is None or self.expected is None or self.arena.layout() == self.expected:
            return False
        ours, theirs = self.arena.layout(), self.expected
        self.fail(
            "standby_failed",
            f"the standby's arena has {len(ours.regions)} regions and {ours.nbytes:,} bytes, the source's "
            f"{len(theirs.regions)} and {theirs.nbytes:,}: was it built from the same arguments?",
        )
        return True

    # -- the other side -----------------------------------------------------------------------------------

    def _accept_peer(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # out of descriptors, say: that passes
                time.sleep(AGAIN_S)
                continue
            if self._callers.acquire(blocking=False):
                threading.Thread(target=self._hear, args=(connection,), name="greet", daemon=True).start()
            else:
                connection.close()

    def _hear(self, connection: socket.socket) -> None:
        try:
            self._greet(connection)
        finally:
            self._callers.release()

    def _greet(self, connection: socket.socket) -> None:
        """Let the one in who knows the token, once. Until then nobody has much of our memory."""
        channel = Channel(connection, self.config.chunk_timeout_s, _LONGEST_HELLO)
        with contextlib.suppress(Closed):
            hello = channel.receive(_HELLO_S)
            said = str(hello.body.get("token", "")) if hello is not None and hello.kind == "hello" else ""
            if hello is not None and hmac.compare_digest(said.encode(), self.token.encode()):
                if self._welcome.acquire(blocking=False):
                    channel.most = LONGEST
                    self.events.put(Event("peer", hello, channel))
                    self.listen_to("peer", channel)
                    return
                if hello.body.get("again") and self.request.staged and self.reached("VERIFIED"):
                    channel.most = LONGEST
                    self.events.put(Event("peer", Message({"kind": "again"}), channel))
                    self.listen_to("peer", channel)
                    return
                channel.send("failed", code="wrong_token", message="the token has been used")
            else:
                channel.send("failed", code="wrong_token", message="not the token of this move")
        channel.close()

    def _peer(self, event: Event) -> None:
        message = event.message
        if message is None:
            if event.channel is self.peer:
                self.peer = None
                if not self.reached("VERIFIED"):
                    self.fail("peer_lost", "the source's mover went away")
        elif message.kind == "again":
            self.peer = event.channel
            self.tell_peer("verified")
            if self.reached("REFORMED"):
                self.tell_peer("outcome", outcome="reformed")
        elif message.kind == "hello":
            self.peer = event.channel
            if message.body.get("layout"):
                self.expected = Layout.read(message.body["layout"])
            if not self._differs():
                self.tell_peer("welcome", cold=not self.request.warm)
                self._describe()
        elif message.kind == "transport":
            self.connect(base64.b64decode(message.body["described"]))
        elif message.kind == "begin":
            self.state = message
            self.expected = Layout.read(message.body["layout"])
            self.enter("PAUSED")
            self.wait_until(self.request.deadlines.pause_s, "pause_timeout")
            if not self._differs():
                if self.process is None:
                    self._start_standby()
                self.transfer("received", receive)
        elif message.kind == "failed" and not self.reached("DECIDED"):
            self.fail(str(message.body.get("code")), "the source says so")

    def _describe(self) -> None:
        """Tell the source where to write, once both it and the arena are here."""
        if self.peer is not None and self.transport is not None:
            self.tell_transport()

    @property
    def lingers_s(self) -> float:
        """Until the source of a state that was parked knows that it may drop it."""
        return _WAITS_S if self.request.staged and self.progress.state == "RELEASED" else super().lingers_s

    def heard_late(self, event: Event) -> None:
        """A source's mover that was started anew asks, or says that it is done."""
        if event.message is None or event.channel is None:
            return
        if event.message.kind == "again":
            with contextlib.suppress(Closed):
                event.channel.send("outcome", outcome=self.progress.state.lower())
        elif event.message.kind == "bye":
            self.lingers_until = 0.0

    # -- the transfer -------------------------------------------------------------------------------------

    def _work(self, message: Message) -> None:
        body = message.body
        if message.kind == "connected":
            self.connected = True
            self.transfer("received", receive)
        elif message.kind == "received":
            self._verified(body)
        elif message.kind == "failed" and not self.reached("VERIFIED"):
            self.fail(str(body["code"]), str(body["message"]))

    def _verified(self, body: dict[str, Any]) -> None:
        """All is there and right: the standby may take over, the source hears of it."""
        assert self.state is not None
        assert self.transport is not None
        self.transport.close()  # the source can write no more
        self.enter("VERIFIED", bytes_sent=body["bytes"], wire_s=body["seconds"])
        self.wait_until(2 * self.request.deadlines.pause_s, "pause_timeout")
        names = ("step", "pause", "orders", "identity", "elapsed_s")
        if self.standby is not None:
            about: dict[str, Any] = {name: self.state.body.get(name) for name in names}
            self.standby.send("state", self.state.blob, (), **about)
        self.tell_peer("verified")
