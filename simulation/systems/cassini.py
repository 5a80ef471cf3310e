"""Time shifts after CASSINI (NSDI 2024): jobs on the same links take turns to send.

Paths are those of ECMP. A job that comes to share links with others has its next iteration put off by the
part of its period, of ``ANGLES`` tried, at which its all-reduces overlap least with theirs over the next
``HORIZON`` of its iterations, each link counted. Periods are those without congestion, an iteration is
taken to compute first and send last. What we leave out of CASSINI: choosing among placements, and
correcting drift between changes; with periods that do not divide each other the gain is small.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..program import ideal_iteration_us
from ..running import Running
from .ecmp import Ecmp

ANGLES = 24
HORIZON = 8


class Cassini(Ecmp):
    """ECMP with time shifts."""

    def __init__(self, seed: int = 42) -> None:
        super().__init__(seed)
        self._shifted: dict[int, frozenset[int]] = {}

    def shift(self, jobs: Sequence[Running], now: int, nic_gbps: float) -> None:
        """See :class:`~.protocol.Shifter`: jobs whose set of neighbours grew are shifted, in order."""
        sharing = [job for job in jobs if job.kind is not None and not job.alone]
        for job in sharing:
            near = [other for other in sharing if other is not job and other.hot & job.hot]
            numbers = frozenset(other.number for other in near)
            if numbers <= self._shifted.get(job.number, frozenset()):
                continue
            self._shifted[job.number] = numbers
            settled = [other for other in near if other.number in self._shifted]
            if settled:
                job.hold_us = _best_hold(job, settled, now, nic_gbps)


def _best_hold(job: Running, others: Sequence[Running], now: int, nic_gbps: float) -> int:
    period, sends = _rhythm(job, nic_gbps)
    start = max(now, job.began + period) if job.position else now
    trains = []
    for other in others:
        length, busy = _rhythm(other, nic_gbps)
        trains.append((other.began, length, busy, len(other.hot & job.hot)))
    best, least = 0, None
    for angle in range(ANGLES):
        hold = period * angle // ANGLES
        overlap = 0
        for turn in range(HORIZON):
            end = start + hold + (turn + 1) * period
            overlap += sum(
                weight * _overlap(end - sends, end, began, length, busy)
                for began, length, busy, weight in trains
            )
        if least is None or overlap < least:
            best, least = hold, overlap
    return best


def _overlap(begin: int, end: int, began: int, period: int, busy: int) -> int:
    """Microseconds of [begin, end) in which a train that sends for the last ``busy`` of each period sends."""

    def sent_by(instant: int) -> int:
        turns, rest = divmod(instant - began, period)
        return turns * busy + max(0, rest - (period - busy))

    return sent_by(end) - sent_by(begin)


def _rhythm(job: Running, nic_gbps: float) -> tuple[int, int]:
    """Period and time on the wire of the all-reduce, without congestion."""
    assert job.kind is not None
    return ideal_iteration_us(job.kind, job.gpus, nic_gbps), job.wire_us[-1]
