"""Messages between processes of one node (AF_UNIX, with file descriptors) and between two movers (TCP).

A frame is two lengths, a JSON object and a blob (either may be empty). Every wait has a deadline.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LENGTHS = struct.Struct("!II")
LONGEST = 64 * 2**20
_MOST_FDS = 4
_LONGEST_PATH = 100  # sun_path holds 108 bytes with its end


class Closed(Exception):
    """The other end is gone, or talks nonsense."""


@dataclass(frozen=True, slots=True)
class Message:
    """One frame; ``fds`` belong to the receiver."""

    body: dict[str, Any]
    blob: bytes = b""
    fds: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """Member ``kind``: what it is about."""
        return str(self.body.get("kind", ""))


class Channel:
    """One end of a connection. One thread receives; any may send."""

    def __init__(self, connection: socket.socket, send_timeout_s: float = 30.0, most: int = LONGEST) -> None:
        """``most``: bytes of a part of a frame that are taken in."""
        self.most = most
        self._socket = connection
        self._socket.setblocking(False)
        self._send_timeout_s = send_timeout_s
        self._sending = threading.Lock()
        self._buffer = bytearray()
        self._fds: list[int] = []
        self._local = connection.family == socket.AF_UNIX

    def send(self, kind: str, blob: bytes = b"", fds: Sequence[int] = (), **body: Any) -> None:
        """Send a frame.

        Raises:
            Closed: the other end is gone, or took nothing for as long as the send timeout.
        """
        text = json.dumps({"kind": kind, **body, "fds": len(fds)}).encode()
        data = memoryview(_LENGTHS.pack(len(text), len(blob)) + text + blob)
        ends = time.monotonic() + self._send_timeout_s
        with self._sending:
            try:
                while data:
                    if fds:
                        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
                        sent = self._try(lambda: self._socket.sendmsg([data], ancillary), ends)  # noqa: B023
                        fds = ()
                    else:
                        sent = self._try(lambda: self._socket.send(data), ends)  # noqa: B023
                    data = data[sent:]
            except OSError as error:
                raise Closed(f"cannot send: {error}") from error

    def receive(self, timeout_s: float | None) -> Message | None:
        """The next frame; None when ``timeout_s`` is over (None waits for ever).

        Raises:
            Closed: the other end is gone.
        """
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        while (message := self._take()) is None:
            left = None if ends is None else max(0.0, ends - time.monotonic())
            if not _ready(self._socket, select.POLLIN, left):
                return None
            self._fill()
        return message

    def close(self) -> None:
        """Leave; a thread that receives gets Closed."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        while self._fds:
            os.close(self._fds.pop())

    def _try(self, send: Any, ends: float) -> int:
        while True:
            try:
                return int(send())
            except BlockingIOError:
                left = ends - time.monotonic()
                if left <= 0 or not _ready(self._socket, select.POLLOUT, left):
                    raise TimeoutError("the other end takes nothing") from None

    def _fill(self) -> None:
        try:
            if self._local:
                data, fds, _, _ = socket.recv_fds(self._socket, 2**16, _MOST_FDS, socket.MSG_CMSG_CLOEXEC)
                self._fds += fds
            else:
                data = self._socket.recv(2**16)
        except BlockingIOError:
            return
        except (OSError, ValueError) as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed("the other end closed the connection")
        self._buffer += data

    def _take(self) -> Message | None:
        if len(self._buffer) < _LENGTHS.size:
            return None
        text, blob = _LENGTHS.unpack_from(self._buffer)
        if text > self.most or blob > self.most:
            raise Closed("a frame is too long")
        end = _LENGTHS.size + text + blob
        if len(self._buffer) < end:
            return None
        try:
            body = json.loads(self._buffer[_LENGTHS.size : _LENGTHS.size + text])
        except ValueError as error:
            raise Closed(f"a frame is no JSON: {error}") from None
        if not isinstance(body, dict):
            raise Closed("a frame is no JSON object")
        rest = bytes(self._buffer[_LENGTHS.size + text : end])
        del self._buffer[:end]
        # Descriptors travel with the first byte of their frame; a frame says how many are its own.
        count = int(body.pop("fds", 0)) if isinstance(body.get("fds", 0), int) else 0
        fds, self._fds = self._fds[:count], self._fds[count:]
        return Message(body, rest, tuple(fds))


def _ready(connection: socket.socket, event: int, timeout_s: float | None) -> bool:
    """By poll: select() takes no descriptor above 1023, and a training process has many."""
    poller = select.poll()
    try:
        poller.register(connection, event)
    except (OSError, ValueError) as error:
        raise Closed(str(error)) from error
    return bool(poller.poll(None if timeout_s is None else timeout_s * 1_000))


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """(pid, uid) of the process at the other end of an AF_UNIX connection (SO_PEERCRED)."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", raw)
    return pid, uid


@contextlib.contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A name for the socket ``path`` that fits into sockaddr_un, however deep the folder."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def listen_local(path: Path) -> socket.socket:
    """A listening AF_UNIX socket that only this user may use.

    Raises:
        OSError: the folder cannot be written.
    """
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    with reachable(path) as name:
        server.bind(name)
    path.chmod(0o600)
    server.listen(64)
    return server


def connect_local(path: Path, timeout_s: float = 5.0) -> Channel:
    """Connect to :func:`listen_local` of another process of this user.

    Raises:
        OSError: nobody listens there, or another user does.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(timeout_s)
        with reachable(path) as name:
            connection.connect(name)
        uid = peer_of(connection)[1]
        if uid not in (os.getuid(), 0):
            raise PermissionError(f"{path} is served by user {uid}, not by user {os.getuid()}")
    except OSError:
        connection.close()
        raise
    return Channel(connection)


def accept_local(server: socket.socket) -> tuple[Channel, int] | None:
    """The next connection with the pid of its process; None for one of another user (it is closed)."""
    connection, _ = server.accept()
    pid, uid = peer_of(connection)
    if uid not in (os.getuid(), 0):
        connection.close()
        return None
    return Channel(connection), pid
