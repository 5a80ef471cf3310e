"""Whether packet-level replays can be run here, told without loading anything."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

CURE = "install the extra: pip install 'monkeytree[validation]' (Linux x86-64; it needs g++ and python3-dev)"
#: The distributions a replay needs, by how people call them.
NEEDED = {"ns3": "the ns3 wheel", "cppyy": "cppyy"}
_LOOK = f"""
from importlib.metadata import distributions as d
print(*(name for name in {tuple(NEEDED)!r} if not any(d(name=name))))
"""
_PATIENCE_S = 20.0
_HEADERS = Path("/usr/include/c++")


def why_not(python: str = "") -> str | None:
    """What a replay by the interpreter ``python`` (empty: ours) would lack, and the cure; None: nothing.

    Looks only; that ns-3 does load is seen when the first replay runs.
    """
    try:
        missing = _missing_there(python) if python else _missing_here()
    except (OSError, subprocess.SubprocessError) as error:
        return f"MONKEYTREE_VALIDATION_PYTHON={python!r} cannot be used: {error}"
    if missing:
        whose = f" for {python}" if python else ""
        names = " and ".join(NEEDED[name] for name in missing)
        return f"{names} {'is' if len(missing) == 1 else 'are'} not installed{whose}: {CURE}"
    if shutil.which(os.environ.get("CXX") or "g++") is None and not _HEADERS.is_dir():
        return "there is no C++ compiler, nor its headers: install g++ (Debian, Ubuntu: apt-get install g++)"
    return None


def interpreter(python: str) -> str:
    """The interpreter that replays run with."""
    return python or sys.executable


def _missing_here() -> list[str]:
    importlib.invalidate_caches()  # it may have been installed since we started
    return [name for name in NEEDED if not any(importlib.metadata.distributions(name=name))]


def _missing_there(python: str) -> list[str]:
    done = subprocess.run(
        [python, "-c", _LOOK], capture_output=True, text=True, check=True, timeout=_PATIENCE_S
    )
    return done.stdout.split()
