"""Kills the process groups of a supervisor that died without stopping them.

Started by the supervisor with a pipe on its standard input, whose other end only the supervisor
holds. ``+N`` names a process group to guard, ``-N`` one that is gone. At end of file (the
supervisor stopped, or was killed) every group still guarded is killed, grandchildren and all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable


def guarded_groups(lines: Iterable[str]) -> set[int]:
    """The groups still guarded after all ``lines``; a last line cut short by a kill is left out."""
    groups: set[int] = set()
    for line in lines:
        if not line.endswith("\n"):
            break
        sign, number = line[0], int(line[1:])
        (groups.add if sign == "+" else groups.discard)(number)
    return groups


def main() -> None:
    """Read until the supervisor is gone, then kill what it left."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    for group in guarded_groups(sys.stdin):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
