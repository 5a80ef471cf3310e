"""A transport between two arenas of one process: the protocol with nothing in between."""

from __future__ import annotations

import queue

from monkeytree.agent.arena import Arena


class Loopback:
    """One end; :func:`pair` makes two. ``spoil`` names a byte of the target that arrives wrong."""

    name = "loopback"

    def __init__(self, own: Arena, spoil: int | None = None) -> None:
        self.own = own.whole()
        self.spoil = spoil
        self.peer: Loopback | None = None
        self.inbox: queue.Queue[bytes] = queue.Queue()
        self.written: list[tuple[int, int]] = []

    def write(self, local_offset: int, remote_offset: int, length: int) -> int:
        assert self.peer is not None
        self.peer.own[remote_offset : remote_offset + length] = self.own[local_offset : local_offset + length]
        if self.spoil is not None and remote_offset <= self.spoil < remote_offset + length:
            self.peer.own[self.spoil] ^= 1
        self.written.append((remote_offset, length))
        return len(self.written)

    def poll(self, token: int, timeout_s: float = 0.0) -> bool:
        return True

    def notify(self, message: bytes, timeout_s: float | None = None) -> None:
        assert self.peer is not None
        assert len(message) <= 4096
        self.peer.inbox.put(message)

    def notifications(self, timeout_s: float) -> list[bytes]:
        try:
            return [self.inbox.get(timeout=timeout_s)]
        except queue.Empty:
            return []


def pair(source: Arena, target: Arena, spoil: int | None = None) -> tuple[Loopback, Loopback]:
    """Both ends, the source's first."""
    one, other = Loopback(source, spoil), Loopback(target)
    one.peer, other.peer = other, one
    return one, other
