"""Sends an arena in chunks, each hashed while others are on the wire, and checks them where they arrive.

xxh3_128 detects corruption (18 GB/s a core); against an attacker stand the token and the network. The hash
of a chunk follows it as a notification, so the destination hashes chunk i while i + 1 arrives: after the
last byte one chunk is left to check. A transport that touches the bytes anyway hashes them itself.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import xxhash

from monkeytree.errors import MonkeyTreeError

from .transports.transport import HashingTransport, Transport, TransportRefused, TransportTimeout

CHUNK = 8 * 2**20
_THREADS = 2
_AHEAD = 3
_DEPTH = 4


class CorruptChunk(MonkeyTreeError):
    """What arrived is not what was sent."""

    code = "corrupt_chunk"


@dataclass(frozen=True, slots=True)
class Sent:
    """Figures of a transfer: bytes, chunks, and seconds from the first write to the last notification."""

    nbytes: int
    chunks: int
    seconds: float


def chunks(nbytes: int, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    """(offset, length) of each chunk."""
    for offset in range(0, nbytes, size):
        yield offset, min(size, nbytes - offset)


def send(transport: Transport, memory: memoryview, timeout_s: float, size: int = CHUNK) -> Sent:
    """Write all of ``memory`` into the other end's buffer.

    Raises:
        TransportFailed: with its code; ``timeout_s`` is the longest that nothing may happen.
    """
    began = time.monotonic()
    ranges = list(chunks(len(memory), size))
    if isinstance(transport, HashingTransport):
        for offset, length in ranges:
            token, digest = transport.write_hashed(offset, offset, length)
            _settle(transport, (token, offset, length), digest, timeout_s)
    else:
        _send_beside_hashing(transport, memory, ranges, timeout_s)
    transport.notify(b"end %d" % len(ranges), timeout_s)
    return Sent(len(memory), len(ranges), time.monotonic() - began)


def _send_beside_hashing(
    transport: Transport, memory: memoryview, ranges: list[tuple[int, int]], timeout_s: float
) -> None:
    """Chunks are hashed by threads of their own while others are on the wire."""
    depth = getattr(transport, "depth", _DEPTH)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="hash") as pool:
        hashes: deque[Future[str]] = deque()
        pending: deque[tuple[int, int, int]] = deque()
        ahead = iter(ranges)
        for offset, length in ranges:
            while len(hashes) < _AHEAD + depth and (following := next(ahead, None)) is not None:
                hashes.append(pool.submit(_digest, memory, *following))
            pending.append((transport.write(offset, offset, length), offset, length))
            if len(pending) >= depth:
                _settle(transport, pending.popleft(), hashes.popleft().result(), timeout_s)
        while pending:
            _settle(transport, pending.popleft(), hashes.popleft().result(), timeout_s)


def receive(transport: Transport, memory: memoryview, timeout_s: float) -> Sent:
    """Wait until all of ``memory`` has been written by the other end, and check it.

    Raises:
        CorruptChunk: a hash differs.
        TransportFailed: with its code; ``timeout_s`` is the longest that nothing may happen.
    """
    began = time.monotonic()
    checks: list[Future[None]] = []
    covered = count = 0
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="hash") as pool:
        while True:
            notes = transport.notifications(timeout_s)
            if not notes:
                raise TransportTimeout(f"the source sent nothing for {timeout_s:g} s")
            for note in notes:
                if note.startswith(b"end "):
                    _complete(int(note[4:]), count, covered, len(memory))
                    for check in checks:
                        check.result()
                    return Sent(covered, count, time.monotonic() - began)
                offset, length, digest = _read(note, covered, len(memory))
                covered += length
                count += 1
                landed = transport.landed(offset, length) if isinstance(transport, HashingTransport) else None
                if landed is not None:
                    _compare(landed, offset, length, digest)
                else:
                    checks.append(pool.submit(_check, memory, offset, length, digest))


def _settle(transport: Transport, posted: tuple[int, int, int], digest: str, timeout_s: float) -> None:
    token, offset, length = posted
    ends = time.monotonic() + timeout_s
    while not transport.poll(token, 0.1):
        if time.monotonic() > ends:
            raise TransportTimeout(f"a write of {length:,} bytes was not done within {timeout_s:g} s")
    transport.notify(b"%d %d %s" % (offset, length, digest.encode()), timeout_s)


def _read(note: bytes, covered: int, nbytes: int) -> tuple[int, int, str]:
    try:
        offset, length, digest = note.decode("ascii").split(" ")
        start, count = int(offset), int(length)
    except ValueError:
        raise TransportRefused(f"no notification of ours: {note[:80]!r}") from None
    if start != covered or not 0 < count <= nbytes - covered:
        raise TransportRefused(f"chunk at {start:,} of {count:,} bytes does not follow {covered:,}")
    return start, count, digest


def _complete(said: int, checked: int, covered: int, nbytes: int) -> None:
    if said != checked or covered != nbytes:
        raise TransportRefused(
            f"{checked} chunks with {covered:,} bytes of {nbytes:,}, the source says {said}"
        )


def _digest(memory: memoryview, offset: int, length: int) -> str:
    return xxhash.xxh3_128_hexdigest(memory[offset : offset + length])


def _check(memory: memoryview, offset: int, length: int, digest: str) -> None:
    _compare(_digest(memory, offset, length), offset, length, digest)


def _compare(found: str, offset: int, length: int, digest: str) -> None:
    if found != digest:
        raise CorruptChunk(
            f"{length:,} bytes at {offset:,} have the hash {found}, the source's have {digest}"
        )
