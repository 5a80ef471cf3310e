"""What a source's mover does about a parked state: it lays it down, takes it up again, and brings it home."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .arena import Arena, Layout
from .channel import Closed, Message
from .mover import Config, Event, Mover
from .parked import ParkedFile, Record, record_of

_RETURN_EARLY = 0.8
"""Share of the pause after which a parked state that nobody fetched goes home."""
_HEARD_S = 2.0
_KEPT = ("phases", "figures", "bytes_sent", "wire_s")
_SENT = ("SENDING", "VERIFIED", "DECIDED", "REFORMED", "RELEASED")


class ParkingMover(Mover):
    """The part of a source's mover that keeps a staged move's state without its worker."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.paused_at = 0.0
        self.command: tuple[str, ...] = ()
        self.env: Mapping[str, str] = {}
        self.space: Arena | None = None
        """Memory of the host that the state goes to, taken before the pause."""
        self.record: Record | None = None
        self.extras = b""
        self.unsure = False
        """Whether the state may have landed without our hearing of it."""
        self.returning = False
        self.home_by = 0.0
        self.home: subprocess.Popen[bytes] | None = None
        self.arrived = False
        """Whether the successor at home has the state."""
        self._knocking: Event | None = None

    @property
    def parked_file(self) -> ParkedFile:
        """Where the state waits."""
        return self.config.parked_file

    def enter(self, state: str, **told: Any) -> None:
        """As every mover; at the end the parked state goes, after word of the end is on disk."""
        super().enter(state, **told)
        if self.final and self.request.staged:
            self.tell_peer("bye")
            with contextlib.suppress(OSError):
                self.parked_file.remove()

    # -- laying it down ----------------------------------------------------------------------------------

    def reserve(self) -> None:
        """Take the memory while the job still trains; ``reserved`` comes as an event."""
        assert self.arena is not None
        layout = self.arena.layout()

        def reserve() -> dict[str, Any]:
            self.space = self.parked_file.reserve(layout)
            return {}

        self.work("reserved", reserve)

    def park(self) -> None:
        """Copy what the worker offered, and write down what it is; ``stored`` comes as an event."""
        assert self.arena is not None
        assert self.state is not None
        assert self.space is not None
        source, space, state = self.arena.whole(), self.space, self.state
        record = record_of(state.body, self.paused_at, self.command, self.env)

        def store() -> dict[str, Any]:
            self.parked_file.fill(space, source, state.blob, record)
            return {}

        self.work("stored", store)

    def stored(self) -> None:
        """From here on nobody else is needed: neither the worker nor this process."""
        self.progress.figures["park_s"] = time.monotonic() - self.paused_at
        if self.arena is not None:
            self.arena.close()
        self.arena = self.space
        self.tell_agent(parked=True)
        self.faults.hold("PARKED")
        self.wait_parked()

    def wait_parked(self) -> None:
        """Until somebody fetches it, or the job is about to lose patience."""
        ends = self.paused_at + _RETURN_EARLY * self.request.deadlines.pause_s
        self.wait_until(max(0.0, ends - time.monotonic()), "pause_timeout")

    # -- taking it up again ------------------------------------------------------------------------------

    def resume(self) -> None:
        """Go on where the mover before this one was killed; ``attached`` comes as an event."""
        before = _words(self.config.state_file)
        record = self.parked_file.read()
        if record is None:
            self.abort("parked_lost", "the parked state is gone: its host has restarted")
            return
        self.unsure = before.get("state") in _SENT
        self.record = record
        for name in _KEPT:
            setattr(self.progress, name, before.get(name, getattr(self.progress, name)))
        self.paused_at = record.paused_at
        self.command, self.env = tuple(record.command), record.env
        self.progress.parked = True
        self.enter("PAUSED")

        def attach() -> dict[str, Any]:
            arena, self.extras = self.parked_file.attach(record)
            self.arena = arena
            return {}

        self.work("attached", attach)

    def attached(self) -> None:
        """Every byte is as it was."""
        assert self.record is not None
        body = {"kind": "state", "layout": self.record.layout, **self.record.about}
        self.state = Message(body, self.extras)
        if self._knocking is not None:
            knocking, self._knocking = self._knocking, None
            self.welcome_home(knocking)
        elif not self.returning:
            self.wait_parked()

    # -- bringing it home --------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """What the successor needs to know besides the state."""
        assert self.state is not None
        return {name: self.state.body.get(name) for name in ("step", "pause", "orders", "identity")}

    def back_within(self, seconds: float) -> None:
        """The peer may change the deadline meanwhile, but not how long we wait for the successor at home."""
        self.home_by = time.monotonic() + seconds
        self.wait_until(seconds, "standby_failed")

    def go_home(self, code: str, message: str) -> None:
        """Start the worker's successor here."""
        self.returning = True
        self.tell_agent(error={"code": "returned", "message": f"{code}: {message}"})
        self.back_within(self.request.deadlines.prepare_s)
        if not self.command:
            self.stranded("the worker told no standby_command")
            return
        try:
            self.home = self.spawn(self.command, self.env, home=True)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.stranded(f"cannot start {self.command[0]!r}: {error}")

    def stranded(self, why: str) -> None:
        """The state cannot go home: the worker is lost, and that must be seen."""
        self.end_home()
        self.abort("standby_failed", f"the worker could not be started at home again: {why}")

    def home_ended(self) -> None:
        """The successor has left; what it said before may still come, by another thread."""
        if self.arrived:
            self.back_within(_HEARD_S)
        else:
            self.stranded("it ended")

    def settled(self, error: Mapping[str, str]) -> None:
        """The rank has reported here: its worker had not left, or has come home already."""
        if self.returning and self.arrived:
            return  # the successor tells us itself, and why
        self.end_home()
        self.abort(str(error.get("code", "job_aborted")), str(error.get("message", "the worker says so")))

    def end_home(self) -> None:
        """Stop a successor that has not been given the state."""
        if self.home is not None and not self.arrived:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.home.pid, signal.SIGKILL)

    def welcome_home(self, event: Event) -> None:
        """The worker's successor at home: it gets the parked state."""
        message = event.message
        if message is None or event.channel is None:
            return
        if message.kind == "standby":
            if self.state is None or self.arena is None:
                self._knocking = event  # we are still checking it
                return
            layout = Layout.read(message.body["layout"])
            home = Arena.attach(message.fds[-1], layout, prefault=True)
            if home.layout() != self.arena.layout():
                self.abort("standby_failed", "the successor at home lays its arena out otherwise")
                return
            home.whole()[:] = self.arena.whole()
            elapsed_s = time.monotonic() - self.paused_at
            with contextlib.suppress(Closed):
                event.channel.send(
                    "state", self.state.blob, (), elapsed_s=elapsed_s, patient=self.unsure, **self.about()
                )
            self.arrived = True
            self.back_within(2 * self.request.deadlines.first_iteration_s)
        elif message.kind == "outcome":
            self._came_home(str(message.body.get("outcome")))

    def _came_home(self, outcome: str) -> None:
        """What the successor found in the job's store, or became."""
        why = (self.progress.error or {}).get("message", "the state went home")
        if outcome in ("returned", "released", "elsewhere"):
            self.abort("returned", why)
        elif outcome == "stayed":
            self.abort("job_aborted", f"its worker had not left ({why})")
        else:
            self.enter("RELEASED", parked=False, error=None)  # it had landed after all


def _words(path: str) -> dict[str, Any]:
    """The last words of the mover before."""
    with contextlib.suppress(OSError, ValueError):
        words = json.loads(Path(path).read_text("utf-8"))
        if isinstance(words, dict):
            return words
    return {}
