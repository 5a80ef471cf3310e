"""Sockets: TCP, or AF_UNIX where both movers run on one host. The bytes land in the arena by ``recv_into``.

A record is a kind, an offset and a length, then its payload: ranges of the arena and notifications share one
connection and so keep their order. A piece is hashed right after it was sent, and right after it has come,
while the core's cache holds it: there a hash costs 0.02 s per GB, from memory 0.09.

On one host the destination hands its arena to a source of the same user (:mod:`.shared`), if :meth:`share`
told it the file behind it: the source then copies the bytes there itself, and a record has a byte of payload
for each piece that is there.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import xxhash

from ..channel import peer_of
from ..faults import Faults
from . import shared
from .transport import (
    TransportClosed,
    TransportFailed,
    TransportOptions,
    TransportRefused,
    TransportTimeout,
)

_RECORD = struct.Struct("!BQQ")
_DATA, _NOTE, _HASHED, _COPIED = 0, 1, 2, 3
_LONGEST_NOTE = 4_096
# Bytes that are sent, or received, at a time, and then hashed. Smaller pieces are hashed in warmer caches,
# but over TCP make the ends wait for one another more often, which costs more.
_SENT = 2**20
_RECEIVED = 2**19
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TCP_USER_TIMEOUT = getattr(socket, "TCP_USER_TIMEOUT", 18)


class StreamTransport:
    """A :class:`~.transport.Transport` over one connection."""

    name: ClassVar[str] = "stream"

    def __init__(self, options: TransportOptions, *, receiving: bool) -> None:
        self._options = options
        self._receiving = receiving
        self._faults = Faults(options.faults)
        self._memory = memoryview(b"")
        self._listeners: list[socket.socket] = []
        self._socket: socket.socket | None = None
        self._notes: queue.Queue[bytes | Exception] = queue.Queue()
        self._failed: Exception | None = None
        self._writes = 0
        self._landed: dict[tuple[int, int], str] = {}
        self._closing = False
        self._file = -1
        self._kinds: tuple[int, ...] = (_DATA, _HASHED)
        self._theirs = memoryview(b"")

    @classmethod
    def unavailable(cls) -> str | None:
        return None

    def register(self, buffer: memoryview) -> Any:
        self._memory = buffer.cast("B")
        return None

    def share(self, fd: int) -> None:
        self._file = fd
        self._kinds = (_DATA, _HASHED, _COPIED)

    def describe(self) -> bytes:
        if not self._receiving:
            return b"{}"
        if not self._listeners:
            host = self._options.host
            self._listeners.append(socket.create_server((host, 0), family=_family(host)))
            with contextlib.suppress(OSError):  # no AF_UNIX: then TCP it is
                local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._listeners.append(local)
                local.bind(_local_name(self._options.token))
                local.listen(4)
        port = self._listeners[0].getsockname()[1]
        return json.dumps({"host": self._options.host, "port": port, "boot": _boot_id()}).encode()

    def connect(self, peer: bytes, timeout_s: float | None = None) -> None:
        limit = self._options.timeout_s if timeout_s is None else timeout_s
        try:
            self._socket = self._accept(limit) if self._receiving else self._dial(json.loads(peer), limit)
        except (OSError, ValueError, KeyError) as error:
            raise TransportClosed(f"cannot connect: {error}") from error
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes who waits for the next caller
            listener.close()
        self._tune(self._socket)
        if self._receiving:
            threading.Thread(target=self._receive, name="stream", daemon=True).start()

    def write(self, local_offset: int, remote_offset: int, length: int) -> int:
        return self._write(_DATA, local_offset, remote_offset, length, _ignore)

    def write_hashed(self, local_offset: int, remote_offset: int, length: int) -> tuple[int, str]:
        hasher = xxhash.xxh3_128()
        token = self._write(_HASHED, local_offset, remote_offset, length, hasher.update)
        return token, hasher.hexdigest()

    def landed(self, offset: int, length: int) -> str | None:
        return self._landed.pop((offset, length), None)

    def poll(self, token: int, timeout_s: float = 0.0) -> bool:
        return True  # it was handed to the kernel whole, before anything that is sent later

    def notify(self, message: bytes, timeout_s: float | None = None) -> None:
        limit = self._options.timeout_s if timeout_s is None else timeout_s
        self._send(_NOTE, 0, memoryview(message), limit)

    def notifications(self, timeout_s: float) -> list[bytes]:
        listed: list[bytes] = []
        try:
            listed.append(self._take(timeout_s))
            while True:
                listed.append(self._take(0.0))
        except queue.Empty:
            return listed
        except TransportFailed:
            if listed:  # what came before the end counts; the next call tells of the end
                return listed
            raise

    def close(self) -> None:
        self._closing = True
        for each in (*self._listeners, self._socket):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        self._memory = self._theirs = memoryview(b"")

    def _take(self, timeout_s: float) -> bytes:
        """The next note.

        Raises:
            queue.Empty: there is none.
            TransportFailed: the connection ended, and all that came before was taken.
        """
        if self._failed is not None:
            raise self._failed
        note = self._notes.get(timeout=timeout_s) if timeout_s > 0 else self._notes.get_nowait()
        if isinstance(note, Exception):
            self._failed = note
            raise note
        return note

    def _write(
        self, kind: int, local_offset: int, remote_offset: int, length: int, see: Callable[[memoryview], None]
    ) -> int:
        index = self._writes
        self._writes += 1
        self._faults.stall(index)
        payload = self._memory[local_offset : local_offset + length]
        if self._faults.corrupts(index):
            see(payload)
            see = _ignore
            changed = bytearray(payload)
            changed[len(changed) // 2] ^= 0x40
            payload = memoryview(changed)
        if self._theirs:
            self._copy(kind, remote_offset, payload, see)
        else:
            self._send(kind, remote_offset, payload, self._options.timeout_s, see)
        return index

    def _copy(self, kind: int, offset: int, payload: memoryview, see: Callable[[memoryview], None]) -> None:
        """Write into the arena that the destination handed over; it hashes pieces as it hears of them."""
        if offset + len(payload) > len(self._theirs):
            raise TransportRefused(
                f"{len(payload):,} bytes at {offset:,} lie outside of {len(self._theirs):,}"
            )
        told = _RECORD.pack(_COPIED, offset, len(payload))
        for begin in range(0, len(payload), shared.PIECE):
            piece = payload[begin : begin + shared.PIECE]
            self._theirs[offset + begin : offset + begin + len(piece)] = piece
            if kind == _HASHED:
                see(piece)
                with _failing(self._options.timeout_s):
                    _push(self._connected(self._options.timeout_s), [memoryview(told + shared.TICK)])
                told = b""

    def _send(
        self,
        kind: int,
        offset: int,
        payload: memoryview,
        limit_s: float,
        see: Callable[[memoryview], None] | None = None,
    ) -> None:
        """Send a record, each piece of it before ``see``; the limit is how long nothing may move."""
        header = memoryview(_RECORD.pack(kind, offset, len(payload)))
        with _failing(limit_s):
            connection = self._connected(limit_s)
            for start in range(0, max(len(payload), 1), _SENT):
                piece = payload[start : start + _SENT]
                _push(connection, [header, piece] if start == 0 else [piece])
                if see is not None:
                    see(piece)

    def _connected(self, limit_s: float) -> socket.socket:
        """The connection, sends of which end after ``limit_s``."""
        if self._socket is None:
            raise TransportClosed("not connected")
        _limit(self._socket, limit_s)
        return self._socket

    def _receive(self) -> None:
        """The destination's thread: put what comes where it belongs."""
        connection = self._socket
        assert connection is not None
        connection.settimeout(None)
        header = memoryview(bytearray(_RECORD.size))
        try:
            while True:
                _fill(connection, header)
                kind, offset, length = _RECORD.unpack(header)
                if kind in self._kinds and offset + length <= len(self._memory):
                    self._land(connection, kind, offset, length)
                elif kind == _NOTE and length <= _LONGEST_NOTE:
                    note = bytearray(length)
                    _fill(connection, memoryview(note))
                    self._notes.put(bytes(note))
                else:
                    raise TransportRefused(f"a record of kind {kind} for {length:,} bytes at {offset:,}")
        except TransportRefused as error:
            self._notes.put(error)
            connection.close()
        except (OSError, ValueError) as error:
            self._notes.put(TransportClosed(f"the source went away: {error}"))
            if not self._closing:
                connection.close()

    def _land(self, connection: socket.socket, kind: int, offset: int, length: int) -> None:
        """Receive a range of the arena, or hear that it has been written."""
        copied = kind == _COPIED
        hasher, tick = xxhash.xxh3_128(), memoryview(bytearray(1))
        size = shared.PIECE if copied else _RECEIVED
        for start in range(offset, offset + length, size):
            piece = self._memory[start : min(start + size, offset + length)]
            _fill(connection, tick if copied else piece)
            if kind != _DATA:
                hasher.update(piece)
        if kind != _DATA:
            self._landed[offset, length] = hasher.hexdigest()

    def _accept(self, limit_s: float) -> socket.socket:
        """The first caller who knows the token; the others are closed."""
        callers: queue.Queue[socket.socket] = queue.Queue()
        for listener in self._listeners:
            threading.Thread(target=_offer, args=(listener, callers), daemon=True).start()
        ends = time.monotonic() + limit_s
        while True:
            try:
                connection = callers.get(timeout=max(0.0, ends - time.monotonic()))
            except queue.Empty:
                raise TransportTimeout(f"nobody called within {limit_s:g} s") from None
            with contextlib.suppress(OSError):
                connection.settimeout(min(5.0, limit_s))
                said = bytearray(32)
                _fill(connection, memoryview(said))
                if hmac.compare_digest(bytes(said), _proof(self._options.token)):
                    if connection.family == socket.AF_UNIX:
                        shared.give(connection, self._file)
                    return connection
            connection.close()

    def _dial(self, peer: dict[str, Any], limit_s: float) -> socket.socket:
        connection: socket.socket | None = None
        if peer.get("boot") and peer["boot"] == _boot_id():
            local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with contextlib.suppress(OSError):  # another network namespace: by TCP
                local.settimeout(limit_s)
                local.connect(_local_name(self._options.token))
                # Anybody may take the name of a destination that has gone: /proc/net/unix tells it.
                if peer_of(local)[1] in (os.getuid(), 0):
                    connection = local
            if connection is None:
                local.close()
        if connection is None:
            connection = socket.create_connection((str(peer["host"]), int(peer["port"])), limit_s)
        connection.sendall(_proof(self._options.token))
        if connection.family == socket.AF_UNIX:
            self._theirs = shared.take(connection, len(self._memory))
        return connection

    def _tune(self, connection: socket.socket) -> None:
        if connection.family != socket.AF_UNIX:
            # Buffers are the kernel's to size: fixed ones are capped by rmem_max, and slower without that.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            limit_ms = int(self._options.timeout_s * 1_000)
            connection.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, limit_ms)


