"""RDMA: one-sided writes over a reliable connection whose flow label puts it on the uplink it was given.

Writes go from arena to arena; notifications are SENDs on the same queue pair, which a receiver sees after all
writes before them (InfiniBand Architecture Specification, volume 1, 9.5). Only the destination lets its
peer write, and only into its arena; at the end its registration is revoked.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..verbs import Verbs, VerbsUnavailable, find_end, load_verbs
from .queue_pair import SLOT, Pinned, QueuePair
from .transport import TransportClosed, TransportOptions, TransportRefused, TransportTimeout

_PIECE = 2**30  # bytes of one work request; devices take at least 1 GiB (ibv_port_attr.max_msg_sz)
_HELLO, _NOTE = b"h", b"n"


@dataclass(frozen=True, slots=True)
class _Peer:
    """What the other end described."""

    gid: str
    qpn: int
    psn: int
    mtu: int
    address: int
    rkey: int
    nbytes: int


class VerbsTransport:
    """A :class:`~.transport.Transport` over one queue pair. ``verbs`` stands in for pyverbs in tests."""

    name: ClassVar[str] = "verbs"
    depth: ClassVar[int] = 8
    """Writes worth having in the air."""

    def __init__(self, options: TransportOptions, *, receiving: bool, verbs: Verbs | None = None) -> None:
        self._options = options
        self._receiving = receiving
        self._verbs = verbs or load_verbs()
        self._psn = secrets.randbits(24)
        self._pair: QueuePair | None = None
        self._peer: _Peer | None = None
        self._nbytes = 0
        self._writes = 0
        self._one_at_a_time = threading.Lock()  # there is one slot to send from
        self._greeted = False

    @classmethod
    def unavailable(cls) -> str | None:
        try:
            verbs = load_verbs()
            return None if verbs.device.get_device_list() else "this machine has no RDMA device"
        except VerbsUnavailable as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  # PyverbsRDMAError: the kernel has no RDMA
            return f"RDMA devices cannot be listed: {error}"

    def register(self, buffer: memoryview) -> Any:
        """Open the device, pin ``buffer`` and make the queue pair: all that takes long, before the pause.

        Raises:
            VerbsUnavailable: no device has the address ``options.host``.
            TransportFailed: the device refuses; the message says where locked memory is limited.
        """
        self._end = find_end(self._verbs, self._options.host, self._options.device)
        self._memory = Pinned(buffer)
        self._nbytes = len(self._memory.view)
        self._pair = QueuePair(self._verbs, self._end, self._memory, receiving=self._receiving)
        return self._pair.rkey

    def describe(self) -> bytes:
        pair = self._registered()
        document = {
            "gid": self._end.gid,
            "qpn": pair.number,
            "psn": self._psn,
            "mtu": pair.mtu,
            "address": self._memory.address,
            "rkey": pair.rkey if self._receiving else 0,
            "nbytes": self._nbytes,
            "proof": self._proof(),
        }
        return json.dumps(document).encode()

    def connect(self, peer: bytes, timeout_s: float | None = None) -> None:
        """Connect, and wait until packets have passed both ways.

        Raises:
            TransportRefused: the peer does not know the token, or its buffer has another size.
            TransportFailed: no flow label gives ``options.uplink_port``, or the device refuses.
            TransportClosed, TransportTimeout: the peer is not there.
        """
        pair = self._registered()
        other = self._read_peer(peer)
        pair.connect(other.gid, other.qpn, other.psn, self._psn, other.mtu, self._options.uplink_port)
        self._peer = other
        # The destination greets: the source then knows that it may write. That the greeting is acknowledged
        # says that the source is there, too.
        if self._receiving:
            self._send(_HELLO, self._limit(timeout_s))
        else:
            self._wait(self._has_greeting, self._limit(timeout_s), "the destination did not answer")

    def write(self, local_offset: int, remote_offset: int, length: int) -> int:
        pair, peer = self._connected()
        last = self._nbytes - length
        if length < 0 or not (0 <= local_offset <= last and 0 <= remote_offset <= last):
            what = f"{length:,} bytes from {local_offset:,} to {remote_offset:,}"
            raise TransportRefused(f"{what} do not fit arenas of {self._nbytes:,}")
        self._writes += 1
        for done in range(0, length, _PIECE):
            self._wait(pair.has_room, self._options.timeout_s, "the peer acknowledged nothing")
            there = peer.address + remote_offset + done
            pair.write(self._writes, local_offset + done, min(_PIECE, length - done), there, peer.rkey)
        return self._writes

    def poll(self, token: int, timeout_s: float = 0.0) -> bool:
        pair, _ = self._connected()
        return pair.until(lambda: pair.written(token), timeout_s)

    def notify(self, message: bytes, timeout_s: float | None = None) -> None:
        self._connected()
        if len(message) >= SLOT:
            raise TransportRefused(f"a notification of {len(message):,} bytes; {SLOT - 1:,} are the most")
        self._send(_NOTE + message, self._limit(timeout_s))

    def notifications(self, timeout_s: float) -> list[bytes]:
        pair = self._registered()
        pair.until(lambda: any(message[:1] == _NOTE for message in pair.messages), timeout_s)
        taken = [pair.messages.popleft() for _ in range(len(pair.messages))]
        return [message[1:] for message in taken if message[:1] == _NOTE]

    def close(self) -> None:
        if self._pair is not None:
            self._pair.close()
        self._pair = self._peer = None

    def _has_greeting(self) -> bool:
        pair = self._registered()
        while pair.messages and not self._greeted and pair.messages[0] == _HELLO:
            pair.messages.popleft()
            self._greeted = True
        return self._greeted

    def _send(self, message: bytes, limit_s: float) -> None:
        pair = self._registered()
        with self._one_at_a_time:
            self._wait(lambda: pair.has_room() and pair.sent(), limit_s, "the peer acknowledged nothing")
            pair.send(message)
            self._wait(pair.sent, limit_s, "the peer took no notification")

    def _wait(self, ready: Callable[[], bool], limit_s: float, complaint: str) -> None:
        if not self._registered().until(ready, limit_s):
            raise TransportTimeout(f"{complaint} within {limit_s:g} s")

    def _read_peer(self, said: bytes) -> _Peer:
        try:
            document = json.loads(said)
            proof, gid = str(document.pop("proof")), str(document.pop("gid"))
            peer = _Peer(gid=gid, **{name: int(value) for name, value in document.items()})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TransportRefused(f"the peer's description is none: {error!r}") from None
        if not hmac.compare_digest(proof.encode(), self._proof().encode()):
            raise TransportRefused("the peer does not know the token of this move")
        if peer.nbytes != self._nbytes:
            raise TransportRefused(f"the peer's buffer has {peer.nbytes:,} bytes, ours {self._nbytes:,}")
        return peer

    def _proof(self) -> str:
        return hashlib.sha256(f"verbs {self._options.token}".encode()).hexdigest()

    def _registered(self) -> QueuePair:
        if self._pair is None:
            raise TransportClosed("no buffer is registered, or the transport is closed")
        return self._pair

    def _connected(self) -> tuple[QueuePair, _Peer]:
        if self._pair is None or self._peer is None:
            raise TransportClosed("not connected")
        return self._pair, self._peer

    def _limit(self, timeout_s: float | None) -> float:
        return self._options.timeout_s if timeout_s is None else timeout_s
