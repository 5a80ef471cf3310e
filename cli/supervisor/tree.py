"""A small process tree: start in order, keep alive, stop in reverse; nothing outlives it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO

from .child import Child, Spec


class ChildFailed(Exception):
    """A child ended while the tree was still starting; the message names it and its exit code."""


class Tree:
    """Runs children given as specs. All calls must come from one thread, the main one."""

    def __init__(self, output: IO[bytes] | None = None, say: Callable[[str], None] = lambda _: None) -> None:
        """``output`` takes what the children print (None: our standard error); ``say`` hears of restarts."""
        self._output = output
        self._say = say
        self._children: list[Child] = []
        self._warden: subprocess.Popen[bytes] | None = None

    def start(self, spec: Spec) -> Child:
        """Start one more child."""
        if self._warden is None:
            self._warden = _start_warden()
        child = Child(spec, self._output, self._tell_warden)
        self._children.append(child)
        child.start()
        return child

    def wait_until(self, ready: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for ``ready``.

        Raises:
            ChildFailed: a child ended meanwhile, or ``seconds`` passed.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            for child in self._children:
                code = child.poll()
                if code is not None:
                    raise ChildFailed(f"{child.spec.name} ended at its start with {_in_words(code)}")
            if time.monotonic() > deadline:
                raise ChildFailed(f"{what} was not ready after {seconds:g} s")
            time.sleep(0.05)

    def tick(self) -> None:
        """Notice crashes and start again what is due; call it a few times a second."""
        for child in self._children:
            code = child.poll()
            if code is not None:
                self._say(f"{child.spec.name} ended with {_in_words(code)}, starting it again")
            if child.due:
                child.restarts += 1
                child.start()
        if self._warden is not None and self._warden.poll() is not None:
            self._warden = _start_warden()
            for pid in [child.pid for child in self._children if child.pid is not None]:
                self._tell_warden("+", pid)

    @property
    def children(self) -> Sequence[Child]:
        """In the order they were started."""
        return tuple(self._children)

    def stop(self) -> None:
        """Stop the first child (on which the others rest) last, the others together."""
        for together in (self._children[1:], self._children[:1]):
            _stop_together(together)
        self._children.clear()
        if self._warden is not None and self._warden.stdin is not None:
            self._warden.stdin.close()
            self._warden.wait()
            self._warden = None

    def _tell_warden(self, sign: str, group: int) -> None:
        if self._warden is not None and self._warden.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # tick() starts another
                self._warden.stdin.write(f"{sign}{group}\n".encode())
                self._warden.stdin.flush()


def _start_warden() -> subprocess.Popen[bytes]:
    # Not on the leash: it must outlive us for the moment it takes to kill the groups. It is deaf to
    # signals once it runs, and ends when its pipe does.
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.warden"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _stop_together(children: Sequence[Child]) -> None:
    """Send each child its stop signals in turn, with the seconds it is given, then SIGKILL."""
    rounds = max((len(child.spec.stops) for child in children), default=0)
    for turn in range(rounds):
        begun = time.monotonic()
        asked = [child for child in children if turn < len(child.spec.stops)]
        for child in asked:
            child.signal(child.spec.stops[turn][0])
        for child in asked:
            child.wait(child.spec.stops[turn][1] - (time.monotonic() - begun))
    for child in children:
        child.kill()


def _in_words(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