def _offer(listener: socket.socket, callers: queue.Queue[socket.socket]) -> None:
    with contextlib.suppress(OSError):
        while True:
            callers.put(listener.accept()[0])


@contextlib.contextmanager
def _failing(limit_s: float) -> Iterator[None]:
    """Errors of sends, said as a transport says them."""
    try:
        yield
    except (BlockingIOError, TimeoutError) as error:
        raise TransportTimeout(f"the destination took nothing for {limit_s:g} s") from error
    except OSError as error:
        raise TransportClosed(f"the destination went away: {error}") from error


def _ignore(_piece: memoryview) -> None:
    """For writes that are not hashed."""


def _limit(connection: socket.socket, seconds: float) -> None:
    """Sends end with BlockingIOError after that long: by the kernel, which saves a poll before each."""
    connection.settimeout(None)
    whole, part = divmod(max(seconds, 0.001), 1)
    connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(whole), int(part * 1e6))
    )


def _push(connection: socket.socket, parts: list[memoryview]) -> None:
    """Send all of the parts."""
    while parts:
        sent = connection.sendmsg(parts)
        while parts and sent >= len(parts[0]):
            sent -= len(parts.pop(0))
        if parts:
            parts[0] = parts[0][sent:]


def _fill(connection: socket.socket, view: memoryview) -> None:
    while view:
        count = connection.recv_into(view)
        if count == 0:
            raise ConnectionResetError("closed")
        view = view[count:]


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _proof(token: str) -> bytes:
    return hashlib.sha256(f"stream {token}".encode()).digest()


def _local_name(token: str) -> bytes:
    """In the abstract namespace: it leaves nothing behind. The token proves who may use it."""
    return b"\0monkeytree-" + hashlib.sha256(f"name {token}".encode()).hexdigest()[:32].encode()


def _boot_id() -> str:
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return ""
