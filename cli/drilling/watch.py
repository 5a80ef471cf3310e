"""Kills an actor of a move as soon as the move is in a given state."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from monkeytree.wire.agents import MOVE_STATES

ACTORS = (
    "destination",  # the process that takes the rank over
    "source-agent", "destination-agent", "other-agent",  # the last one hosts ranks that stay
    "source-mover", "destination-mover",
    "controller",
)  # fmt: skip
STATES = MOVE_STATES[:-1]


@dataclass(frozen=True, slots=True)
class Kill:
    """``WHO@STATE``."""

    who: str
    state: str

    @classmethod
    def read(cls, text: str) -> Kill:
        """From the command line.

        Raises:
            ValueError: no such actor or state.
        """
        who, _, state = text.partition("@")
        if who not in ACTORS or state not in STATES:
            raise ValueError(
                f"{text!r} is not WHO@STATE with WHO one of {', '.join(ACTORS)} "
                f"and STATE one of {', '.join(STATES)}"
            )
        return cls(who, state)

    def __str__(self) -> str:
        return f"{self.who}@{self.state}"


def matrix() -> list[Kill]:
    """Every actor at every state in which there is one."""
    kills = [Kill(who, state) for state in STATES for who in ACTORS]
    return [kill for kill in kills if _lives(kill)]


def _lives(kill: Kill) -> bool:
    """The movers and the standby come with PREPARING and leave with RELEASED.

    From then on the destination is the worker: who kills it kills the job, migration or not.
    """
    place = STATES.index(kill.state)
    if kill.who == "destination":
        return 1 <= place < len(STATES) - 1
    if kill.who == "destination-mover":
        return place >= 1
    return kill.who != "source-mover" or 2 <= place < len(STATES) - 1


def reached(states: Mapping[str, str], wanted: str) -> bool:
    """Whether one side has come to the state, or passed it."""
    order = [str(state) for state in MOVE_STATES]
    place = order.index(wanted)
    return any(state != "ABORTED" and order.index(state) >= place for state in states.values())


def shoot(find: Callable[[], int | None]) -> int | None:
    """SIGKILL the process that ``find`` names; its id, None where there is none."""
    pid = find()
    if pid is not None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return None
    return pid
