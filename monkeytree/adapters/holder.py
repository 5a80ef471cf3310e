"""Which process holds a plan, and whether it is dead: seen at once on the same host, else its lease tells.

Linux only (proc(5)); elsewhere no process is ever taken for dead, and leases run out.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

_DEAD_STATES = ("Z", "X")


def this_holder() -> str:
    """This process: host, PID namespace, PID and start time, which no other process ever shares."""
    return f"{_neighbourhood()} {os.getpid()} {_started(os.getpid())}"


def is_dead(holder: str) -> bool:
    """Whether the process ``holder`` names is surely gone; False for those of other hosts."""
    place, _, rest = holder.partition(" ")
    pid, _, started = rest.partition(" ")
    if place != _neighbourhood() or not pid.isdigit() or not started.isdigit():
        return False
    return _started(int(pid)) != started


def _neighbourhood() -> str:
    """Where PIDs mean the same process as here."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = "unknown"
    return f"{socket.gethostname().replace(' ', '_')}/{namespace}"


def _started(pid: int) -> str:
    """Start time of a process in clock ticks since boot (field 22); "gone" when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "gone"
    return "gone" if fields[0] in _DEAD_STATES else fields[19]
