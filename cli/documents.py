"""Documents named on the command line: a file, or ``-`` for standard input."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import IO, Any

import click

from .errors import CommandFailed

#: A readable file or ``-``; anything else is a usage error.
DOCUMENT = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)


def source(path: str) -> Path | IO[bytes]:
    """What to read for ``path``; ``-`` is standard input.

    Raises:
        CommandFailed: that is closed.
    """
    if path != "-":
        return Path(path)
    if sys.stdin is None:
        raise CommandFailed("standard input is closed; name a file instead of -")
    return sys.stdin.buffer


def end_with_reader() -> None:
    """From here on a reader that leaves early (head, less) ends the process, as with other Unix tools."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def read_plan_document(path: str) -> Any:
    """The plan in ``path`` as JSON, otherwise unread.

    Raises:
        InvalidPlan: it is no strict JSON.
    """
    from monkeytree.errors import InvalidDocument, InvalidPlan
    from monkeytree.wire.reading import parse_json, read_source

    try:
        return parse_json(read_source(source(path)))
    except InvalidDocument as error:
        raise InvalidPlan(error.offences) from None
