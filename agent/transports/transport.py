"""What moves bytes between two arenas: the protocol that every transport keeps.

One object on each side, made and used inside a mover process, one move long. Both ends register one
buffer of the same size, exchange what :meth:`Transport.describe` returns over the movers' own control
connection, and call :meth:`Transport.connect` with the other's bytes. Then the source writes ranges of its
buffer to the same places of the other (one-sided where the transport can), and tells with
:meth:`Transport.notify`.

Order: a notification arrives after all bytes of every write for which :meth:`Transport.poll` had returned
True before it was sent. Nothing else is ordered.

Deadlines: every call that waits takes ``timeout_s`` and raises :class:`TransportTimeout` by itself,
whatever the wire does. A dead peer raises :class:`TransportClosed` as soon as the transport knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from monkeytree.errors import MonkeyTreeError


class TransportFailed(MonkeyTreeError):
    """A transport cannot go on; the move is aborted with its code."""

    code = "transport_failed"


class TransportTimeout(TransportFailed):
    """The peer did not answer within the deadline."""

    code = "transport_timeout"


class TransportClosed(TransportFailed):
    """The peer went away."""

    code = "transport_closed"


class TransportRefused(TransportFailed):
    """What the peer sent cannot be right (wrong token, a range outside the buffer)."""

    code = "transport_refused"


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """How to set a transport up.

    Attributes:
        host: address that the peer can reach this side at.
        token: one-time secret shared by both ends of the move.
        timeout_s: default deadline of each wait.
        uplink_port: UDP source port to use where the transport can set one, or None.
        device: name of the device (HCA, GPU) where the transport has several; "" takes the first.
        faults: for tests only, see :mod:`..faults`; empty in service.
    """

    host: str = "127.0.0.1"
    token: str = ""
    timeout_s: float = 30.0
    uplink_port: int | None = None
    device: str = ""
    faults: tuple[str, ...] = ()


class Transport(Protocol):
    """One end of a transfer, made as ``cls(options, receiving=...)``; see the module for the order."""

    name: ClassVar[str]

    def __init__(self, options: TransportOptions, *, receiving: bool) -> None:
        """``receiving`` is True at the destination."""

    @classmethod
    def unavailable(cls) -> str | None:
        """Why it cannot be used on this machine (a message with the cure), or None where it can."""

    def register(self, buffer: memoryview) -> Any:
        """Make ``buffer`` (writable, contiguous bytes) the one that is written from or into; its handle.

        It pins memory where the transport needs it; done before the pause.
        """

    def describe(self) -> bytes:
        """What the peer needs to connect (address, keys, queue pair): opaque, at most 64 kB."""

    def connect(self, peer: bytes, timeout_s: float | None = None) -> None:
        """Connect to the end that said ``peer``; both ends call it, about at once."""

    def write(self, local_offset: int, remote_offset: int, length: int) -> int:
        """Start to write a range of our buffer into the peer's; a token for :meth:`poll`. May block."""

    def poll(self, token: int, timeout_s: float = 0.0) -> bool:
        """Whether that write is done: our bytes may change, and later notifications come after it."""

    def notify(self, message: bytes, timeout_s: float | None = None) -> None:
        """Send a message of at most 4,096 bytes."""

    def notifications(self, timeout_s: float) -> list[bytes]:
        """Messages that arrived, in order; waits until there is one, or ``timeout_s`` is over ([])."""

    def close(self) -> None:
        """Deregister (revoke the peer's access) and leave; may be called twice, never raises."""


@runtime_checkable
class HashingTransport(Transport, Protocol):
    """A transport that copies the bytes itself, and can hash them (xxh3_128, hexadecimal) as it does."""

    def write_hashed(self, local_offset: int, remote_offset: int, length: int) -> tuple[int, str]:
        """As :meth:`~Transport.write`; also the hash of our bytes."""

    def landed(self, offset: int, length: int) -> str | None:
        """The hash of what a hashed write put into our buffer; once for each, after its notification."""


@runtime_checkable
class SharingTransport(Transport, Protocol):
    """A transport that can let a source on the same host, and of the same user, into the arena itself."""

    def share(self, fd: int) -> None:
        """The registered buffer is this file (a memfd) from its start; before :meth:`~Transport.connect`.

        The source keeps its mapping until it closes; its chunks are all that it writes, before their notes.
        """
