"""Puts the transfers of a plan into waves (docs/contract.md, section 2, "Waves")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .budget import Budget
from .exact import LARGEST, schedule_exactly
from .greedy import schedule_greedily
from .model import Scheduled, Transfer, Unit, count_unstaged, find_units, total_by_node
from .timeline import Timeline

LARGEST_SEARCHED = 400


def schedule_waves(transfers: Sequence[Transfer], free: Mapping[str, int]) -> tuple[Scheduled, ...]:
    """Choose the wave of each transfer: fewest staged, then fewest (job, wave) pairs, then fewest waves.

    In a wave all sources release, then all transfers land; after it no node holds more than its
    slots. A transfer is unstaged when its slot was free before the wave; where not all landings on
    a node fit, the smallest are unstaged, which makes the staged ones fewest.

    Facts the search rests on (a *cluster of moves*: nodes joined by transfers):

    - All in one wave is always possible, because the final placement fits.
    - Slots free in a cluster of moves never change in number. Where there are none, as with a swap
      or a 3-cycle on full nodes, nobody can go first: all its transfers are staged, whatever the
      order.
    - One free slot is enough to run a cluster of moves of equal slots without staging, one transfer
      after the other; the greedy order of :mod:`.greedy` always finds it.

    Clusters of moves that are joined by a job are decided together: exactly up to a dozen
    transfers, beyond that greedily with local improvement.

    Args:
        free: usable free slots of each node before anything moves.

    Returns:
        one entry a transfer, in the order given; waves count from 0 without gaps.

    Raises:
        ValueError: when a node's final load exceeds its slots, a node is missing from ``free``, a
            transfer has no slots or stays on its node.
    """
    _refuse_impossible(transfers, free)
    waves = [0] * len(transfers)
    units = find_units(transfers)
    landing = total_by_node(transfers)
    tight = {node for node, slots in landing.items() if slots > free[node]}
    budget = Budget()
    bound: list[Unit] = []
    loose: list[Unit] = []
    for unit in units:
        nodes = (node for i in unit.members for node in (transfers[i].source, transfers[i].target))
        (loose if tight.isdisjoint(nodes) else bound).append(unit)
    for cluster in _clusters(transfers, bound, tight, by_job=True):
        timeline = _schedule_heuristically(transfers, cluster, free, tight, budget)
        better = schedule_exactly(transfers, cluster, free, tight, timeline.cost, budget)
        for unit, wave in (better or timeline.compact()).items():
            for member in unit.members:
                waves[member] = wave
    _join_loose(waves, loose, bound)
    return _mark_staged(transfers, free, _close_gaps(waves))


def _schedule_heuristically(
    transfers: Sequence[Transfer],
    cluster: Sequence[Unit],
    free: Mapping[str, int],
    tight: set[str],
    budget: Budget,
) -> Timeline:
    parts = _clusters(transfers, cluster, tight, by_job=False)
    timeline = Timeline(transfers, free)
    for part in parts:
        timeline.place_all(schedule_greedily(transfers, part, free))
    timeline.improve(parts, budget)
    if LARGEST < len(cluster) <= LARGEST_SEARCHED and timeline.cost[1] > len({u.job for u in cluster}):
        timeline.wander(budget)
        timeline.improve(parts, budget)
        earlier = _run_blocks_early(transfers, timeline, free)
        return min(timeline, earlier, key=lambda found: found.cost)
    return timeline


def _run_blocks_early(transfers: Sequence[Transfer], timeline: Timeline, free: Mapping[str, int]) -> Timeline:
    """The same pauses in fewer waves: each job's transfers of one wave as a unit, as early as they fit."""
    waves = schedule_greedily(transfers, timeline.blocks(), free)
    wave_of = {member: wave for block, wave in waves.items() for member in block.members}
    earlier = Timeline(transfers, free)
    earlier.place_all({unit: wave_of[unit.members[0]] for unit in timeline.wave})
    return earlier


def _refuse_impossible(transfers: Sequence[Transfer], free: Mapping[str, int]) -> None:
    final = dict(free)
    for transfer in transfers:
        for node in (transfer.source, transfer.target):
            if node not in final:
                raise ValueError(f"node {node!r} of a transfer is missing from free")
        if transfer.slots < 1 or transfer.source == transfer.target:
            raise ValueError(f"a transfer needs slots and two nodes, got {transfer!r}")
        final[transfer.source] += transfer.slots
        final[transfer.target] -= transfer.slots
    for node, slots in final.items():
        if slots < 0:
            raise ValueError(f"the final placement does not fit on node {node!r}: {-slots} slots too many")


def _clusters(
    transfers: Sequence[Transfer], units: Sequence[Unit], tight: set[str], *, by_job: bool
) -> list[list[Unit]]:
    """Units joined by a node where slots are short, directly or through others; also by job if asked."""
    parent = list(range(len(units)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first: dict[tuple[str, str], int] = {}
    for index, unit in enumerate(units):
        keys = {
            ("node", node)
            for member in unit.members
            for node in (transfers[member].source, transfers[member].target)
            if node in tight
        }
        if by_job:
            keys.add(("job", unit.job))
        for key in keys:
            parent[root(index)] = root(first.setdefault(key, index))
    clusters: dict[int, list[Unit]] = {}
    for index, unit in enumerate(units):
        clusters.setdefault(root(index), []).append(unit)
    return list(clusters.values())


def _join_loose(waves: list[int], loose: Sequence[Unit], bound: Sequence[Unit]) -> None:
    """Transfers that no slot holds up run along with their job's first others, else in wave 0."""
    first: dict[str, int] = {}
    for unit in bound:
        wave = waves[unit.members[0]]
        first[unit.job] = min(wave, first.get(unit.job, wave))
    for unit in loose:
        for member in unit.members:
            waves[member] = first.get(unit.job, 0)


def _close_gaps(waves: Sequence[int]) -> list[int]:
    number = {wave: position for position, wave in enumerate(sorted(set(waves)))}
    return [number[wave] for wave in waves]


def _mark_staged(
    transfers: Sequence[Transfer], free: Mapping[str, int], waves: Sequence[int]
) -> tuple[Scheduled, ...]:
    room = dict(free)
    staged = [False] * len(transfers)
    by_wave: dict[int, list[int]] = {}
    for index, wave in enumerate(waves):
        by_wave.setdefault(wave, []).append(index)
    for _, indices in sorted(by_wave.items()):
        landings: dict[str, list[int]] = {}
        for index in sorted(indices, key=lambda index: (transfers[index].slots, index)):
            landings.setdefault(transfers[index].target, []).append(index)
        for node, landing in landings.items():
            fitting = count_unstaged([transfers[index].slots for index in landing], room[node])
            for index in landing[fitting:]:
                staged[index] = True
        for index in indices:
            room[transfers[index].source] += transfers[index].slots
            room[transfers[index].target] -= transfers[index].slots
    return tuple(Scheduled(wave, late) for wave, late in zip(waves, staged, strict=True))
