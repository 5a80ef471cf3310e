"""Idempotency-Key on POST (IETF draft-ietf-httpapi-idempotency-key-header-06).

The same key with the same request replays the first answer. Answers that a retry may well change
(5xx, 429, a key still in use) are not kept.
"""

from __future__ import annotations

import re
from hashlib import sha256

from flask import Flask, Response, g, request
from sqlalchemy.exc import SQLAlchemyError

from monkeytree.adapters.logs import logger
from monkeytree.adapters.replays import Answer

from .auth import token
from .body import read_body
from .desk import the_desk
from .problems import RequestRefused

_KEY = re.compile("[!-~]{1,255}", re.ASCII)
_KEPT_HEADERS = ("Content-Type", "Location", "Retry-After", "ETag")

log = logger(__name__)


class InvalidHeader(RequestRefused):
    """A request header was refused."""

    code = "invalid_header"


def replay_answers(app: Flask) -> None:
    """Make the POST calls of ``app`` idempotent by key; register after the guard."""
    app.before_request(_begin)
    app.after_request(_keep)


def _begin() -> Response | None:
    key = request.headers.get("Idempotency-Key")
    if key is None or request.method != "POST" or g.token is None or request.routing_exception is not None:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidHeader(
            f"Idempotency-Key takes 1 to 255 printable ASCII characters without spaces, got {key[:40]!r}"
            + (f" ({len(key)} characters)" if len(key) > 40 else "")
        )
    answer = the_desk().store.reserve_key(token().hash, key, _fingerprint())
    if answer is not None:
        headers = {**answer.headers, "Idempotency-Replayed": "true"}
        return Response(answer.body, answer.status, headers=headers)
    g.idempotency_key = key
    return None


def _fingerprint() -> str:
    body = read_body() if _has_body() else b""
    return sha256(f"{request.method} {request.path}\n".encode() + body).hexdigest()


def _has_body() -> bool:
    """Calls such as a cancel take none, and then no content type either."""
    return bool(request.content_length) or "Transfer-Encoding" in request.headers


def _keep(response: Response) -> Response:
    """The answer goes out even where the store is away by now: what it tells of has been done."""
    key = g.pop("idempotency_key", None)
    if key is not None:
        try:
            _remember(key, response)
        except SQLAlchemyError as error:  # until the key is stale, the same request is told that it runs
            log.error("idempotency_not_kept", exc_info=error)
    return response


def _remember(key: str, response: Response) -> None:
    store, owner = the_desk().store, token().hash
    if response.status_code >= 500 or response.status_code == 429:
        store.release_key(owner, key)
    else:
        headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
        store.keep_answer(owner, key, Answer(response.status_code, headers, response.get_data()))
