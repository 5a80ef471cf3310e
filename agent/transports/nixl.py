"""NIXL: one-sided writes over UCX, from a child process of its own (:mod:`.nixl_child`).

For sites that run NIXL anyway. The source port cannot be chosen: UCX gives path 0 the flow label 0xFFFFF, so
all flows between two hosts use port 65472; :mod:`.verbs` can be steered. WRITE only: over TCP, READ is three
times slower.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import importlib.util
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

from .nixl_child import MODULES, make_agent, run
from .queue_pair import Pinned
from .transport import TransportClosed, TransportFailed, TransportOptions, TransportRefused, TransportTimeout

UCX_PORT = 65_472
"""UDP source port of UCX's path 0 over RoCEv2: flow label ``~0``."""
_LONGEST_NOTE = 4_096
_START_S = 30.0  # a NIXL agent takes a second to start, more on a busy machine
_GRACE_S = 2.0  # for an answer after the deadline that the child itself keeps
_LEAVE_S = 3.0
_SLICE_S = 0.05  # of a wait: between two, other threads may ask
# Exceptions of NIXL's bindings that say that the peer is gone.
_GONE = ("nixlRemoteDisconnectError",)


class NixlTransport:
    """A :class:`~.transport.Transport` over a NIXL agent. ``agent`` stands in for NIXL's in tests."""

    name: ClassVar[str] = "nixl"
    depth: ClassVar[int] = 8
    """Writes worth having in the air."""

    def __init__(
        self, options: TransportOptions, *, receiving: bool, agent: Callable[[str], Any] = make_agent
    ) -> None:
        if options.uplink_port not in (None, UCX_PORT):
            raise TransportFailed(
                f"NIXL cannot send from UDP port {options.uplink_port}: UCX always uses {UCX_PORT}; "
                "take the transport `verbs`, or leave the port out"
            )
        self._options = options
        self._receiving = receiving
        self._agent = agent
        self._pid = 0
        self._guard = threading.Lock()
        self._pipe: Connection | None = None
        self._memory: Pinned | None = None
        self._connected = False

    @classmethod
    def unavailable(cls) -> str | None:
        if any(importlib.util.find_spec(module) for module in MODULES):
            return None
        return (
            "NIXL is not installed: pip install --no-deps nixl-cu12 (with its dependencies it is gigabytes)"
        )

    def register(self, buffer: memoryview) -> Any:
        """Start the child and pin ``buffer``, which must be shared memory.

        Raises:
            TransportFailed: it is private memory, which the child could not write for us; or NIXL failed.
        """
        self._memory = Pinned(buffer)
        self._nbytes = len(self._memory.view)
        if not _is_shared(self._memory.address, self._nbytes):
            raise TransportFailed("NIXL needs an arena in shared memory (a memfd, or mmap with MAP_SHARED)")
        self._start()
        self._name, self._metadata = self._ask(_START_S, "register", self._memory.address, self._nbytes)
        return self._name

    def describe(self) -> bytes:
        memory = self._registered()
        document = {
            "name": self._name,
            "metadata": base64.b64encode(self._metadata).decode(),
            "address": memory.address,
            "nbytes": self._nbytes,
            "proof": self._proof(),
        }
        return json.dumps(document).encode()

    def connect(self, peer: bytes, timeout_s: float | None = None) -> None:
        """Connect; the source waits until the destination has answered.

        Raises:
            TransportRefused: the peer does not know the token, or its buffer has another size.
            TransportTimeout, TransportClosed, TransportFailed: it is not there, or NIXL failed.
        """
        self._registered()
        limit_s = self._limit(timeout_s)
        name, metadata, address = self._read_peer(peer)
        self._ask(limit_s, "connect", name, metadata, address, self._receiving)
        if not self._receiving and not self._wait(limit_s, "greeted"):
            raise TransportTimeout(f"the destination did not answer within {limit_s:g} s")
        self._connected = True

    def write(self, local_offset: int, remote_offset: int, length: int) -> int:
        last = self._nbytes - length if self._connected else -1
        if length < 0 or not (0 <= local_offset <= last and 0 <= remote_offset <= last):
            self._need_connection()
            what = f"{length:,} bytes from {local_offset:,} to {remote_offset:,}"
            raise TransportRefused(f"{what} do not fit arenas of {self._nbytes:,}")
        return int(self._ask(self._options.timeout_s, "write", local_offset, remote_offset, length))

    def poll(self, token: int, timeout_s: float = 0.0) -> bool:
        self._need_connection()
        return bool(self._wait(timeout_s, "poll", token))

    def notify(self, message: bytes, timeout_s: float | None = None) -> None:
        self._need_connection()
        if len(message) > _LONGEST_NOTE:
            raise TransportRefused(
                f"a notification of {len(message):,} bytes; {_LONGEST_NOTE:,} are the most"
            )
        self._ask(self._limit(timeout_s), "notify", message)

    def notifications(self, timeout_s: float) -> list[bytes]:
        self._need_connection()
        notes: list[bytes] = self._wait(timeout_s, "notifications")
        return notes

    def close(self) -> None:
        if self._pipe is not None and self._guard.acquire(timeout=_LEAVE_S):
            try:
                with contextlib.suppress(TransportFailed):
                    self._answer(_LEAVE_S, "close")
                self._end()  # before another thread asks again
            finally:
                self._guard.release()
        self._end()
        if self._memory is not None:
            self._memory.release()
        self._memory = None
        self._connected = False

    # -- the child

    def _start(self) -> None:
        ours, theirs = Pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            run(theirs, parent, self._agent)
        theirs.close()
        self._pid, self._pipe = pid, ours

    def _wait(self, limit_s: float, command: str, *arguments: Any) -> Any:
        """The first answer that is not empty, or the last within ``limit_s``."""
        ends = time.monotonic() + limit_s
        while True:
            slice_s = min(_SLICE_S, max(0.0, ends - time.monotonic()))
            answer = self._ask(slice_s, command, *arguments, slice_s)
            if answer or time.monotonic() >= ends:
                return answer

    def _ask(self, limit_s: float, command: str, *arguments: Any) -> Any:
        """The child's answer, one thread at a time."""
        with self._guard:
            return self._answer(limit_s, command, *arguments)

    def _answer(self, limit_s: float, command: str, *arguments: Any) -> Any:
        """The child's answer; a child that does not give one in time is killed."""
        pipe = self._pipe
        if pipe is None:
            raise TransportClosed("closed")
        try:
            pipe.send((command, arguments))
            if not pipe.poll(limit_s + _GRACE_S):
                self._end(at_once=True)
                raise TransportTimeout(
                    f"NIXL did not return from {command!r} within {limit_s + _GRACE_S:g} s"
                )
            kind, answer = pipe.recv()
        except (EOFError, OSError) as error:
            self._end(at_once=True)
            raise TransportClosed(f"the process that runs NIXL died during {command!r}") from error
        if kind == "done":
            return answer
        raise (TransportClosed if kind in _GONE else TransportFailed)(f"NIXL: {kind}: {answer}")

    def _end(self, at_once: bool = False) -> None:
        """Have the child gone: it leaves when its pipe ends, or is killed."""
        pipe, self._pipe = self._pipe, None  # taken first: two threads may be here, and one closes it
        pid, self._pid = self._pid, 0
        if pipe is not None:
            pipe.close()
        if not pid:
            return
        ends = time.monotonic() + (0.0 if at_once else _LEAVE_S)
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() >= ends:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(0.005)

    def _registered(self) -> Pinned:
        if self._memory is None or self._pipe is None:
            raise TransportClosed("no buffer is registered, or the transport is closed")
        return self._memory

    def _need_connection(self) -> None:
        if not self._connected:
            raise TransportClosed("not connected")

    def _read_peer(self, said: bytes) -> tuple[str, bytes, int]:
        try:
            document = json.loads(said)
            name, address, nbytes = str(document["name"]), int(document["address"]), int(document["nbytes"])
            metadata, proof = base64.b64decode(document["metadata"], validate=True), str(document["proof"])
        except (ValueError, TypeError, KeyError) as error:
            raise TransportRefused(f"the peer's description is none: {error!r}") from None
        if not hmac.compare_digest(proof.encode(), self._proof().encode()):
            raise TransportRefused("the peer does not know the token of this move")
        if nbytes != self._nbytes:
            raise TransportRefused(f"the peer's buffer has {nbytes:,} bytes, ours {self._nbytes:,}")
        return name, metadata, address

    def _proof(self) -> str:
        return hashlib.sha256(f"nixl {self._options.token}".encode()).hexdigest()

    def _limit(self, timeout_s: float | None) -> float:
        return self._options.timeout_s if timeout_s is None else timeout_s


def _is_shared(address: int, nbytes: int) -> bool:
    """Whether a child of ours writes to the same memory there (``s`` in /proc/self/maps)."""
    covered = address
    for row in Path("/proc/self/maps").read_text("utf-8", "replace").splitlines():
        span, flags = row.split(maxsplit=2)[:2]
        first, last = (int(edge, 16) for edge in span.split("-"))
        if first <= covered < last and flags[3] == "s":
            covered = last
    return covered >= address + nbytes
