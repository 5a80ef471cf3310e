"""Request bodies: JSON, maybe gzip, never larger than the settings allow."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from flask import g, request

from monkeytree.errors import InvalidDocument

from .desk import the_desk
from .problems import RequestRefused

_CHUNK = 64 * 1024
_NO_JSON = ("is not JSON", "is not UTF-8", "is nested too deeply")
#: An oversized body up to this many times the limit is read and dropped, so that the sender gets to
#: read the answer; beyond it the connection is simply closed.
_DRAIN_FACTOR = 8
_CLOSE = {"Connection": "close"}


class BodyTooLarge(RequestRefused):
    """The body is larger than the settings allow."""

    code = "body_too_large"


class UnsupportedMediaType(RequestRefused):
    """The body is not declared as JSON."""

    code = "unsupported_media_type"


class UnsupportedEncoding(RequestRefused):
    """The body is compressed with something else than gzip."""

    code = "unsupported_encoding"


class MalformedBody(RequestRefused):
    """The body cannot be read."""

    code = "malformed_body"


def read_body() -> bytes:
    """The request's body after gunzip, read once.

    Raises:
        UnsupportedMediaType, UnsupportedEncoding, BodyTooLarge, MalformedBody: naming what was sent.
    """
    if "body" not in g:
        g.body = _read()
    body: bytes = g.body
    return body


def _read() -> bytes:
    limit = the_desk().settings.max_body_bytes
    if request.mimetype != "application/json":
        raise UnsupportedMediaType(f"the body must be application/json, got {request.content_type!r}")
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise UnsupportedMediaType(f"the body must be UTF-8, got charset={charset!r}")
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("gzip", "x-gzip", "identity"):
        raise UnsupportedEncoding(f"the body must be sent as it is or with gzip, got {encoding!r}")
    sent = _read_bounded(limit)
    return sent if encoding == "identity" else _gunzip(sent, limit)


def _read_bounded(limit: int) -> bytes:
    declared = request.content_length
    chunks, size = [], 0
    while chunk := _next_chunk():
        size += len(chunk)
        if size <= limit:
            chunks.append(chunk)
        elif size > limit * _DRAIN_FACTOR:
            break
    if size > limit or (declared or 0) > limit:
        raise BodyTooLarge(
            f"the body has {declared or f'more than {limit}'} bytes; at most {limit} are taken",
            headers=_CLOSE if size > limit * _DRAIN_FACTOR else None,
        )
    if declared is not None and size < declared:
        raise MalformedBody(f"the body ends after {size} of {declared} bytes", headers=_CLOSE)
    return b"".join(chunks)


def _next_chunk() -> bytes:
    """More of the body; the server's own errors mean that the sender broke off or its chunks are none."""
    try:
        return request.stream.read(_CHUNK)
    except Exception as error:  # noqa: BLE001  # each server has its own kinds
        why = str(error) or type(error).__name__
        raise MalformedBody(f"the body cannot be read: {why}", headers=_CLOSE) from None


def _gunzip(sent: bytes, limit: int) -> bytes:
    """Stop as soon as the limit is passed: a small bomb must not fill the memory."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        body = inflate.decompress(sent, limit + 1)
    except zlib.error as error:
        raise MalformedBody(f"the body is not a gzip stream: {error}") from None
    if len(body) > limit:
        raise BodyTooLarge(f"the body has more than {limit} bytes after gunzip; at most {limit} are taken")
    if not inflate.eof:
        raise MalformedBody(f"the gzip stream ends too soon, after {len(body)} bytes of JSON")
    if inflate.unused_data:
        raise MalformedBody(f"{len(inflate.unused_data)} bytes follow the gzip stream")
    return body


@contextmanager
def readable() -> Iterator[None]:
    """Turn the refusal of a text that is no JSON at all into ``malformed_body`` (400).

    A JSON document that breaks the schema stays what it is (422).
    """
    try:
        yield
    except InvalidDocument as error:
        if any(not offence.pointer and offence.message.startswith(_NO_JSON) for offence in error.offences):
            raise MalformedBody(f"the body {error.offences[0].message}") from None
        raise
