"""One kind of refusal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """``advice`` is the text of its page."""

    status: int
    title: str
    advice: str
