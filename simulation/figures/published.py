"""The authors' numbers, from ``published.json`` beside this file."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, cast


@cache
def published(figure: str) -> dict[str, Any]:
    """What they publish for ``figure`` (``fig06`` ...), with its ``source``."""
    text = (files(__package__) / "published.json").read_text(encoding="utf-8")
    return cast(dict[str, Any], json.loads(text)[figure])
