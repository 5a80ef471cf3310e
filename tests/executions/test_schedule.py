"""The order of a wave's moves: a property test against a plain replay of the slots."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.adapters.executions_schedule import NoRoom, Round, Transfer, schedule_wave

#: Two nodes a rack.
NODES = [f"r{rack}n{node}" for rack in range(4) for node in range(2)]


def move(
    number: int, job: str, source: str, target: str, *, staged: bool = False, size: float = 1.0
) -> Transfer:
    return Transfer(number, job, source, target, source[:2], target[:2], staged=staged, size=size)


@st.composite
def waves(draw: st.DrawFn) -> tuple[list[Transfer], dict[str, int]]:
    """A wave that a plan could hold: afterwards no node has more than its slots, unstaged slots were free."""
    slots = {node: draw(st.integers(1, 3)) for node in NODES}
    places = [node for node in NODES for _ in range(slots[node])]
    workers = draw(st.integers(1, len(places)))
    before = draw(st.permutations(places))[:workers]
    # workers take a permutation of the places, cut to those drawn: every placement of them is valid
    after = draw(st.permutations(places))[:workers]
    jobs = [draw(st.sampled_from("ABCD")) for _ in range(workers)]
    free = {node: slots[node] - before.count(node) for node in NODES}
    left = Counter(free)
    moves = []
    for number, (job, source, target) in enumerate(zip(jobs, before, after, strict=True)):
        if source == target:
            continue
        staged = left[target] <= 0
        left[target] -= 0 if staged else 1
        moves.append(move(number, job, source, target, staged=staged, size=draw(st.integers(1, 3))))
    return moves, free


def replay(moves: list[Transfer], free: dict[str, int], rounds: tuple[Round, ...]) -> None:
    """Carry the rounds out on paper; fails where a rule is broken."""
    by_number = {one.number: one for one in moves}
    slots, landed, paused = Counter(free), list[int](), list[str]()

    def travel(numbers: tuple[int, ...]) -> None:
        going = [by_number[number] for number in numbers]
        far = [one for one in going if one.source_rack != one.target_rack]
        assert max(Counter(one.source_rack for one in far).values(), default=0) <= 1
        assert max(Counter(one.target_rack for one in far).values(), default=0) <= 1
        for one in going:
            slots[one.target] -= 1
            assert slots[one.target] >= 0, f"{one} lands on a full node"
        landed.extend(numbers)

    for units in rounds:
        for unit in units:
            paused += unit.jobs
            assert {by_number[number].job for number in unit.moves} == set(unit.jobs)
            needed = Counter(by_number[number].target for number in unit.warm)
            assert all(slots[node] >= count for node, count in needed.items()), "warm slots are free before"
            assert set(unit.direct) <= unit.warm
            travel(unit.direct)
            for number in unit.parked:
                slots[by_number[number].source] += 1
            for turn in unit.turns:
                travel(turn)
            for number in unit.direct:  # its slot is free once the job trains on
                slots[by_number[number].source] += 1
        places = [{place for number in unit.moves for place in _places(by_number[number])} for unit in units]
        assert sum(map(len, places)) == len(set().union(*places)), "units of a round share a rack or node"
    assert sorted(landed) == sorted(by_number), "each move travels once"
    assert len(set(paused)) == len(paused), "a job pauses once"


def _places(one: Transfer) -> set[str]:
    return {one.source, one.target, one.source_rack, one.target_rack}


@settings(max_examples=300, deadline=None)
@given(waves())
def test_any_wave_is_carried_out_by_the_rules(wave: tuple[list[Transfer], dict[str, int]]) -> None:
    moves, free = wave
    rounds = schedule_wave(moves, free)
    replay(moves, free, rounds)
    assert schedule_wave(list(reversed(moves)), free) == rounds, "the order of the input does not count"


def test_a_swap_pauses_both_jobs_together_and_parks_both() -> None:
    moves = [move(0, "A", "r1n0", "r2n0", staged=True), move(1, "B", "r2n0", "r1n0", staged=True)]
    ((unit,),) = schedule_wave(moves, {})
    assert (unit.jobs, unit.direct, unit.turns, unit.warm) == (("A", "B"), (), ((0, 1),), frozenset())


def test_a_swap_inside_a_job_parks_what_the_other_waits_for() -> None:
    moves = [move(0, "A", "r1n0", "r2n0", size=1.0), move(1, "A", "r3n0", "r1n0", staged=True)]
    ((unit,),) = schedule_wave(moves, {"r2n0": 1})
    assert (unit.direct, unit.turns, unit.warm) == ((), ((0, 1),), frozenset({0}))


def test_a_chain_runs_from_its_free_end_and_parks_nothing() -> None:
    moves = [
        move(0, "A", "r1n0", "r2n0", staged=True),
        move(1, "B", "r2n0", "r3n0", staged=True),
        move(2, "C", "r3n0", "r0n0"),
    ]
    rounds = schedule_wave(moves, {"r0n0": 1})
    assert [[unit.jobs for unit in units] for units in rounds] == [[("C",)], [("B",)], [("A",)]]
    assert not any(unit.parked for units in rounds for unit in units)


def test_jobs_of_other_racks_run_side_by_side_and_those_of_one_do_not() -> None:
    apart = [move(0, "A", "r0n0", "r1n0"), move(1, "B", "r2n0", "r3n0")]
    free = {"r1n0": 1, "r3n0": 1, "r1n1": 1}
    assert [[unit.jobs for unit in units] for units in schedule_wave(apart, free)] == [[("A",), ("B",)]]
    one_rack = [move(0, "A", "r0n0", "r1n0"), move(1, "B", "r2n0", "r1n1")]
    assert [[unit.jobs for unit in units] for units in schedule_wave(one_rack, free)] == [[("A",)], [("B",)]]


def test_moves_of_a_job_over_one_uplink_take_turns() -> None:
    moves = [move(0, "A", "r0n0", "r1n0"), move(1, "A", "r0n1", "r2n0"), move(2, "A", "r3n0", "r3n1")]
    ((unit,),) = schedule_wave(moves, {"r1n0": 1, "r2n0": 1, "r3n1": 1})
    assert (unit.direct, unit.turns, unit.warm) == ((0, 2), ((1,),), frozenset({0, 1, 2}))


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(NoRoom, match="r1n0"):
        schedule_wave([move(0, "A", "r0n0", "r1n0")], {})
