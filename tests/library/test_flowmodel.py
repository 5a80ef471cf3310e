"""The max-min flow model against golden values, its defining properties and worked examples."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.flowmodel import Transfer, completion_times, link_components, max_min_rates

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "data" / "flows" / "golden_flows.json").read_text("utf-8")
)
quick = settings(max_examples=150, deadline=None)

links = st.integers(0, 7)
paths = st.lists(st.lists(links, min_size=1, max_size=4, unique=True), min_size=1, max_size=12)
sizes = st.integers(0, 40).map(Fraction) | st.fractions(0, 20, max_denominator=6)
capacities = st.fixed_dictionaries({link: st.integers(1, 12) for link in range(8)})


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
@pytest.mark.parametrize("exact", [True, False])
def test_golden_end_times(case: dict[str, Any], exact: bool) -> None:
    number = Fraction if exact else float
    flows = case["flows"]
    transfers = [Transfer(f["path"], number(f["bytes"] * 8), number(f["start_us"]) / 10**6) for f in flows]
    capacity = {link: number(case["link_bps"]) for f in flows for link in f["path"]}
    ends = completion_times(transfers, capacity)
    assert [float(end) * 1e6 for end in ends] == pytest.approx(
        [f["exact_maxmin_end_us"] for f in flows], abs=1e-3
    )
    assert all(isinstance(end, number) for end in ends)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_rates_after_the_last_start(case: dict[str, Any]) -> None:
    by_id = {str(f["id"]): f["path"] for f in case["flows"]}
    active = case["rates_after_last_start"]
    if len(active) != len(by_id):
        pytest.skip("some flows ended before the last one started")
    capacity = {link: int(case["link_bps"]) for path in by_id.values() for link in path}
    rates = max_min_rates([by_id[name] for name in active], capacity)
    if case["max_abs_diff_us"] > 1:  # the rates there are of a model that is not exact
        assert [float(rate) for rate in rates] != pytest.approx(list(active.values()), rel=1e-9)
    else:
        assert [float(rate) for rate in rates] == pytest.approx(list(active.values()), rel=1e-9)


def _loads(flows: Sequence[Sequence[int]], rates: Sequence[Any]) -> Counter[int]:
    loads: Counter[int] = Counter()
    for path, rate in zip(flows, rates, strict=True):
        for link in path:
            loads[link] += rate
    return loads


@quick
@given(paths, capacities)
def test_rates_are_feasible_and_every_flow_has_a_bottleneck(
    flows: list[list[int]], capacity: Mapping[int, int]
) -> None:
    rates = max_min_rates(flows, capacity)
    loads = _loads(flows, rates)
    assert all(load <= capacity[link] for link, load in loads.items())
    for path, rate in zip(flows, rates, strict=True):
        assert any(
            loads[link] == capacity[link]
            and rate == max(r for p, r in zip(flows, rates, strict=True) if link in p)
            for link in path
        )


@quick
@given(paths, capacities, st.randoms())
def test_rates_do_not_depend_on_the_order_of_flows(
    flows: list[list[int]], capacity: Mapping[int, int], random: Any
) -> None:
    order = list(range(len(flows)))
    random.shuffle(order)
    rates = max_min_rates(flows, capacity)
    assert max_min_rates([flows[i] for i in order], capacity) == [rates[i] for i in order]


@quick
@given(paths, capacities)
def test_floats_agree_with_fractions(flows: list[list[int]], capacity: Mapping[int, int]) -> None:
    floats = max_min_rates(flows, {link: float(c) for link, c in capacity.items()})
    assert floats == pytest.approx([float(rate) for rate in max_min_rates(flows, capacity)], rel=1e-12)


@quick
@given(paths, capacities, st.data())
def test_what_is_sent_is_what_was_asked(
    flows: list[list[int]], capacity: Mapping[int, int], data: st.DataObject
) -> None:
    """Replaying the rates between the ends, each flow sends its size, and nothing after its end."""
    wanted = [data.draw(sizes) for _ in flows]
    starts = [data.draw(st.integers(0, 5).map(Fraction)) for _ in flows]
    transfers = [Transfer(*of) for of in zip(flows, wanted, starts, strict=True)]
    ends = completion_times(transfers, capacity)
    sent = [Fraction(0)] * len(flows)
    for now, then in pairwise(sorted({*starts, *(Fraction(end) for end in ends)})):
        active = [i for i in range(len(flows)) if starts[i] <= now < ends[i]]
        rates = max_min_rates([flows[i] for i in active], capacity)
        for i, rate in zip(active, rates, strict=True):
            sent[i] += Fraction(rate) * (then - now)
    assert sent == wanted
    assert all(end >= start for end, start in zip(ends, starts, strict=True))


def test_a_flow_that_crosses_a_link_twice_loads_it_twice() -> None:
    assert max_min_rates([["a", "a"], ["a"]], {"a": 9}) == [3, 3]


def test_a_dead_link_stops_its_flows_and_no_other() -> None:
    flows = [Transfer(["dead", "a"], 8), Transfer(["a"], 8), Transfer(["dead"], 0, 3)]
    assert completion_times(flows, {"dead": 0, "a": 4}) == [math.inf, 2, 3]


def test_a_flow_waits_for_those_before_it() -> None:
    flows = [
        Transfer(["a"], 8),
        Transfer(["b"], 12, after=[0]),
        Transfer(["b"], 12, 1, after=[0]),
        Transfer(["c"], 1, 9, after=[1, 2]),
    ]
    assert completion_times(flows, {"a": 4, "b": 3, "c": 1}) == [2, 10, 10, 11]


def test_flows_that_wait_for_nothing_that_ends_never_end() -> None:
    flows = [Transfer(["dead"], 8), Transfer(["a"], 8, after=[0]), Transfer(["a"], 8)]
    assert completion_times(flows, {"dead": 0, "a": 4}) == [math.inf, math.inf, 2]


def test_a_circle_of_waiting_is_refused() -> None:
    with pytest.raises(ValueError, match="in a circle"):
        completion_times([Transfer(["a"], 1, after=[1]), Transfer(["a"], 1, after=[0])], {"a": 1})
    beside_one_that_never_ends = [
        Transfer(["dead"], 1),
        Transfer(["a"], 1, after=[0, 2]),
        Transfer(["a"], 1, after=[1]),
    ]
    with pytest.raises(ValueError, match="in a circle"):
        completion_times(beside_one_that_never_ends, {"a": 1, "dead": 0})


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        (Transfer(["a"], math.nan), "flow 0 has the size nan, which is not finite"),
        (Transfer(["a"], math.inf), "flow 0 has the size inf"),
        (Transfer(["a"], -1), "flow 0 has the size -1, less than zero"),
        (Transfer(["a"], 1, math.inf), "flow 0 has the start inf"),
        (Transfer(["a"], 1, after=[3]), "flow 0 waits for flow 3; there are 1"),
    ],
)
def test_a_flow_that_cannot_be_is_refused(flow: Transfer, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        completion_times([flow], {"a": 1})


def test_no_flows() -> None:
    assert max_min_rates([], {}) == []
    assert completion_times([], {}) == []


@pytest.mark.parametrize(
    ("flows", "capacity", "error", "words"),
    [
        ([["a"], []], {"a": 1}, ValueError, "flow 1 crosses no link"),
        ([["a"]], {"a": -1}, ValueError, "'a' has the capacity -1"),
        ([["a"]], {"a": math.nan}, ValueError, "'a' has the capacity nan"),
        ([["a"]], {"a": math.inf}, ValueError, "'a' has the capacity inf"),
        ([["b"]], {"a": 1}, KeyError, "b"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    flows: list[list[str]], capacity: dict[str, float], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        max_min_rates(flows, capacity)


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="flow 0 has the size -1"):
        completion_times([Transfer(["a"], -1)], {"a": 1})


def test_components_are_joined_through_others() -> None:
    assert link_components([["a"], ["b"], ["c", "b"], ["d"], ["a", "c"]]) == [[0, 1, 2, 4], [3]]
