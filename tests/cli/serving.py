"""``monkeytree serve`` as a child of the tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 90.0


def environment(**more: str) -> dict[str, str]:
    """Ours, without servers of others."""
    ours = {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "DATABASE_URL")}
    return {**ours, "MONKEYTREE_WORKER_CONCURRENCY": "2", **more}


@dataclass
class Served:
    """A running ``serve``."""

    process: subprocess.Popen[str]
    url: str
    said: str
    log: Path

    @property
    def token(self) -> str | None:
        """The token it printed."""
        found = re.search(r"mt_\S+", self.said)
        return found[0] if found else None

    def family(self) -> list[psutil.Process]:
        """All its descendants."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def named(self, word: str) -> list[psutil.Process]:
        """Descendants with ``word`` on their command line."""
        return [one for one in self.family() if word in " ".join(_cmdline(one))]


def _cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it ended meanwhile
        return []


def eventually(holds: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
    """Whether ``holds`` comes true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@contextmanager
def serving(data: Path, log: Path, *arguments: str) -> Iterator[Served]:
    """Start ``serve`` on a free port and wait for its greeting; what is left is killed at the end."""
    command = [
        sys.executable,
        "-m",
        "monkeytree.cli",
        "serve",
        "--port",
        "0",
        "--data",
        str(data),
        *arguments,
    ]
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    try:
        said = "".join(iter(process.stdout.readline, "Ctrl-C stops it\n"))
        assert "listens on" in said, log.read_text()
        url = re.search(r"http://\S+", said)
        assert url is not None
        yield Served(process, url[0], said, log)
    finally:
        left = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        process.wait()
        process.stdout.close()
        for one in left:
            if one.is_running():
                one.kill()
