"""gunicorn's threaded worker, made fit for slow and broken clients.

Used as ``--worker-class monkeytree.service.server.Worker``. By itself gunicorn answers what is no HTTP
with a page of HTML, and a client that sends half a request keeps a thread for as long as it likes. Here
it gets a problem document, and its connection is cut. Of those who still send, only a few are read at once
(:mod:`.places`): whoever has sent a whole request gets a thread.
"""

from __future__ import annotations

import fcntl
import http
import socket
import struct
import termios
import uuid
from contextlib import suppress
from functools import partial
from threading import BoundedSemaphore
from typing import Any

import orjson
from gunicorn.http import errors  # type: ignore[import-untyped]
from gunicorn.workers.gthread import _DEFER, TConn, ThreadWorker  # type: ignore[import-untyped]

from .places import Places, Sender, Watched
from .problems import PROBLEM_TYPE, PROBLEMS

#: A client that takes nothing of its answer for this long is gone.
SEND_S = 60
#: An idle connection waits in the poller, not in a thread.
FIRST_LOOK_S = 0.05
#: Longest wait for a place among those who send.
WAIT_S = 0.5
#: Bytes a second; whoever sends less makes room where others want to send.
_HARDLY = 8 * 1024.0
#: A head of more bytes is refused anyway.
_PEEKED = 64 * 1024
#: So many parts of what was sent meanwhile are dropped after a refusal.
_MOST_DROPPED = 64

_STATUS: dict[type[Exception], int] = {
    errors.LimitRequestLine: 414,
    errors.LimitRequestHeaders: 431,
    errors.ExpectationFailed: 417,
    errors.UnsupportedTransferCoding: 501,
    errors.ForbiddenProxyRequest: 403,
}
#: Faults of the application's answer or of gunicorn's configuration, though gunicorn derives them from these.
_OURS = (errors.InvalidResponseHeader, errors.InvalidResponseHeaderName, errors.ConfigurationProblem)


