"""Who is in the job, as its ranks agree on it, and what a worker hands over when it moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .arena import Arena


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker's state at an iteration boundary.

    Attributes:
        arena: where parameters, optimizer state and the like lie; the same arena at every call.
        extras: the small rest as bytes (RNG, data loader, step), at most 64 MB.
    """

    arena: Arena
    extras: bytes


@dataclass(frozen=True, slots=True)
class Member:
    """A rank and the node that holds it."""

    group: str
    rank: int
    node: str

    @property
    def id(self) -> str:
        """``GROUP/RANK``: names it in the job's store."""
        return f"{self.group}/{self.rank}"


@dataclass(frozen=True, slots=True)
class Membership:
    """What ``rebind_fn`` re-forms the communicator with. All members get an equal one.

    Attributes:
        epoch: of the pause that made it.
        attempt: 0 for the first re-form of the epoch, 1 for the one that takes it back; more where a worker
            that came home from a parked state ended in its first iteration, and another one came.
        step: the boundary at which the job paused: iterations finished so far.
        members: all ranks, sorted by group and rank.
        orders: ring order by group, of the groups whose order is known to differ from by-rank.
        timeout_s: within this ``rebind_fn`` must return, or raise.
    """

    epoch: int
    attempt: int
    step: int
    members: tuple[Member, ...]
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    timeout_s: float = 60.0

    @property
    def name(self) -> str:
        """Differs for every re-form of the job: use it as the prefix of the rendezvous."""
        return f"{self.epoch}.{self.attempt}"

    @property
    def undo_key(self) -> str:
        """Key of the job's store: once ``undo`` stands there, some member will not come. A ``rebind_fn`` that
        looks there while it waits, and raises, does not wait in vain."""
        return f"{keys_of(self.epoch, self.attempt)}probation"


def keys_of(epoch: int, attempt: int) -> str:
    """What the keys of a re-form, and of the first iteration after it, begin with."""
    return f"monkeytree/{epoch}/" + (f"home{attempt}/" if attempt else "")
