"""Places for clients that are still sending: few enough that threads are left for everybody else."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Condition
from time import monotonic
from typing import Any


class Sender:
    """A client whose request is being read: since when, and how much of it came.

    Args:
        sock: its connection.
        allowed_s: seconds it has, beside those for what has come.
        rate: bytes a second that earn it more time; None: nothing does.
    """

    def __init__(self, sock: socket.socket, allowed_s: float, rate: float | None = None) -> None:
        self._sock = sock
        self._since = monotonic()
        self._allowed_s = allowed_s
        self._rate = rate
        self.got = 0

    @property
    def late(self) -> bool:
        """Whether its time is over."""
        earned = self.got / self._rate if self._rate else 0.0
        return monotonic() > self._since + self._allowed_s + earned

    @property
    def age_s(self) -> float:
        """Seconds since it began."""
        return monotonic() - self._since

    def cut(self) -> None:
        """Read no more of it. An answer still goes out."""
        with suppress(OSError):  # past SSLSocket, which would send that answer unencrypted then
            socket.socket.shutdown(self._sock, socket.SHUT_RD)


class Places:
    """A number of places; where none is free, the slowest of those who hardly send makes room.

    Args:
        most: places; as many more may wait for one.
        grace_s: nobody is cut before.
        rate: bytes a second; nobody who sends that fast is cut.
        wait_s: seconds that are waited for a place.
    """

    def __init__(self, most: int, *, grace_s: float, rate: float, wait_s: float) -> None:
        self._most = most
        self._grace_s = grace_s
        self._rate = rate
        self._wait_s = wait_s
        self._waiting = 0
        self._holders: set[Sender] = set()
        self._freed = Condition()

    def take(self, sender: Sender) -> bool:
        """Whether it got a place; give it back by :meth:`free`."""
        with self._freed:
            if len(self._holders) >= self._most and not self._make_room():
                return False
            self._holders.add(sender)
            return True

    def free(self, sender: Sender) -> None:
        """Give its place back; no harm where it has none."""
        with self._freed:
            if sender in self._holders:
                self._holders.remove(sender)
                self._freed.notify()

    def _make_room(self) -> bool:
        slow = [one for one in self._holders if one.age_s > self._grace_s and self._is_slow(one)]
        if slow:  # whoever is cut waits for nothing any more, even if its body is never asked for
            slowest = min(slow, key=lambda one: one.got / one.age_s)
            slowest.cut()
            self._holders.remove(slowest)
            return True
        if self._waiting >= self._most:
            return False
        self._waiting += 1
        try:
            return self._freed.wait_for(lambda: len(self._holders) < self._most, self._wait_s)
        finally:
            self._waiting -= 1

    def _is_slow(self, one: Sender) -> bool:
        return one.got < self._rate * one.age_s


class Watched:
    """A reader of gunicorn's that tells when the body is all there."""

    def __init__(self, reader: Any, done: Any) -> None:
        self._reader = reader
        self._done = done

    def read(self, size: int) -> bytes:
        """As the reader's."""
        data: bytes = self._reader.read(size)
        if not data or getattr(self._reader, "length", 1) == 0:
            self._done()
        return data
