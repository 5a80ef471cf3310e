"""Keyset cursors: where the next page of a list starts, opaque to the caller."""

from __future__ import annotations

import binascii
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode

import orjson

from monkeytree.limits import is_name

from .problems import RequestRefused

MOST_CHARACTERS = 256


class InvalidCursor(RequestRefused):
    """A cursor that no page gave out."""

    code = "invalid_cursor"


def write_cursor(key: tuple[float, str] | None) -> str | None:
    """The cursor of a page's last row; None when no page follows."""
    return None if key is None else urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def read_cursor(text: str | None) -> tuple[float, str] | None:
    """The inverse of :func:`write_cursor`.

    Raises:
        InvalidCursor: it was not written there.
    """
    if text is None:
        return None
    try:
        key = orjson.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        at, last_id = key
        if not (isinstance(at, float) and math.isfinite(at) and is_name(last_id)):
            raise ValueError(key)
        if write_cursor((at, last_id)) != text:
            raise ValueError(text)
    except (ValueError, TypeError, binascii.Error):
        detail = "pass `next` of the page before unchanged"
        errors = [{"parameter": "cursor", "detail": detail, "value": text[:MOST_CHARACTERS]}]
        raise InvalidCursor(f"the cursor {text[:40]!r} is none of this service's", errors=errors) from None
    return at, last_id
