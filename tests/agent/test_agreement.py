"""All ranks pause at one boundary, whatever the order in which they come, are armed, and look."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.agent.agreement import Agreement, Frontier, Verdict

MOST = 60


class Steps:
    """A store in memory that lets another rank run before every operation, as the draw says."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get(self, key: str) -> str:
        return self.values.get(key, "")

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def compare_set(self, key: str, expected: str, desired: str) -> str:
        if self.values.get(key, "") == expected:
            self.values[key] = desired
        return self.values.get(key, "")

    def check(self, keys: Sequence[str]) -> bool:
        return all(key in self.values for key in keys)

    def wait(self, keys: Sequence[str], timeout_s: float) -> bool:
        return self.check(keys)

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


@st.composite
def races(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Boundaries the ranks start at, boundaries they are armed at, and who moves next."""
    count = draw(st.integers(1, 5))
    starts = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    armed = [start + draw(st.integers(0, 6)) for start in starts]
    turns = draw(st.lists(st.integers(0, count - 1), min_size=5, max_size=400))
    return starts, armed, turns


@settings(max_examples=300, deadline=None)
@given(races())
def test_nobody_passes_the_pause_and_all_reach_it(race: tuple[list[int], list[int], list[int]]) -> None:
    starts, armed, turns = race
    members = tuple(f"0/{rank}" for rank in range(len(starts)))
    store = Steps()
    agreements = [Agreement(store, "p/", me, members, 1e9) for me in members]
    steps, paused = list(starts), [False] * len(starts)
    order = [*turns, *(rank for _ in range(MOST) for rank in range(len(starts)))]
    for rank in order:
        if paused[rank]:
            continue
        if steps[rank] < armed[rank]:
            steps[rank] += 1
            continue
        verdict = agreements[rank].at(steps[rank])
        assert verdict is not Verdict.ABORT
        if verdict is Verdict.PAUSE:
            paused[rank] = True
        else:
            steps[rank] += 1
    assert all(paused)
    assert len(set(steps)) == 1
    assert Frontier.read(store.get("p/frontier")).pause == steps[0]


@settings(max_examples=100, deadline=None)
@given(races(), st.data())
def test_a_late_rank_calls_it_off_for_all_or_none(
    race: tuple[list[int], list[int], list[int]], data: st.DataObject
) -> None:
    starts, armed, turns = race
    members = tuple(f"0/{rank}" for rank in range(len(starts)))
    store = Steps()
    now = [0.0]
    agreements = [Agreement(store, "p/", me, members, 5.0, lambda: now[0]) for me in members]
    steps, verdicts = list(starts), [Verdict.GO] * len(starts)
    late = data.draw(st.integers(0, len(turns)))
    order = [*turns, *(rank for _ in range(MOST) for rank in range(len(starts)))]
    for turn, rank in enumerate(order):
        now[0] = 10.0 if turn >= late else 0.0
        if verdicts[rank] is not Verdict.GO:
            continue
        if steps[rank] >= armed[rank]:
            verdicts[rank] = agreements[rank].at(steps[rank])
        if verdicts[rank] is Verdict.GO:
            steps[rank] += 1
    assert len(set(verdicts)) == 1
    assert verdicts[0] is not Verdict.GO
