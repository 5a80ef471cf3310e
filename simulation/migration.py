"""A plan being carried out: each job stops at the end of an iteration, its workers move, it goes on.

As the authors simulate it: a job waits until those that hold its target servers have stopped too, so that
swaps work; then one flow per moved GPU crosses the fabric with all others; after the last byte the job
pauses and starts again on its new servers. Until all is done, nobody else gets a server: the targets of
the plan are reserved from its acceptance on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .fabrics import Fabric
from .mix import GPUS_PER_BLOCK
from .planning import Change
from .program import SEND, wire_us
from .running import Demand, Running, Wiring

_TRANSFERS = 10**9
"""Transfers are numbered from here, by their job."""


class Movement:
    """The jobs of one plan on their way.

    Args:
        state_bytes: of each GPU of a job's block rank.
    """

    def __init__(
        self,
        changes: Sequence[Change],
        begun_us: int,
        plan_index: int,
        state_bytes: Callable[[Running, int], int],
    ) -> None:
        self.begun_us = begun_us
        self.plan_index = plan_index
        self._state_bytes = state_bytes
        self._changes = {change.job.number: change for change in changes}
        self._at_barrier: set[int] = set()
        self._waiting = dict(self._changes)

    @property
    def over(self) -> bool:
        """Whether all jobs run again."""
        return not self._changes

    def change(self, job: Running) -> Change | None:
        """What happens to ``job``; None if it is not, or no longer, of the plan."""
        return self._changes.get(job.number)

    def drop(self, job: Running) -> None:
        """The job has ended, or runs again."""
        self._changes.pop(job.number, None)
        self._waiting.pop(job.number, None)

    def at_barrier(self, job: Running) -> None:
        """The job has stopped."""
        self._at_barrier.add(job.number)

    def ready(self) -> list[Change]:
        """Jobs that may move now: stopped, and nobody who still runs holds their targets."""
        held = {
            block: number
            for number, change in self._changes.items()
            if number not in self._at_barrier
            for block in change.job.blocks
        }
        found = [
            change
            for number, change in self._waiting.items()
            if number in self._at_barrier and not any(target in held for _, _, target in change.moves)
        ]
        for change in found:
            del self._waiting[change.job.number]
        return found

    def transfer(self, change: Change, fabric: Fabric, nic_gbps: float) -> Running:
        """The state of a job under way: a lane of its own for each moved server."""
        job = change.job
        carrier = Running(_TRANSFERS + job.number, None, job.gpus, 1)
        demands: list[Demand] = []
        sends = []
        for rank, source, target in change.moves:
            indices = []
            for gpu in range(GPUS_PER_BLOCK):
                here, there = source * GPUS_PER_BLOCK + gpu, target * GPUS_PER_BLOCK + gpu
                ends = fabric.ends(here, there)
                if ends is not None:
                    indices.append(len(demands))
                    demands.append(Demand(here, there, *ends, False))
            sends.append(tuple(indices))
            state = self._state_bytes(job, rank)
            carrier.bits.append(8 * state)
            carrier.wire_us.append(wire_us(state, nic_gbps))
        carrier.wiring = Wiring(tuple(demands), tuple(sends))
        carrier.lanes = [((SEND, number),) for number in range(len(sends))]
        carrier.at_line_rate = not demands
        return carrier


def carried_job(carrier: Running) -> int:
    """Number of the job whose state ``carrier`` is."""
    return carrier.number - _TRANSFERS
