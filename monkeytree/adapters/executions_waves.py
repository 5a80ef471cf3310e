"""What a wave of an execution consists of, from the plan's snapshot and the steps so far: pure functions.

Both a dry run and the worker ask here, and so does a worker that takes up what another began: rounds rest
only on what became of earlier waves, so they come out the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from monkeytree.snapshot import Snapshot

from .executions_calls import Scene
from .executions_match import Rank, free_slots, placement
from .executions_order import Orders, orders_in_wave
from .executions_rows import Step
from .executions_schedule import Round, Unit, schedule_wave


@dataclass(frozen=True, slots=True)
class Script:
    """What an execution is about: the same for all its waves.

    Attributes:
        planned: the plan's snapshot.
        orders: new ring orders of the plan.
        pause_s: longest pause for one turn of transfers.
        ports: UDP source port of each transfer that is steered, by step number.
    """

    execution_id: str
    plan_id: str
    planned: Snapshot
    orders: Orders
    pause_s: float
    transport: str
    ports: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wave:
    """Rounds of units, and steps that cannot be done since others before them were not."""

    rounds: tuple[Round, ...]
    impossible: tuple[int, ...]


def wave_of(planned: Snapshot, steps: Sequence[Step], number: int) -> Wave:
    """The wave, given what became of the steps of earlier ones."""
    before = [step for step in steps if step.wave < number]
    free = free_slots(planned, placement(planned, before))
    mine = [step for step in steps if step.wave == number]
    moves = [step for step in mine if step.kind == "move"]
    dropped = _without_room(moves, free)
    kept = [step for step in moves if step.number not in dropped]
    rounds = schedule_wave([step.transfer() for step in kept], free)
    moving = {step.job for step in kept}
    alone = dict.fromkeys(step.job for step in mine if step.kind == "reorder" and step.job not in moving)
    if alone:  # they use no uplink: any round will do
        units = tuple(Unit((job,)) for job in alone)
        rounds = ((*rounds[0], *units), *rounds[1:]) if rounds else (units,)
    return Wave(rounds, tuple(sorted(dropped)))


def second_try(planned: Snapshot, steps: Sequence[Step], lost: Sequence[Step]) -> Round:
    """The unit that makes ``lost`` steps of one job of a circle once more; none where no slots are free."""
    free = free_slots(planned, placement(planned, steps))
    for job in dict.fromkeys(step.job for step in lost):
        mine = [step.transfer() for step in lost if step.job == job]
        wanted = Counter[str]()
        for move in mine:
            wanted[move.target] += move.slots
        if all(free[node] >= slots for node, slots in wanted.items()):
            return schedule_wave(mine, free)[0]
    return ()


def has_room(planned: Snapshot, steps: Sequence[Step], unit: Unit) -> bool:
    """Whether the slots that ``unit`` counts on are free as the steps stand now."""
    left = Counter(free_slots(planned, placement(planned, steps)))
    by_number = {step.number: step for step in steps}
    moves = [by_number[number] for number in unit.moves]
    for step in moves:
        if step.number in unit.parked:
            left[step.source or ""] += step.slots
        left[step.target or ""] -= step.slots
    warm = Counter(free_slots(planned, placement(planned, steps)))
    for number in unit.warm:
        warm[by_number[number].target or ""] -= by_number[number].slots
    return all(left[step.target or ""] >= 0 for step in moves) and all(
        warm[by_number[number].target or ""] >= 0 for number in unit.warm
    )


def scene_of(
    script: Script, steps: Sequence[Step], wave: int, unit: Unit, epochs: Mapping[str, int]
) -> Scene:
    """The unit with all that its calls follow from; ``steps`` as they were before it began."""
    jobs = set(unit.jobs)
    mine = {
        step.number: step
        for step in steps
        if step.wave == wave and step.job in jobs and (step.kind == "reorder" or step.number in unit.moves)
    }
    places: dict[Rank, str] = {
        rank: node for rank, node in _places(script.planned, steps, mine).items() if rank[0] in jobs
    }
    orders = {job: orders_in_wave(script.orders, tuple(steps), job, wave) for job in unit.jobs}
    return Scene(
        script.execution_id, script.plan_id, unit, mine, epochs, places, orders, script.pause_s,
        script.transport, script.ports,
    )  # fmt: skip


def rehearse(script: Script, steps: Sequence[Step]) -> Iterator[tuple[int, int, Scene]]:
    """Wave, round and scene of every unit, as if all went well; epochs count from 1, which tables have."""
    epochs = Counter(last=int(any(step.kind == "routes" for step in steps)))
    for wave in range(max((step.wave for step in steps), default=-1) + 1):
        so_far = [replace(step, state="done") if step.wave < wave else step for step in steps]
        for number, units in enumerate(wave_of(script.planned, so_far, wave).rounds):
            for unit in units:
                for job in unit.jobs:
                    epochs["last"] += 1
                    epochs[job] = epochs["last"]
                yield wave, number, scene_of(script, so_far, wave, unit, dict(epochs))


def _places(planned: Snapshot, steps: Sequence[Step], mine: Collection[int]) -> dict[Rank, str]:
    return placement(planned, [step for step in steps if step.number not in mine])


def _without_room(moves: Sequence[Step], free: Mapping[str, int]) -> set[int]:
    """Moves left out, the latest of the plan first, until all others fit."""
    kept = {step.number: step for step in moves}
    while True:
        left = Counter(dict(free))
        for step in kept.values():
            left[step.source or ""] += step.slots
            left[step.target or ""] -= step.slots
        short = [number for number, step in kept.items() if left[step.target or ""] < 0]
        if not short:
            return {step.number for step in moves} - kept.keys()
        del kept[max(short)]