class Worker(ThreadWorker):  # type: ignore[misc] # gunicorn has no types
    """gthread with deadlines for reading, and problem documents.

    A client has ``head_s`` to send the head of a request. From there on it has ``body_s`` for its body, and
    a second more for every ``body_rate`` bytes that have come: a large one may take its time.
    """

    head_s, body_s, body_rate = 5.0, 60.0, 16 * 1024.0
    #: Seconds after which a client that hardly sends makes room, where others want to.
    head_grace_s, body_grace_s = 0.5, 2.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reading: dict[TConn, Sender] = {}
        threads = self.cfg.threads  # with as many requests in `?wait=` as may be, some are still free
        self._heads = Places(max(1, threads // 32), grace_s=self.head_grace_s, rate=_HARDLY, wait_s=WAIT_S)
        self._bodies = Places(max(1, threads // 5), grace_s=self.body_grace_s, rate=_HARDLY, wait_s=WAIT_S)
        self._lingering = BoundedSemaphore(max(1, threads // 16))

    def handle(self, conn: TConn) -> Any:
        """Serve one request of a connection, in a thread."""
        if not conn.initialized and not conn.data_ready and not conn.wait_for_data(FIRST_LOOK_S):
            return _DEFER
        with suppress(OSError):
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", SEND_S, 0))
        head = self._reading[conn] = Sender(conn.sock, self.head_s)
        try:
            if not self._head_is_there(conn) and not self._heads.take(head):
                kept = self._refuse(conn)
            else:
                kept = super().handle(conn)
        finally:
            self._heads.free(head)
            self._bodies.free(self._reading.pop(conn))
        if not kept:
            self._hang_up(conn)
        return kept

    def _hang_up(self, conn: TConn) -> None:
        """Close it here: gunicorn would have its one thread that accepts wait 2 s for the client to close."""
        if self._lingering.acquire(blocking=False):
            try:
                conn.close(graceful=True)
            finally:
                self._lingering.release()
        else:
            _drop(conn.sock)
            conn.close()
        conn.close = lambda graceful=False: None

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """The head is read: the body gets its own time, and a place until it is all there."""
        self._heads.free(self._reading[conn])
        body = self._reading[conn] = Sender(conn.sock, self.body_s, self.body_rate)
        if not _is_there(req, conn):
            if not self._bodies.take(body):
                return self._refuse(conn)
            unreader = conn.parser.unreader
            chunk = type(unreader).chunk

            def count(size_hint: int | None = None) -> bytes:
                data: bytes = chunk(unreader, size_hint)
                body.got += len(data)
                return data

            unreader.chunk = count
            req.body.reader = Watched(req.body.reader, partial(self._bodies.free, body))
        return super().handle_request(req, conn)

    def _head_is_there(self, conn: TConn) -> bool:
        """Whether reading the head will not wait; what comes encrypted cannot be told."""
        if self.cfg.is_ssl:
            return True
        ahead = b"" if conn.parser is None else conn.parser.unreader.buf.getvalue()
        with suppress(OSError):
            ahead += conn.sock.recv(_PEEKED, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            if not ahead:  # it hung up
                return True
        return b"\r\n\r\n" in ahead or len(ahead) >= _PEEKED

    def _refuse(self, conn: TConn) -> bool:
        """Too many are sending."""
        code, words = "server_busy", "too many clients are sending requests that do not come to their end"
        self.log.warning("a request from %s is not read: %s", conn.client, words)
        with suppress(OSError):
            conn.sock.setblocking(True)
            conn.sock.sendall(
                _document(code, PROBLEMS[code].status, words, uuid.uuid4().hex, "Retry-After: 2\r\n")
            )
        return False

    def murder_pending(self) -> None:
        """Called each second: also end the reading of those who are late. An answer still goes out."""
        super().murder_pending()
        for sender in list(self._reading.values()):
            if sender.late:
                sender.cut()

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: BaseException) -> None:
        """Answer what never reached the application."""
        theirs = isinstance(exc, errors.ParseException) and not isinstance(exc, _OURS)
        request_id = uuid.uuid4().hex
        if theirs:
            self.log.warning("request %s from %s is no HTTP: %s", request_id, addr, exc)
        else:
            self.log.error("request %s failed", request_id, exc_info=exc)
        with suppress(OSError):
            client.sendall(_answer(exc, theirs, request_id))


def _drop(sock: socket.socket) -> None:
    """What was sent meanwhile: unread, it would have the answer lost on its way."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
        for _ in range(_MOST_DROPPED):
            if not sock.recv(2**16, socket.MSG_DONTWAIT):
                break


def _is_there(req: Any, conn: TConn) -> bool:
    """Whether reading the body will not wait: there is none, or all of it has come."""
    length = getattr(req.body.reader, "length", None)
    if length is None:
        return False
    missing = length - len(conn.parser.unreader.buf.getvalue())
    return missing <= 0 or (not conn.cfg.is_ssl and missing <= _come(conn.sock))


def _come(sock: socket.socket) -> int:
    """Bytes that the kernel holds for us."""
    with suppress(OSError):
        found: tuple[int] = struct.unpack("@i", fcntl.ioctl(sock, termios.FIONREAD, bytes(4)))
        return found[0]
    return 0


def _answer(exc: BaseException, theirs: bool, request_id: str) -> bytes:
    code = "bad_request" if theirs else "internal"
    status = next((found for cls, found in _STATUS.items() if isinstance(exc, cls)), PROBLEMS[code].status)
    detail = f"the request cannot be read: {exc}" if theirs else "unexpected failure; see the log"
    return _document(code, status, detail, request_id)


def _document(code: str, status: int, detail: str, request_id: str, more: str = "") -> bytes:
    """A whole answer; ``more`` are lines of its head."""
    title = PROBLEMS[code].title
    body = orjson.dumps(
        {"type": f"/problems/{code}", "title": title, "status": status, "detail": detail, "code": code}
    )
    head = (
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"
        f"Content-Type: {PROBLEM_TYPE}\r\nContent-Length: {len(body)}\r\n"
        f"X-Request-ID: {request_id}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
