"""Waves: exact against every schedule on tiny cases; prefix safety and known facts on larger ones."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.waves import Scheduled, Transfer, schedule_waves

Cost = tuple[int, int, int]


def cost(transfers: Sequence[Transfer], free: Mapping[str, int], waves: Sequence[int]) -> Cost | None:
    """(staged, (job, wave) pairs, waves), or None for a schedule that breaks a rule."""
    for a, b in product(zip(transfers, waves, strict=True), repeat=2):
        if a[0].together and b[0].together and a[0].job == b[0].job and a[1] != b[1]:
            return None
    room, staged = dict(free), 0
    for wave in sorted(set(waves)):
        running = [transfer for transfer, at in zip(transfers, waves, strict=True) if at == wave]
        for node in free:
            left = room[node]
            for slots in sorted(transfer.slots for transfer in running if transfer.target == node):
                left -= slots
                staged += left < 0
        for transfer in running:
            room[transfer.source] += transfer.slots
            room[transfer.target] -= transfer.slots
        if min(room.values()) < 0:
            return None
    pairs = {(transfer.job, wave) for transfer, wave in zip(transfers, waves, strict=True)}
    return staged, len(pairs), len(set(waves))


def least_cost(transfers: Sequence[Transfer], free: Mapping[str, int]) -> Cost:
    schedules = product(range(len(transfers)), repeat=len(transfers))
    costs = (cost(transfers, free, waves) for waves in schedules)
    return min(found for found in costs if found is not None)


def checked_cost(
    transfers: Sequence[Transfer], free: Mapping[str, int], schedule: Sequence[Scheduled]
) -> Cost:
    """The cost of an answer, after checking it: numbering, prefixes, and each ``staged``."""
    waves = [entry.wave for entry in schedule]
    assert sorted(set(waves)) == list(range(len(set(waves))))
    found = cost(transfers, free, waves)
    assert found is not None
    assert found[0] == sum(entry.staged for entry in schedule)
    room = dict(free)
    for wave in sorted(set(waves)):
        running = [(t, e) for t, e in zip(transfers, schedule, strict=True) if e.wave == wave]
        for node in free:
            assert sum(t.slots for t, e in running if t.target == node and not e.staged) <= room[node]
        for transfer, _ in running:
            room[transfer.source] += transfer.slots
            room[transfer.target] -= transfer.slots
    return found


@st.composite
def cases(draw: st.DrawFn, most: int, nodes: int = 4) -> tuple[list[Transfer], dict[str, int]]:
    """Transfers and the least free slots with which their end fits, on some nodes more."""
    names = [f"n{number}" for number in range(nodes)]
    restarts = draw(st.sets(st.sampled_from("ABC"), max_size=1))
    slots = st.just(1) if draw(st.booleans()) else st.integers(1, 3)
    transfers = []
    for _ in range(draw(st.integers(0, most))):
        job = draw(st.sampled_from("ABC"))
        source, target = draw(st.permutations(names))[:2]
        transfers.append(Transfer(job, source, target, draw(slots), job in restarts))
    free = {}
    for name in names:
        landing = sum(t.slots for t in transfers if t.target == name)
        leaving = sum(t.slots for t in transfers if t.source == name)
        free[name] = max(0, landing - leaving) + draw(st.sampled_from([0, 0, 0, 1, 2]))
    return transfers, free


@settings(max_examples=200, deadline=None)
@given(cases(most=4))
def test_tiny_cases_cost_as_little_as_any_schedule(case: tuple[list[Transfer], dict[str, int]]) -> None:
    transfers, free = case
    found = checked_cost(transfers, free, schedule_waves(transfers, free))
    if transfers:
        assert found == least_cost(transfers, free)


@settings(max_examples=30, deadline=None)
@given(cases(most=40, nodes=9))
def test_larger_cases_keep_every_rule(case: tuple[list[Transfer], dict[str, int]]) -> None:
    transfers, free = case
    checked_cost(transfers, free, schedule_waves(transfers, free))


def least_staged(transfers: Sequence[Transfer], free: Mapping[str, int]) -> int:
    """For transfers of one slot: those among nodes that are joined by transfers and have no free slot."""
    group = {node: {node} for node in free}
    for transfer in transfers:
        merged = group[transfer.source] | group[transfer.target]
        for node in merged:
            group[node] = merged
    return sum(all(free[node] == 0 for node in group[transfer.source]) for transfer in transfers)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 60), st.floats(0, 0.3))
def test_one_slot_workers_are_staged_only_where_no_slot_is_free(
    seed: int, nodes: int, count: int, share: float
) -> None:
    rng = random.Random(seed)
    names = [f"n{number}" for number in range(nodes)]
    transfers = []
    for number in range(count):
        source, target = rng.sample(names, 2)
        transfers.append(Transfer(f"j{number % 7}", source, target, 1))
    free = {}
    for name in names:
        gain = sum(t.target == name for t in transfers) - sum(t.source == name for t in transfers)
        free[name] = max(0, gain) + (rng.random() < share)
    found = checked_cost(transfers, free, schedule_waves(transfers, free))
    assert found[0] == least_staged(transfers, free)


def ring(nodes: int, slots: int = 1) -> list[Transfer]:
    return [Transfer(f"j{n}", f"n{n}", f"n{(n + 1) % nodes}", slots) for n in range(nodes)]


@pytest.mark.parametrize("nodes", [2, 3, 30])
def test_a_cycle_on_full_nodes_runs_at_once_all_staged(nodes: int) -> None:
    free = {f"n{n}": 0 for n in range(nodes)}
    assert schedule_waves(ring(nodes), free) == (Scheduled(0, True),) * nodes


@pytest.mark.parametrize("nodes", [2, 3, 30])
def test_one_free_slot_runs_a_cycle_unstaged_one_after_the_other(nodes: int) -> None:
    free = {f"n{n}": int(n == 0) for n in range(nodes)}
    schedule = schedule_waves(ring(nodes), free)
    assert [entry.wave for entry in schedule] == [*range(nodes - 1, 0, -1), 0][-nodes:]
    assert not any(entry.staged for entry in schedule)


def test_a_cycle_of_larger_workers_with_too_small_a_gap_is_staged() -> None:
    free = {"n0": 1, "n1": 0, "n2": 1}
    assert schedule_waves(ring(3, slots=2), free) == (Scheduled(0, True),) * 3


def test_a_chain_runs_backwards() -> None:
    chain = [Transfer("A", "a", "b", 1), Transfer("B", "b", "c", 1), Transfer("C", "c", "d", 1)]
    schedule = schedule_waves(chain, {"a": 0, "b": 0, "c": 0, "d": 1})
    assert schedule == (Scheduled(2, False), Scheduled(1, False), Scheduled(0, False))


def test_a_job_waits_for_its_own_later_transfer() -> None:
    """A pauses once: its transfer to the empty node is put off to wave 1."""
    transfers = [Transfer("A", "a", "x", 1), Transfer("A", "b", "c", 1), Transfer("C", "c", "y", 1)]
    schedule = schedule_waves(transfers, {"a": 0, "b": 0, "c": 0, "x": 1, "y": 1})
    assert [entry.wave for entry in schedule] == [1, 1, 0]


def test_everything_that_fits_runs_in_wave_0() -> None:
    transfers = [Transfer("A", "a", "b", 2), Transfer("B", "b", "a", 1)]
    assert schedule_waves(transfers, {"a": 1, "b": 2}) == (Scheduled(0, False),) * 2
    assert schedule_waves([], {}) == ()


def test_a_restart_moves_in_one_wave() -> None:
    transfers = [
        Transfer("R", "a", "b", 1, together=True),
        Transfer("R", "c", "d", 1, together=True),
        Transfer("B", "b", "e", 1),
    ]
    schedule = schedule_waves(transfers, {"a": 0, "b": 0, "c": 0, "d": 1, "e": 1})
    assert [(entry.wave, entry.staged) for entry in schedule] == [(1, False), (1, False), (0, False)]


@pytest.mark.parametrize(
    ("transfers", "free", "message"),
    [
        ([Transfer("A", "a", "b", 1)], {"a": 0}, "node 'b' of a transfer is missing"),
        ([Transfer("A", "a", "b", 2)], {"a": 0, "b": 1}, "does not fit on node 'b': 1 slots too many"),
        ([Transfer("A", "a", "a", 1)], {"a": 0}, "needs slots and two nodes"),
        ([Transfer("A", "a", "b", 0)], {"a": 0, "b": 1}, "needs slots and two nodes"),
    ],
)
def test_impossible_transfers_are_refused(
    transfers: list[Transfer], free: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        schedule_waves(transfers, free)
