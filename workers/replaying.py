"""One replay as a child process: documents in, progress while it runs, a report out.

The child is ``python -m monkeytree.validation`` in a session of its own. It dies with this process
(PR_SET_PDEATHSIG), by SIGTERM, so that it takes the simulations that it runs along; any that it leaves
behind are handed to this process (PR_SET_CHILD_SUBREAPER) and killed. Documents go through memory
files: nothing lies about after a kill.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson

from monkeytree.adapters.replay_options import ReplayOptions

Progress = Callable[[str, float | None], None]

#: Exit codes of the replay that bring a report: isolated, and not.
REPORTED = (0, 6)
NICENESS = 10
LONGEST_MESSAGE = 4000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_ERROR = re.compile(r"^Error \(([a-z_]+)\): ")


class ReplayFailed(Exception):
    """A replay gave no report; ``failure_code`` and message are those of its own process."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message[:LONGEST_MESSAGE])
        self.failure_code = code


def run_replay(
    python: str, snapshot: bytes, plan: bytes | None, options: ReplayOptions, progress: Progress
) -> bytes:
    """Replay ``plan`` (None: the placement as it stands), and return the report's JSON.

    Args:
        progress: called with the stage and the part of it that is done (None: unknown), as the child tells.

    Raises:
        ReplayFailed: no report came about.
    """
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with _memory(snapshot) as placed, _memory(plan or b"") as planned, _memory(b"") as report:
        documents = [_path(placed), *([_path(planned)] if plan is not None else [])]
        command = [python, "-m", "monkeytree.validation", *documents, *options.arguments()]
        command += [f"--json={_path(report)}", "--progress=json"]
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(placed, planned, report),
            start_new_session=True,
            preexec_fn=_bind(os.getpid()),
        )
        try:
            words = _listen(child, progress)
            code = child.wait()
        finally:
            _clear(child)
        if code not in REPORTED:
            raise _failure(code, words)
        return _content(report)


def _bind(parent: int) -> Callable[[], None]:
    """What the child runs between fork and exec: it ends with ``parent``, and lets solves go first."""

    def bind() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # it died before the call took effect
            os._exit(1)
        os.nice(NICENESS)

    return bind


def _listen(child: subprocess.Popen[bytes], progress: Progress) -> str:
    """Hand progress on until the child closes its standard error; what else it said."""
    assert child.stderr is not None
    words: list[str] = []
    for line in child.stderr:
        told = _told(line)
        if told is None:
            words = [*words[-100:], line.decode("utf-8", "replace")]
        else:
            progress(*told)
    return "".join(words).strip()


def _told(line: bytes) -> tuple[str, float | None] | None:
    if not line.startswith(b'{"progress"'):
        return None
    try:
        told = orjson.loads(line)["progress"]
        return str(told["stage"]), told["done"]
    except (ValueError, LookupError, TypeError):
        return None


def _failure(code: int, words: str) -> ReplayFailed:
    last = words.splitlines()
    at = next((index for index in reversed(range(len(last))) if _ERROR.match(last[index])), None)
    if at is not None and (found := _ERROR.match(last[at])):
        return ReplayFailed(found[1], "\n".join([last[at][found.end() :], *last[at + 1 :]]))
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    tail = words[-500:] or "it said nothing"
    return ReplayFailed("replay_crashed", f"the replay ended with {how}: {tail}")


def _clear(child: subprocess.Popen[bytes]) -> None:
    """Kill the child and what it left behind: whatever this process has for children."""
    with suppress(ProcessLookupError):
        child.kill()
    child.wait()
    if child.stderr is not None:
        child.stderr.close()
    for listing in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for pid in map(int, listing.read_text("ascii").split()):
                with suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)


@contextmanager
def _memory(content: bytes) -> Iterator[int]:
    """A file in memory with ``content``; its descriptor."""
    descriptor = os.memfd_create("monkeytree-replay")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield descriptor
    finally:
        os.close(descriptor)


def _path(descriptor: int) -> str:
    """Its name in the child, which inherits it."""
    return f"/proc/self/fd/{descriptor}"


def _content(descriptor: int) -> bytes:
    return Path(_path(descriptor)).read_bytes()
