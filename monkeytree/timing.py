"""When the moves of a plan happen and how long jobs pause for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from .placement import Arrangement, Degrees, degrees
from .plan import Move, Transient
from .problem import wire_seconds
from .realise import RankMove, free_slots
from .snapshot import Snapshot
from .waves import Transfer, schedule_waves


def timed_moves(snapshot: Snapshot, moves: Sequence[RankMove]) -> tuple[Move, ...]:
    """The moves with their waves, by wave and then in snapshot order."""
    occupied: Counter[str] = Counter()
    for _, group in snapshot.groups:
        for node in group.workers:
            occupied[node] += group.slots_per_worker
    transfers = []
    for move in moves:
        job, group = snapshot.groups[move.group]
        together = job.mobility == "restart"
        transfers.append(Transfer(job.id, move.source, move.target, group.slots_per_worker, together))
    schedule = schedule_waves(transfers, free_slots(snapshot, occupied))
    timed = []
    for move, slot in zip(moves, schedule, strict=True):
        job, group = snapshot.groups[move.group]
        timed.append(Move(job.id, group.id, move.rank, move.source, move.target, slot.wave, slot.staged))
    return tuple(sorted(timed, key=lambda move: move.wave))


def pause_seconds(snapshot: Snapshot, moves: Sequence[Move], reordered: Sequence[str]) -> float:
    """Sum over jobs and waves of the pause; see contract section 2, ``pause_s``.

    Args:
        reordered: ids of jobs that pause only because a ring of theirs changes.
    """
    return sum(pauses_by_job(snapshot, moves, reordered).values())


def pauses_by_job(snapshot: Snapshot, moves: Sequence[Move], reordered: Sequence[str]) -> dict[str, float]:
    """Seconds each paused job stands still, all its waves together; see :func:`pause_seconds`."""
    planning = snapshot.planning
    wire_s = {(job.id, group.id): wire_seconds(snapshot, group) for job, group in snapshot.groups}
    restarts = {job.id for job in snapshot.jobs if job.mobility == "restart"}
    longest: dict[tuple[str, int], float] = defaultdict(float)
    for move in moves:
        key = (move.job, 0 if move.job in restarts else move.wave)
        longest[key] = max(longest[key], wire_s[move.job, move.group])
    pauses: dict[str, float] = defaultdict(float)
    for (job, _), wire in longest.items():
        pauses[job] += planning.restart_s if job in restarts else planning.pause_overhead_s + wire
    pauses.update(dict.fromkeys(reordered, planning.pause_overhead_s))
    return dict(pauses)


def transients(
    snapshot: Snapshot,
    moves: Sequence[Move],
    before: Arrangement,
    after: Arrangement,
    known: tuple[Degrees, Degrees] | None = None,
) -> tuple[Transient, ...]:
    """Leaves that after some wave are over both their bound and their degree before the plan.

    A group's new order holds from the wave of its first move, an unmoved group's from wave 0.

    Args:
        known: degrees before and after, where they have been computed.
    """
    degrees_before, degrees_after = known or (degrees(snapshot, before), degrees(snapshot, after))
    start, end = degrees_before.racks, degrees_after.racks
    index = {(job.id, group.id): at for at, (job, group) in enumerate(snapshot.groups)}
    bound = {rack.id: snapshot.bound(rack) for rack in snapshot.racks}
    moved = {index[move.job, move.group] for move in moves}
    nodes = [list(places) for places in before.nodes]
    orders = [before.orders[at] if at in moved else after.orders[at] for at in range(len(before.orders))]
    found: list[Transient] = []
    last = max((move.wave for move in moves), default=-1)
    for wave in range(last + 1):
        for move in moves:
            if move.wave == wave:
                at = index[move.job, move.group]
                nodes[at][move.rank] = move.target
                orders[at] = after.orders[at]
        if wave == last:
            loads = end
        else:
            now = Arrangement(tuple(tuple(places) for places in nodes), tuple(orders))
            loads = degrees(snapshot, now).racks
        for (rack, rail), load in sorted(loads.items()):
            if load > bound[rack] and load > start.get((rack, rail), 0):
                found.append(Transient(rack, rail, wave, load))
    return tuple(found)
