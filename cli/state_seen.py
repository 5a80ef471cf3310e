"""What the agents of a job's nodes know of one move: attempts at it, the job's workers, where the worker is.

Nothing is kept between two runs of a command. Attempts at a move are numbered, and the agents of its two
nodes tell the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Literal, TypeVar

from monkeytree.adapters.agents import Agent
from monkeytree.errors import MonkeyTreeError
from monkeytree.wire.agents import MoveStatus, WorkerStatus
from monkeytree.workers.insisting import Patience, Trouble, insist

from .agent_book import Book

Answer = TypeVar("Answer")
Places = dict[tuple[str, int], tuple[str, WorkerStatus]]
"""Node of each worker of the job, and what its agent tells of it, by group and rank."""
Where = Literal["target", "source", "unbegun", ""]

MEMBERS = ("training", "paused", "parked")
GAP = 3
"""An attempt that was refused at the source is known at the target only; so many in a row are looked past."""
AT_ONCE = 32
BETWEEN_S = 0.5
FOR_EVER_S = 1e9


class NotMoved(MonkeyTreeError):
    """The worker is at its source, and its job goes on there; the message begins with the reason's code."""

    code = "state_not_moved"


@dataclass(frozen=True, slots=True)
class Errand:
    """A move that is asked for.

    Attributes:
        name: of the move, the same each time it is asked for and no other move's.
        nodes: of the job before the move.
        orders: ring order of groups of the job after it.
        pause_s: longest pause of the job.
        patience_s: how long an agent that does not answer is waited for.
    """

    name: str
    plan: str
    job: str
    group: str
    rank: int
    source: str
    target: str
    nodes: tuple[str, ...]
    orders: Mapping[str, tuple[int, ...]]
    transport: str = "stream"
    pause_s: float = 60.0
    patience_s: float = 30.0

    @property
    def who(self) -> tuple[str, int]:
        """Group and rank."""
        return self.group, self.rank

    @property
    def words(self) -> str:
        """The worker, for people."""
        return f"rank {self.rank} of group {self.group!r} of job {self.job!r}"

    def is_of(self, status: MoveStatus) -> bool:
        """Whether ``status`` is of this move, and not of another one that was given its name."""
        mine = (self.job, self.group, self.rank, self.source, self.target)
        return mine == (status.job, status.group, status.rank, status.source, status.target)

    def attempt_id(self, number: int) -> str:
        """What the ids of an attempt's move and pause begin with."""
        return f"{self.name}-t{number}"

    def move_id(self, number: int) -> str:
        """Of an attempt's move, at both agents."""
        return self.attempt_id(number) + "-m0"

    def pause_id(self, number: int) -> str:
        """Of an attempt's pause."""
        return self.attempt_id(number) + "-p0"


