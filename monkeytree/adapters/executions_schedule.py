"""In which order the moves of a wave are carried out: a pure function of the moves and the free slots.

The moves of a job make one *unit*: the job pauses once for all of them. At the pause *direct* moves travel
at once; the others are *parked* (their state waits in the host memory of its node, its slots are free) and
travel after them, in *turns*. Four rules hold:

- what travels at once leaves each rack at most once and enters each rack at most once: no two transfers
  share an uplink of a rack in one direction, whichever uplinks the hashes of the switches pick;
- a direct move goes to slots that are free before the unit (its own come free only when the job trains on);
- a parked one goes to slots that are free then, or freed by parking;
- units of one round share neither a job, nor a node, nor a rack, so that they may run side by side.

Jobs that wait for each other's slots in a circle (swaps on a full cluster) are one unit and pause together.
A chain that ends at free slots is run from that end, one unit after the other, and parks nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transfer:
    """One move of a wave, as far as its order is concerned.

    Attributes:
        number: what callers know it by; lower ones go first where nothing else decides.
        slots: of ``target`` that it takes, and of ``source`` that it frees.
        staged: its slots are freed only in this wave.
        size: what parking costs, such as 10^9 bytes of state.
    """

    number: int
    job: str
    source: str
    target: str
    source_rack: str
    target_rack: str
    slots: int = 1
    staged: bool = False
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class Unit:
    """Jobs that pause together, once, and how their moves of the wave travel; moves by number.

    Attributes:
        direct: travel as soon as the jobs have paused.
        turns: parked moves that travel together after these, turn by turn.
        warm: moves whose slots are free before the pause: their successors can be started then.
    """

    jobs: tuple[str, ...]
    direct: tuple[int, ...] = ()
    turns: tuple[tuple[int, ...], ...] = ()
    warm: frozenset[int] = frozenset()

    @property
    def parked(self) -> frozenset[int]:
        """Moves whose state waits in host memory."""
        return frozenset(number for turn in self.turns for number in turn)

    @property
    def moves(self) -> tuple[int, ...]:
        """All its moves."""
        return tuple(sorted({*self.direct, *self.parked}))


Round = tuple[Unit, ...]


class NoRoom(ValueError):
    """The moves do not fit the free slots, in any order: no wave of a valid plan."""


def schedule_wave(moves: Sequence[Transfer], free: Mapping[str, int]) -> tuple[Round, ...]:
    """Rounds that carry all ``moves`` of one wave out.

    Args:
        free: free slots of nodes before the wave; nodes left out have none.

    Raises:
        NoRoom: some node would hold more than its slots after the wave.
    """
    slots = Counter(dict(free))
    waiting: dict[str, list[Transfer]] = defaultdict(list)
    for move in sorted(moves, key=lambda move: move.number):
        waiting[move.job].append(move)
    rounds: list[Round] = []
    while waiting:
        chosen = _side_by_side(waiting, slots) or [_unit(_circle(waiting), waiting, slots)]
        for unit in chosen:
            for job in unit.jobs:
                for move in waiting.pop(job):
                    slots[move.source] += move.slots
                    slots[move.target] -= move.slots
        rounds.append(tuple(chosen))
    return tuple(rounds)


def _side_by_side(waiting: Mapping[str, list[Transfer]], free: Counter[str]) -> list[Unit]:
    """Units of single jobs that can run now and touch no rack or node in common."""
    chosen: list[Unit] = []
    taken: set[tuple[str, str]] = set()
    for job, moves in waiting.items():
        places = {place for move in moves for place in _places(move)}
        if places & taken:
            continue
        try:
            chosen.append(_unit((job,), waiting, free))
        except NoRoom:  # it waits for the slots of others
            continue
        taken |= places
    return chosen


def _places(move: Transfer) -> Iterable[tuple[str, str]]:
    yield "rack", move.source_rack
    yield "rack", move.target_rack
    yield "node", move.source
    yield "node", move.target


def _circle(waiting: Mapping[str, list[Transfer]]) -> tuple[str, ...]:
    """The smallest set of jobs that wait for no other job's slots."""
    leaving: defaultdict[str, set[str]] = defaultdict(set)
    for job, moves in waiting.items():
        for move in moves:
            leaving[move.source].add(job)
    closures = []
    for job in waiting:
        found, todo = {job}, [job]
        while todo:
            needs = {other for move in waiting[todo.pop()] for other in leaving[move.target]}
            todo += sorted(needs - found)
            found |= needs
        closures.append(tuple(name for name in waiting if name in found))
    return min(closures, key=len)


