"""Tokens that commands read from files: one rule for all, and the agent's own (``agent/main.py``)."""

from __future__ import annotations

from pathlib import Path

from .errors import CommandFailed


def read_secret(file: Path) -> str:
    """The token in ``file``.

    Raises:
        CommandFailed: others than its owner may read it, or it holds none.
        OSError: it cannot be read.
    """
    if file.stat().st_mode & 0o077:
        raise CommandFailed(f"others may read the token in {file}: chmod 600 {file}")
    text = file.read_text("utf-8", "replace").strip()
    if not text or not text.isascii() or not text.isprintable():
        raise CommandFailed(f"{file} holds no token")
    return text
