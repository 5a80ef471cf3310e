"""The controller as a process that can be killed, and the kill itself; both watched from the drill."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from monkeytree.adapters.agents import AgentClient
from monkeytree.errors import MonkeyTreeError

from ..supervisor.leash import leash
from .controller import Controller, Order
from .watch import Kill, reached, shoot

RESTART_S = 0.5
"""How long something that was killed stays away."""


class ControllerProcess:
    """A run of :class:`Controller` in a child; after its death another run goes on with the same order."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._waiting = b""
        self.events: list[dict[str, Any]] = []
        self.result: dict[str, Any] | None = None
        self.error: str | None = None
        self.pid, self._out = self._start()

    def look(self, wait_s: float) -> bool:
        """Take in what it says; False when it has gone."""
        if not select.select([self._out], [], [], wait_s)[0]:
            return True
        part = os.read(self._out, 1 << 16)
        if not part:
            os.close(self._out)
            os.waitpid(self.pid, 0)
            return False
        *lines, self._waiting = (self._waiting + part).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        return True

    def again(self) -> None:
        """Another run, once the first is gone."""
        self._waiting = b""
        self.pid, self._out = self._start()

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            os.close(self._out)

    def _take(self, told: dict[str, Any]) -> None:
        if "result" in told:
            self.result = told["result"]
        elif "error" in told:
            self.error = told["error"]
        else:
            self.events.append(told)

    def _start(self) -> tuple[int, int]:
        out, into = os.pipe()
        bind = leash()
        pid = os.fork()
        if pid:
            os.close(into)
            return pid, out
        status = 1
        try:
            bind()
            os.close(out)
            _run(self._order, into)
            status = 0
        finally:
            os._exit(status)


def _run(order: Order, into: int) -> None:
    """The child: carry out, and tell."""

    def tell(**members: Any) -> None:
        os.write(into, json.dumps(members).encode() + b"\n")

    def said(event: str, **members: Any) -> None:
        tell(event=event, at=time.time(), **members)

    try:
        tell(result=Controller(order, said).carry_out())
    except Exception as error:  # noqa: BLE001  # the parent reports it
        tell(error=f"{type(error).__name__}: {error}")


class Shooting:
    """One kill: waits for the state, shoots, and says what it hit."""

    def __init__(self, kill: Kill, order: Order, find: Callable[[str], int | None]) -> None:
        """``find(who)`` names the process of an actor."""
        self.kill = kill
        self.hit: dict[str, Any] | None = None
        self._find = find
        move = order.scene.move
        self._move_id = f"{order.name}-m0"
        self._sides = {
            node: AgentClient(*order.agents[node], node, timeout_s=2.0) for node in (move.source, move.target)
        }
        self._states: dict[str, str] = {}

    def look(self) -> bool:
        """Shoot if it is time; True when it has just been done."""
        if self.hit is not None:
            return False
        for node, agent in self._sides.items():
            with contextlib.suppress(MonkeyTreeError):  # not made yet
                self._states[node] = agent.move(self._move_id).state
        if not reached(self._states, self.kill.state):
            return False
        pid = shoot(lambda: self._find(self.kill.who))
        if pid is None:
            return False
        self.hit = {
            "who": self.kill.who, "state": self.kill.state, "pid": pid, "at": "/".join(self._states.values()),
        }  # fmt: skip
        return True