def _unit(jobs: tuple[str, ...], waiting: Mapping[str, list[Transfer]], free: Counter[str]) -> Unit:
    """The unit of ``jobs`` now, parking as little as a greedy look finds.

    Raises:
        NoRoom: even with all of them parked some do not fit.
    """
    moves = [move for job in jobs for move in waiting[job]]
    room = Counter(free)
    for job, others in waiting.items():
        for move in others:
            # the slots of an unstaged move were free before the wave: it counts on them
            if job not in jobs and not move.staged:
                room[move.target] -= move.slots
    direct = _direct(moves, room)
    while short := _short(moves, direct, room):
        blocking = [move for move in direct if move.source in short]
        if not blocking:
            raise NoRoom(f"no order of the moves fits the free slots of {', '.join(sorted(short))}")
        direct.remove(min(blocking, key=lambda move: (move.size, move.number)))
    parked = [move for move in moves if move not in direct]
    return Unit(
        jobs=jobs,
        direct=tuple(sorted(move.number for move in direct)),
        turns=_turns(parked),
        warm=frozenset(_warm(direct, parked, room)),
    )


def _direct(moves: Sequence[Transfer], room: Counter[str]) -> list[Transfer]:
    """Moves that can travel at the pause, those whose slots were free before the wave first."""
    left, lanes = Counter(room), _Lanes()
    chosen = []
    for move in sorted(moves, key=lambda move: (move.staged, move.number)):
        if left[move.target] >= move.slots and lanes.take(move):
            left[move.target] -= move.slots
            chosen.append(move)
    return chosen


def _short(moves: Sequence[Transfer], direct: Sequence[Transfer], room: Counter[str]) -> set[str]:
    """Nodes that lack slots once the others are parked and all have arrived."""
    left = Counter(room)
    for move in moves:
        left[move.target] -= move.slots
        if move not in direct:
            left[move.source] += move.slots
    return {move.target for move in moves if left[move.target] < 0}


def _turns(parked: Sequence[Transfer]) -> tuple[tuple[int, ...], ...]:
    turns: list[tuple[_Lanes, list[int]]] = []
    for move in sorted(parked, key=lambda move: move.number):
        for lanes, numbers in turns:
            if lanes.take(move):
                numbers.append(move.number)
                break
        else:
            lanes = _Lanes()
            lanes.take(move)
            turns.append((lanes, [move.number]))
    return tuple(tuple(numbers) for _, numbers in turns)


def _warm(direct: Sequence[Transfer], parked: Sequence[Transfer], room: Counter[str]) -> Iterable[int]:
    left = Counter(room)
    for move in (*direct, *parked):
        if left[move.target] >= move.slots:
            left[move.target] -= move.slots
            yield move.number


class _Lanes:
    """Racks that what travels at once leaves and enters; moves inside a rack use no uplink."""

    def __init__(self) -> None:
        self._left: set[str] = set()
        self._entered: set[str] = set()

    def take(self, move: Transfer) -> bool:
        """Whether ``move`` may travel along; it then does."""
        if move.source_rack == move.target_rack:
            return True
        if move.source_rack in self._left or move.target_rack in self._entered:
            return False
        self._left.add(move.source_rack)
        self._entered.add(move.target_rack)
        return True
