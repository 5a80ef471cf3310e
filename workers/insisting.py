"""A call to an agent, made again and again while the agent is away or full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TypeVar

from monkeytree.adapters.agents import Agent, AgentRefused, AgentUnreachable
from monkeytree.errors import MonkeyTreeError

Answer = TypeVar("Answer")

PAUSE_S = 0.25
#: Longest look at an agent: shorter ones notice a dead one sooner.
LOOK_S = 5.0


class Trouble(MonkeyTreeError):
    """A unit cannot go on; ``reason`` is the code of the cause."""

    code = "move_failed"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Patience:
    """How long agents are waited for beyond what the moves' own deadlines allow, seconds."""

    answer_s: float
    between_s: float = PAUSE_S


def never() -> bool:
    """Nobody asks for an end."""
    return False


def insist(
    agent: Callable[[], Agent],
    call: Callable[[Agent], Answer],
    patience: Patience,
    deadline: float,
    halted: Callable[[], bool] = never,
) -> Answer:
    """The answer of ``call``.

    Args:
        agent: finds the agent, anew for each try: one that was started again may be elsewhere.
        deadline: on the clock of ``time.monotonic``.
        halted: whether to wait no longer for an agent that does not answer.

    Raises:
        Trouble: it was refused for good, or ``patience`` or ``deadline`` is over.
    """
    until = min(monotonic() + patience.answer_s, deadline)
    while True:
        wait_s = patience.between_s
        try:
            return call(agent())
        except AgentUnreachable as error:
            trouble = Trouble("agent_unreachable", str(error))
        except AgentRefused as error:
            trouble = Trouble(error.reason, str(error))
            if error.status != 429 and error.status < 500:
                raise trouble from None
            wait_s = max(wait_s, error.retry_after_s or 0.0)
        if monotonic() + wait_s > until or halted():
            raise trouble
        sleep(wait_s)
