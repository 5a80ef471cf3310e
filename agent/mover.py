"""The process that carries out one side of one move: started by the agent, and able to outlive it.

It speaks with the agent and with the worker (or its standby) over one AF_UNIX socket, and with the mover of
the other side over TCP. All that happens is an event in one queue; one thread takes them in turn, so the
state has one owner. Blocking work (connecting, the transfer) is done by threads that report by events.

``python -m monkeytree.agent.mover`` reads its configuration (:class:`Config`, JSON) from standard input.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from monkeytree.errors import MonkeyTreeError
from monkeytree.wire import agents
from monkeytree.wire.agents import restore_move

from .arena import Arena
from .channel import Channel, Closed, Message, accept_local, listen_local
from .faults import Faults
from .parked import ParkedFile
from .standby import STANDBY_VARIABLE
from .transfer import Sent
from .transports import make_transport
from .transports.transport import Transport, TransportOptions

MOVE_STATES: tuple[str, ...] = agents.MOVE_STATES
LINGER_S = 1.0
"""How long a mover at its end stays, for the agent and its peer to hear of it."""
AGAIN_S = 0.2
NONSENSE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


@dataclass(frozen=True)
class Config:
    """What a mover is told.

    Attributes:
        id: of the move.
        request: the :class:`MoveRequest` document.
        socket: where it listens.
        state_file: where its last status is written, for an agent that starts later.
        agent: socket of the agent, for the standby.
        host: address that the other node reaches this one at.
        log: file for the output of the standby.
        chunk_timeout_s: longest that nothing may happen on the wire.
        device: of the transport.
        faults: for tests, see :mod:`.faults`.
        parked: file in the host's memory for a state that waits there; beside ``state_file`` where empty.
        resume: the state is parked already, by a mover before this one.
    """

    id: str
    request: Mapping[str, Any]
    socket: str
    state_file: str
    agent: str
    host: str
    log: str
    chunk_timeout_s: float = 10.0
    device: str = ""
    faults: tuple[str, ...] = ()
    parked: str = ""
    resume: bool = False

    @property
    def parked_file(self) -> ParkedFile:
        """Where a staged move's state waits."""
        record = Path(self.state_file).with_suffix(".parked")
        return ParkedFile(Path(self.parked or f"{self.state_file}-parked"), record)


@dataclass(frozen=True, slots=True)
class Event:
    """``who``: agent, worker, standby, peer, work or exit; ``message`` None where its connection ended."""

    who: str
    message: Message | None
    channel: Channel | None = None
    pid: int = 0


@dataclass
class Progress:
    """The status of the move, as the agent hears it."""

    state: str = "NEW"
    error: dict[str, str] | None = None
    descriptor: dict[str, Any] | None = None
    parked: bool = False
    bytes_sent: int = 0
    wire_s: float | None = None
    figures: dict[str, float] = field(default_factory=dict)
    phases: list[dict[str, Any]] = field(default_factory=list)


