"""What a source's mover does about a parked state: it lays it down, and takes it up again."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from .arena import Arena
from .channel import Message
from .mover import Config
from .mover_home import HomingMover
from .parked import Record, record_of

_RETURN_EARLY = 0.8
"""Share of the pause after which a parked state that nobody fetched goes home."""
_KEPT = ("phases", "figures", "bytes_sent", "wire_s")


class ParkingMover(HomingMover):
    """The part of a source's mover that keeps a staged move's state without its worker."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.space: Arena | None = None
        """Memory of the host that the state goes to, taken before the pause."""
        self.record: Record | None = None
        self.extras = b""
        self._before = ""
        """Why a mover before us was bringing the state home."""

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
            self.kept = True  # a record may be unreadable for a while; the agent sweeps what nobody needs
            self.abort("parked_lost", self.parked_file.why_lost())
            return
        self.inherit(before)
        self.record = record
        for name in _KEPT:
            setattr(self.progress, name, before.get(name, getattr(self.progress, name)))
        self.paused_at = record.paused_at
        self.command, self.env = tuple(record.command), record.env
        self.progress.parked = True
        if self.progress.returning:
            why = (before.get("error") or {}).get("message")
            self._before = str(why or "returned: a mover before had begun to bring it home")
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
        if self._before and not self.returning:
            code, _, message = self._before.partition(": ")
            self.go_home(code, message)
        elif not self.returning:
            self.wait_parked()
        self.let_in()


def _words(path: str) -> dict[str, Any]:
    """The last words of the mover before."""
    with contextlib.suppress(OSError, ValueError):
        words = json.loads(Path(path).read_text("utf-8"))
        if isinstance(words, dict):
            return words
    return {}
