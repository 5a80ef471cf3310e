"""What all steps of an execution share: patience, looks, reservations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from ..client import SlurmClient
from ..errors import SlurmFailed, SlurmUnavailable
from .between import Between
from .hands import Hands
from .journal import Journal
from .names import reservation_name, reservation_prefix
from .refusals import Stop
from .truth import Truth, look, reservations, seconds_until
from .work import Work

Progress = Literal["done", "again", "wait"]
"""After one look and one action: at the end; look again at once; look again a little later."""
POLL_S = 0.25
LONGEST_POLL_S = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds.

    Attributes:
        hold_s: a reservation expires after this unless it is renewed.
        settle_s: for what Slurm does in a moment: end a job's processes, give a node, start a step.
        start_s: for a requeued job to run again.
        patience_s: for a controller that does not answer.
        state_s: for the state command.
    """

    hold_s: float = 600.0
    settle_s: float = 60.0
    start_s: float = 180.0
    patience_s: float = 300.0
    state_s: float = 600.0


@dataclass
class Context:
    """One execution.

    Attributes:
        worker: how a worker is started where its job does not say: by the option, by the site file.
        holds: nodes and owner of each reservation that is needed still, by the move in its name.
    """

    client: SlurmClient
    hands: Hands
    work: Work
    journal: Journal
    between: Between
    worker: tuple[str | None, str | None]
    limits: Limits
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    holds: dict[int, tuple[frozenset[str], str]] = field(default_factory=dict)

    def look(self) -> Truth:
        """Jobs and nodes as they are."""
        return look(self.client)

    def done(self) -> frozenset[int]:
        """Indices of the moves that are done, as the journal says."""
        return frozenset(entry["move"] for entry in self.journal.entries if entry.get("event") == "done")

    def drive(self, advance: Callable[[], Progress]) -> None:
        """Call ``advance`` until it is done; a controller that does not answer is waited for.

        Raises:
            Stop: as ``advance``, and ``slurm_unavailable``.
        """
        silent_since: float | None = None
        pause = POLL_S
        while True:
            try:
                progress = advance()
            except SlurmUnavailable as error:
                now = self.clock()
                if silent_since is None:
                    silent_since = now
                    self.say(f"Slurm does not answer, waiting for it: {error}")
                if now - silent_since > self.limits.patience_s:
                    raise Stop("slurm_unavailable", str(error)) from None
                self.sleep(pause)
                pause = min(2 * pause, LONGEST_POLL_S)
                continue
            silent_since, pause = None, POLL_S
            if progress == "done":
                return
            if progress == "wait":
                self.sleep(POLL_S)

    def once(self, action: Callable[[], object]) -> None:
        """Do one thing that may be done twice, with the same patience."""

        def advance() -> Progress:
            action()
            return "done"

        self.drive(advance)

    def ensure_held(self) -> None:
        """Every destination of a move to come is reserved, for half of ``hold_s`` at least.

        Raises:
            Stop: a reservation was refused.
            SlurmUnavailable: nobody answers.
        """
        try:
            self._hold_all()
        except SlurmUnavailable:
            raise
        except SlurmFailed as error:
            raise Stop("reservation_refused", str(error)) from None

    def _hold_all(self) -> None:
        there = reservations(self.client)
        for move, (nodes, owner) in sorted(self.holds.items()):
            name = reservation_name(self.work.tag, move)
            found = there.get(name)
            if found is None or found.nodes != nodes:
                if found is not None:
                    self.hands.unreserve(name)
                overlap = any(nodes & other for at, (other, _) in self.holds.items() if at != move)
                self.hands.reserve(move, nodes, owner, overlap=overlap)
            elif seconds_until(found.ends) < self.limits.hold_s / 2:
                self.hands.keep(name)

    def let_go(self, moves: Iterable[int]) -> None:
        """Delete these reservations, as far as they are there."""
        there = reservations(self.client)
        for move in moves:
            self.holds.pop(move, None)
            name = reservation_name(self.work.tag, move)
            if name in there:
                self.hands.unreserve(name)

    def left_behind(self) -> list[str]:
        """Names of all reservations of this plan."""
        prefix = reservation_prefix(self.work.tag)
        return [name for name in reservations(self.client) if name.startswith(prefix)]


class Waiting:
    """How long each thing has been waited for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def for_(self, code: str, seconds: float, what: str) -> Progress:
        """Wait on.

        Raises:
            Stop: with ``code``, when that took longer than ``seconds``.
        """
        since = self._since.setdefault(code, self._clock())
        if self._clock() - since > seconds:
            raise Stop(code, what)
        return "wait"
