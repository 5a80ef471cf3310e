"""Documents named on the command line: a file, or ``-`` for standard input."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from .errors import CommandFailed

if TYPE_CHECKING:
    from monkeytree.plan import Plan
    from monkeytree.snapshot import Snapshot

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


def read_pair(snapshot: str, plan: str) -> tuple[Snapshot, Plan]:
    """The documents in ``snapshot`` and ``plan``; the plan is one for that snapshot, and holds.

    Raises:
        InvalidSnapshot, InvalidPlan: one cannot be read.
        CommandFailed: the plan is for another snapshot, or does not hold: what it names may not be there.
    """
    import monkeytree

    before, planned = monkeytree.load_snapshot(source(snapshot)), monkeytree.load_plan(source(plan))
    if planned.snapshot_id != monkeytree.snapshot_id(before):
        raise CommandFailed(f"{plan} is no plan for {snapshot}: it was made for another snapshot")
    faults = monkeytree.check(before, planned)
    if faults:
        first = f"{faults[0].pointer or '/'}: {faults[0].message}"
        raise CommandFailed(
            f"{plan} does not hold, {len(faults)} fault{'s' if len(faults) > 1 else ''} (`monkeytree check` "
            f"lists all); {first}"
        )
    return before, planned


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