class Mover:
    """What both sides share; :mod:`.mover_source` and :mod:`.mover_destination` say what to do when."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.request = restore_move(config.request)
        self.progress = Progress()
        self.events: queue.Queue[Event] = queue.Queue()
        self.faults = Faults(config.faults)
        self.peer: Channel | None = None
        self.transport: Transport | None = None
        self.connected = False
        self.lingers_until = 0.0
        self.landing = 0
        """Which try at the transfer this is: word of an earlier one comes too late."""
        self.arena: Arena | None = None
        self.state: Message | None = None
        """The worker's offer, or word of it: its blob is the extras."""
        self.deadline = time.monotonic() + self.request.deadlines.prepare_s
        self.deadline_code = "prepare_timeout"
        self._agents: list[Channel] = []
        self._server = listen_local(Path(config.socket))

    # -- for the sides ------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """What this side does about an event."""
        raise NotImplementedError

    def begin(self) -> None:
        """What this side does first."""

    @property
    def lingers_s(self) -> float:
        """How long it stays after its end, seconds."""
        return LINGER_S

    def heard_late(self, event: Event) -> None:
        """What this side says to the other one after its end."""

    def fail(self, code: str, message: str) -> None:
        """What this side does when it cannot go on."""
        raise NotImplementedError

    @property
    def final(self) -> bool:
        """Whether the move is at its end."""
        return self.progress.state in ("RELEASED", "ABORTED")

    def reached(self, state: str) -> bool:
        """Whether the move is in ``state`` or beyond (not aborted)."""
        order = MOVE_STATES
        return self.progress.state != "ABORTED" and order.index(self.progress.state) >= order.index(state)

    def enter(self, state: str, **told: Any) -> None:
        """Go to ``state``; what is told besides goes into the status."""
        now = time.time()
        if state != self.progress.state:
            if self.progress.phases:
                last = self.progress.phases[-1]
                last["seconds"] = round(now - last["started_at"], 6)
            self.progress.phases.append({"name": state, "started_at": now, "seconds": None})
        self.progress.state = state
        if state == "PREPARED":  # the other side, and the pause's other moves, may need as long again
            self.wait_until(2 * self.request.deadlines.prepare_s, "prepare_timeout")
        self.tell_agent(**told)
        self.faults.hold(state)

    def walk_to(self, state: str) -> None:
        """Go to ``state`` by way of all between: word of them may come late, or from one side only."""
        order = MOVE_STATES
        here = order.index(self.progress.state)
        for following in order[here + 1 : order.index(state) + 1]:
            self.enter(following)

    def tell_agent(self, **told: Any) -> None:
        """Write the status down, and send it to whoever listens."""
        for name, value in told.items():
            setattr(self.progress, name, value)
        status = dict(vars(self.progress))
        path = Path(self.config.state_file)
        fresh = path.with_suffix(".new")
        with contextlib.suppress(OSError):  # a full disk must not cost the state that we hold
            fresh.write_text(json.dumps(status), "utf-8")
            fresh.replace(path)
        for channel in list(self._agents):
            try:
                channel.send("status", status=status)
            except Closed:
                self._agents.remove(channel)

    def abort(self, code: str, message: str) -> None:
        """End without success."""
        self.enter("ABORTED", error={"code": code, "message": message}, parked=False)

    def wait_until(self, seconds: float, code: str) -> None:
        """From now on, fail with ``code`` unless something changes the deadline within ``seconds``."""
        self.deadline = time.monotonic() + seconds
        self.deadline_code = code

    def tell_peer(self, kind: str, blob: bytes = b"", **body: Any) -> None:
        """Send to the other side, if it is there."""
        if self.peer is not None:
            with contextlib.suppress(Closed):
                self.peer.send(kind, blob, **body)

    def work(self, name: str, do: Callable[[], dict[str, Any]]) -> None:
        """Do something that blocks; what it returns comes as an event from ``work`` of that kind."""

        landing = self.landing

        def run() -> None:
            try:
                body = {"kind": name, **do()}
            except MonkeyTreeError as error:
                body = {"kind": "failed", "code": error.code, "message": str(error)}
            except (OSError, Closed, MemoryError, *NONSENSE) as error:  # or we would wait for it
                body = {"kind": "failed", "code": "peer_lost", "message": str(error) or repr(error)}
            self.events.put(Event("work", Message({**body, "landing": landing})))

        threading.Thread(target=run, name=name, daemon=True).start()

    def make_transport(self, token: str) -> Transport:
        """The transport of the request."""
        options = TransportOptions(
            host=self.config.host,
            token=token,
            timeout_s=self.config.chunk_timeout_s,
            uplink_port=self.request.uplink_port,
            device=self.config.device,
            faults=self.config.faults if self.request.transport == "stream" else (),
        )
        self.transport = make_transport(self.request.transport, options, self.request.role == "destination")
        return self.transport

    def tell_transport(self) -> None:
        """Tell the other side how to reach our transport."""
        assert self.transport is not None
        self.tell_peer("transport", described=base64.b64encode(self.transport.describe()).decode())

    def connect(self, described: bytes) -> None:
        """Connect to the transport of the other side; ``connected`` comes as an event."""
        assert self.transport is not None
        transport = self.transport

        def connect() -> dict[str, Any]:
            transport.connect(described, self.config.chunk_timeout_s)
            return {}

        self.work("connected", connect)

    def transfer(self, done: str, carry: Callable[[Transport, memoryview, float], Sent]) -> None:
        """Have the state carried over, as soon as it and the wire are there; ``done`` comes as an event."""
        if self.state is None or not self.connected or self.reached("SENDING"):
            return
        self.enter("SENDING")
        assert self.transport is not None
        assert self.arena is not None
        transport, memory = self.transport, self.arena.whole()

        def transfer() -> dict[str, Any]:
            carried = carry(transport, memory, self.config.chunk_timeout_s)
            return {"bytes": carried.nbytes, "seconds": carried.seconds, "chunks": carried.chunks}

        self.work(done, transfer)

    def spawn(self, command: tuple[str, ...], env: Mapping[str, str], home: bool) -> subprocess.Popen[bytes]:
        """Start the standby, in a session of its own: it outlives us."""
        calling = {
            "mover": self.config.socket,
            "agent": self.config.agent,
            "job": self.request.job,
            "group": self.request.group,
            "rank": self.request.rank,
            "home": home,
        }
        with open(self.config.log, "ab") as output:
            process = subprocess.Popen(
                list(command),
                env={**os.environ, **env, STANDBY_VARIABLE: json.dumps(calling)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

        def reap() -> None:
            code = process.wait()
            self.events.put(Event("exit", Message({"code": code}), pid=process.pid))

        threading.Thread(target=reap, name="reaper", daemon=True).start()
        return process

    def listen_to(self, who: str, channel: Channel, pid: int = 0) -> None:
        """Turn what comes on a connection into events."""
        threading.Thread(target=self._read, args=(who, channel, pid), name=who, daemon=True).start()

    # -- the loop -----------------------------------------------------------------------------------------

    def run(self) -> None:
        """From the first event to the end of the move."""
        threading.Thread(target=self._accept, name="accept", daemon=True).start()
        self.begin()
        while not self.final:
            left = self.deadline - time.monotonic()
            try:
                event = self.events.get(timeout=max(0.0, left))
            except queue.Empty:
                self.wait_until(self.config.chunk_timeout_s, self.deadline_code)
                self.fail(self.deadline_code, f"nothing more happened in state {self.progress.state}")
                continue
            self._take(event)
        self._linger()

    def _take(self, event: Event) -> None:
        if event.who == "agent" and event.message is not None and event.message.kind == "hello":
            assert event.channel is not None
            self._agents.append(event.channel)
            self.tell_agent()
            return
        try:
            self.handle(event)
        except MonkeyTreeError as error:
            self.fail(error.code, str(error))
        except (OSError, Closed) as error:
            self.fail("transport_failed", str(error))
        except NONSENSE as error:
            what = "nothing" if event.message is None else event.message.kind
            self.fail("transport_failed", f"{event.who} said {what!r}, which cannot be read: {error!r}")

    def _linger(self) -> None:
        """Let the others hear of the end; take what memory was held away."""
        if self.transport is not None:
            self.transport.close()
        self.lingers_until = time.monotonic() + self.lingers_s
        while (left := self.lingers_until - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                event = self.events.get(timeout=left)
                if event.who == "agent" and event.message is not None and event.message.kind == "hello":
                    self._take(event)
                elif event.who == "peer" and event.message is not None:
                    self.heard_late(event)
        with contextlib.suppress(OSError):
            Path(self.config.socket).unlink()

    def _accept(self) -> None:
        while True:
            try:
                accepted = accept_local(self._server)
            except OSError:  # out of descriptors, say: that passes
                time.sleep(AGAIN_S)
                continue
            if accepted is not None:
                self.listen_to("", *accepted)

    def _read(self, who: str, channel: Channel, pid: int) -> None:
        """Local callers say by their first message who they are."""
        names = {"hello": "agent", "state": "worker", "standby": "standby"}
        try:
            while (message := channel.receive(None)) is not None:
                who = who or names.get(message.kind, "stranger")
                self.events.put(Event(who, message, channel, pid))
        except Closed:
            self.events.put(Event(who or "stranger", None, channel, pid))


def main() -> None:
    """Read the configuration, carry the move out, leave.

    Always by ``os._exit``: libraries of RDMA transports are known to crash in their exit handlers.
    """
    document = json.load(sys.stdin)
    document["faults"] = tuple(document.get("faults", ()))
    config = Config(**document)
    from .mover_destination import DestinationMover
    from .mover_source import SourceMover

    side = SourceMover if config.request["role"] == "source" else DestinationMover
    code = 1
    try:
        side(config).run()
        code = 0
    finally:
        sys.stderr.flush()
        if code == 0:
            os._exit(0)


if __name__ == "__main__":
    main()
