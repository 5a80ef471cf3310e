"""The source worker's side of its mover: it offers its state where it lies, and hears how the move goes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from .channel import Channel, Closed, Message, connect_local
from .membership import WorkerState


class Hold:
    """The worker's connection to the source mover, from the pause until the state may go."""

    def __init__(self, mover: str) -> None:
        """Connects to the mover's socket.

        Raises:
            OSError: it is not there.
        """
        self._channel: Channel | None = connect_local(Path(mover))
        self.failure: str | None = None
        """Code of what went wrong, once something has."""
        self.parked = False
        self.verified = False

    def offer(self, state: WorkerState, **about: Any) -> None:
        """Let the mover read the arena; nothing may change in it until the decision."""
        assert self._channel is not None
        layout = state.arena.layout().document()
        self._tell("state", blob=state.extras, fds=(state.arena.fd,), layout=layout, **about)

    def listen(self, timeout_s: float) -> None:
        """Take in what the mover says, for at most ``timeout_s``."""
        if self._channel is None:
            return
        try:
            message = self._channel.receive(timeout_s)
        except Closed:
            self._lost()
            return
        if message is not None:
            self._take(message)

    def tell(self, outcome: str) -> None:
        """Tell the mover what the job decided, if it is still there."""
        self._tell("outcome", outcome=outcome)

    def close(self) -> None:
        """Leave."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _take(self, message: Message) -> None:
        if message.kind == "failed":
            self.failure = str(message.body.get("code", "transport_failed"))
        elif message.kind == "verified":
            self.verified = True
        elif message.kind == "parked":
            self.parked = True

    def _tell(self, kind: str, **body: Any) -> None:
        if self._channel is None:
            return
        try:
            self._channel.send(kind, **body)
        except Closed:
            self._lost()

    def _lost(self) -> None:
        """The mover is gone. Once the state is verified, the job can do without it."""
        if not self.verified and self.failure is None:
            self.failure = "mover_lost"
        with contextlib.suppress(OSError):
            self.close()
