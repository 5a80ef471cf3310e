"""URLs as messages may show them."""

from __future__ import annotations

import re


def masked(url: str) -> str:
    """``url`` without its user and password, one with a bare ``/`` in it too."""
    return re.sub(r"//.*@", "//***@", url, flags=re.DOTALL)