class Seen:
    """Asks the agents; ``quick_s`` is how long they are waited for where not all need to answer."""

    def __init__(self, errand: Errand, book: Book, quick_s: float = 3.0) -> None:
        self.errand = errand
        self.book = book
        self.quick_s = quick_s

    def ask(self, node: str, call: Callable[[Agent], Answer], patience_s: float | None = None) -> Answer:
        """The answer of an agent.

        Raises:
            Trouble: it refused, or did not answer for ``patience_s`` (by default the errand's).
        """
        patience = Patience(self.errand.patience_s if patience_s is None else patience_s)
        found: Answer = insist(lambda: self.book.agent(node), call, patience, monotonic() + FOR_EVER_S)
        return found

    def last_attempt(self, node: str, patience_s: float | None = None) -> tuple[int, MoveStatus | None]:
        """Number of the last attempt that the agent of ``node`` knows (0: none), and how it stands there.

        Raises:
            Trouble, NotMoved.
        """
        last: tuple[int, MoveStatus | None] = (0, None)
        number = 1
        while number <= last[0] + GAP:
            status = self._status(node, number, patience_s)
            last = last if status is None else (number, status)
            number += 1
        return last

    def _status(self, node: str, number: int, patience_s: float | None) -> MoveStatus | None:
        move_id = self.errand.move_id(number)
        status = self._found(node, lambda agent: agent.move(move_id), patience_s)
        if status is not None and not self.errand.is_of(status):
            raise NotMoved(
                f"name_taken: {self.errand.name} was rank {status.rank} of group {status.group!r} of job "
                f"{status.job!r} from {status.source} to {status.target}; give this move a plan or number of "
                "its own"
            )
        return status

    def _found(
        self, node: str, call: Callable[[Agent], Answer], patience_s: float | None = None
    ) -> Answer | None:
        try:
            return self.ask(node, call, patience_s)
        except Trouble as trouble:
            if trouble.reason == "not_found":
                return None
            raise

    def places(self) -> Places:
        """All workers of the job; agents and workers that have just started are waited for.

        Raises:
            Trouble: some agent does not answer, or workers are missing.
        """
        ends = monotonic() + self.errand.patience_s
        while True:
            found = self._told()
            missing = self._missing(found)
            if missing is None:
                return found
            if monotonic() > ends:
                raise missing
            sleep(BETWEEN_S)

    def _told(self) -> Places:
        errand = self.errand
        others = sorted({*errand.nodes} - {errand.source, errand.target})
        nodes = [errand.target, *others, errand.source]  # the source last: while it has the rank, it counts
        with ThreadPoolExecutor(max_workers=min(AT_ONCE, len(nodes))) as pool:
            answers = list(pool.map(lambda node: self.ask(node, lambda agent: agent.workers()), nodes))
        found: Places = {}
        for node, answer in zip(nodes, answers, strict=True):
            for worker in answer.workers:
                if worker.job == errand.job and worker.state in MEMBERS:
                    found[worker.group, worker.rank] = node, worker
        return dict(sorted(found.items()))

    def _missing(self, places: Places) -> Trouble | None:
        errand = self.errand
        if errand.who not in places:
            why = "do its workers register with the agents of their nodes?"
            return Trouble("unknown_worker", f"no agent of the job's nodes tells of {errand.words}: {why}")
        size = places[errand.who][1].world_size
        if len(places) != size:
            return Trouble("wrong_members", f"agents tell of {len(places)} of the {size} workers of the job")
        return None

    def where(self) -> Where:
        """Where the worker is for good; "" while that is open, or cannot be asked.

        The source's agent alone can tell that nothing will land: its pause is told by its ranks, and where
        these were never armed, or say that it was aborted, they train on as they were. And what the target's
        agent has never heard of did not land there.
        """
        errand = self.errand
        try:
            number, status = self.last_attempt(errand.source, self.quick_s)
            if status is not None and status.state == "RELEASED":
                return "target"
            if (status is not None and not status.final) or self._pause_is_open(number):
                return ""
            at_source: bool | None = self._trains(errand.source)
            if at_source:
                return "source"
        except Trouble:
            at_source = None
        try:
            number, status = self.last_attempt(errand.target, self.quick_s)
            if status is not None and status.state == "RELEASED":
                return "target"
            if number == 0:  # or it was long ago: agents forget
                return "target" if self._trains(errand.target) else "unbegun"
            return "target" if at_source is False and self._trains(errand.target) else ""
        except Trouble:
            return ""

    def _trains(self, node: str) -> bool:
        told = self.ask(node, lambda agent: agent.workers(), self.quick_s)
        return any(
            (worker.job, worker.group, worker.rank) == (self.errand.job, *self.errand.who)
            and worker.state in ("training", "paused")
            for worker in told.workers
        )

    def _pause_is_open(self, number: int) -> bool:
        pause_id = self.errand.pause_id(number)
        found = self._found(self.errand.source, lambda agent: agent.pause(pause_id), self.quick_s)
        return found is not None and not found.final
