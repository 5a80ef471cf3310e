"""The destination's arena, handed to a source on the same host, which then writes there as RDMA would.

A socket copies every byte twice, once into the kernel and once out of it. Memory that both processes map
takes one copy, and the source's core hashes a piece while its cache still holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import socket

from ..channel import peer_of

_NOTHING, _ARENA = b"-", b"a"
TICK = b"."
"""Says that the next :data:`PIECE` is written."""
PIECE = 2**19
"""Bytes that are copied at a time, and hashed by both ends while caches hold them."""


def give(connection: socket.socket, fd: int) -> None:
    """Tell who has called over AF_UNIX what it may write into: ``fd`` (a memfd), or nothing where that is -1.

    Another user's process gets nothing, whatever it knows: it sends its bytes through the socket.

    Raises:
        OSError: it went away, or took nothing within the timeout of ``connection``.
    """
    if fd < 0 or peer_of(connection)[1] not in (os.getuid(), 0):
        connection.sendall(_NOTHING)
    else:
        socket.send_fds(connection, [_ARENA], [fd])


def take(connection: socket.socket, nbytes: int) -> memoryview:
    """The arena that :meth:`give` handed over, mapped; empty where there is none, or it is too small, or may
    become so: a file that shrinks under a mapping kills who writes there (SIGBUS).

    All pages are mapped at once: one by one, as they are written, they would cost 0.3 s per GB of the pause.

    Raises:
        OSError: the other end went away, or said nothing within the timeout of ``connection``.
    """
    said, fds, _, _ = socket.recv_fds(connection, 1, 1, socket.MSG_CMSG_CLOEXEC)
    try:
        if said == b"":
            raise ConnectionResetError("closed")
        if not fds or nbytes == 0 or os.fstat(fds[0]).st_size < nbytes or not _keeps_its_size(fds[0]):
            return memoryview(b"")
        return memoryview(mmap.mmap(fds[0], nbytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE))
    finally:
        for fd in fds:
            with contextlib.suppress(OSError):
                os.close(fd)


def _keeps_its_size(fd: int) -> bool:
    try:
        return bool(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
    except OSError:  # no memfd
        return False
