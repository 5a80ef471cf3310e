"""gunicorn's threaded worker, made fit for slow and broken clients.

Used as ``--worker-class monkeytree.service.server.Worker``. By itself gunicorn answers what is no HTTP
with a page of HTML, and a client that sends half a request keeps a thread for as long as it likes. Here
it gets a problem document, and its connection is cut.
"""

from __future__ import annotations

import http
import socket
import struct
import uuid
from contextlib import suppress
from time import monotonic
from typing import Any

import orjson
from gunicorn.http import errors  # type: ignore[import-untyped]
from gunicorn.workers.gthread import _DEFER, TConn, ThreadWorker  # type: ignore[import-untyped]

from .problems import PROBLEM_TYPE, PROBLEMS

#: A client that takes nothing of its answer for this long is gone.
SEND_S = 60
#: An idle connection waits in the poller, not in a thread.
FIRST_LOOK_S = 0.05

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

    A client has ``head_s`` to send the head of a request, and ``body_s`` from there on for its body.
    """

    head_s, body_s = 5.0, 60.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reading: dict[TConn, float] = {}

    def handle(self, conn: TConn) -> Any:
        """Serve one request of a connection, in a thread."""
        if not conn.initialized and not conn.data_ready and not conn.wait_for_data(FIRST_LOOK_S):
            return _DEFER
        with suppress(OSError):
            conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", SEND_S, 0))
        self._reading[conn] = monotonic() + self.head_s
        try:
            return super().handle(conn)
        finally:
            self._reading.pop(conn, None)

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """The head is read: the body gets its own time."""
        self._reading[conn] = monotonic() + self.body_s
        return super().handle_request(req, conn)

    def murder_pending(self) -> None:
        """Called each second: also end the reading of those who are late. An answer still goes out."""
        super().murder_pending()
        for conn, deadline in list(self._reading.items()):
            if monotonic() > deadline:
                with suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RD)

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


def _answer(exc: BaseException, theirs: bool, request_id: str) -> bytes:
    code = "bad_request" if theirs else "internal"
    kind = PROBLEMS[code]
    status = next((found for cls, found in _STATUS.items() if isinstance(exc, cls)), kind.status)
    detail = f"the request cannot be read: {exc}" if theirs else "unexpected failure; see the log"
    body = orjson.dumps(
        {"type": f"/problems/{code}", "title": kind.title, "status": status, "detail": detail, "code": code}
    )
    head = (
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"
        f"Content-Type: {PROBLEM_TYPE}\r\nContent-Length: {len(body)}\r\n"
        f"X-Request-ID: {request_id}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
