"""Runs one scenario in a child process; what happens to the child becomes a typed error."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from monkeytree.errors import Offence

from .child import INVALID, UNAVAILABLE
from .errors import InvalidScenario, SimulationCrashed, SimulationTimedOut, ValidationUnavailable
from .scenario_document import read_scenario

LAST_WORDS = 2000


def prepare(say: Callable[[str], None] | None = None) -> None:
    """Make sure that scenarios can run here; the first time this compiles the models.

    Raises:
        ValidationUnavailable: they cannot; the message names the cure.
    """
    from . import binding

    binding.build(say)


def run_scenario(
    scenario: Mapping[str, Any],
    *,
    timeout_s: float,
    on_progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Run a scenario document (format 1), and return the result document (format 1).

    Args:
        timeout_s: wall seconds the run may take, compiling the models (once) not counted.
        on_progress: called about twice a second with the part of all bytes that has arrived, 0 to 1.

    Raises:
        InvalidScenario: it is not in order.
        ValidationUnavailable: ns-3 cannot be used here.
        SimulationCrashed: the child died.
        SimulationTimedOut: it took longer than ``timeout_s`` and was stopped.
    """
    read_scenario(scenario)
    prepare()
    command = [sys.executable, "-m", "monkeytree.validation.child", "--attached"]
    command += ["--progress"] if on_progress is not None else []
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True) as child:
        said = _Said(on_progress)
        listener = threading.Thread(target=said.listen, args=(child.stderr,), daemon=True)
        listener.start()
        try:
            answer = _converse(child, json.dumps(scenario).encode(), timeout_s)
        except BaseException:
            child.kill()
            raise
        finally:
            listener.join(timeout=5)
    return _understand(child.returncode, answer, said)


@dataclass
class _Said:
    """What a child says on standard error: its progress, and its last words."""

    on_progress: Callable[[float], None] | None
    ready: bool = False
    words: list[bytes] = field(default_factory=list)

    def listen(self, stream: IO[bytes]) -> None:
        for line in stream:
            told = _told(line)
            if told is None:
                self.words = [*self.words[-200:], line]
            elif "ready" in told:
                self.ready = True
            elif self.on_progress is not None and "progress" in told:
                self.on_progress(float(told["progress"]))

    @property
    def last_words(self) -> str:
        return b"".join(self.words).decode("utf-8", "replace")[-LAST_WORDS:].strip()


def _told(line: bytes) -> dict[str, Any] | None:
    if not line.startswith((b'{"ready"', b'{"progress"')):
        return None
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _converse(child: subprocess.Popen[bytes], question: bytes, timeout_s: float) -> bytes:
    """Send the scenario, and read the answer, both at once so that neither pipe blocks."""
    assert child.stdin is not None
    assert child.stdout is not None
    stdin, stdout = child.stdin, child.stdout
    parts: list[bytes] = []

    def send() -> None:
        try:
            stdin.write(question)
            stdin.close()
        except OSError:
            pass  # it died; its exit says how

    threads = [
        threading.Thread(target=send, daemon=True),
        threading.Thread(target=lambda: parts.append(stdout.read()), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        raise SimulationTimedOut(
            f"the packet simulation was stopped after {timeout_s:g} s: give it more time, or less to do "
            "(fewer or smaller flows, a larger payload_bytes)"
        ) from None
    for thread in threads:
        thread.join(timeout=5)
    return b"".join(parts)


def _understand(code: int, answer: bytes, said: _Said) -> dict[str, Any]:
    try:
        document = json.loads(answer)
    except ValueError:
        document = None
    if code == 0 and isinstance(document, dict):
        return document
    if code in (INVALID, UNAVAILABLE) and isinstance(document, dict) and "error" in document:
        error = document["error"]
        if code == UNAVAILABLE:
            raise ValidationUnavailable(error["message"])
        raise InvalidScenario([Offence(o["pointer"], o["message"], o["value"]) for o in error["offences"]])
    raise _crash(code, said)


def _crash(code: int, said: _Said) -> SimulationCrashed | ValidationUnavailable:
    how = f"exit code {code}" if code >= 0 else f"signal {_signal_name(-code)}"
    if not said.ready and code != -signal.SIGKILL:
        # Cling dies without a word when it finds no C++ standard headers.
        return ValidationUnavailable(
            f"ns-3 could not be loaded ({how}): check that g++ and its headers are installed "
            f"(Debian, Ubuntu: apt-get install g++). {said.last_words}".strip()
        )
    cure = "out of memory? give it more, or fewer flows" if code == -signal.SIGKILL else "please report it"
    return SimulationCrashed(f"the packet simulator died ({how}; {cure}). {said.last_words}".strip())


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
