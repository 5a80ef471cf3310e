"""Expected lateness at a leaf, against all cases counted one by one."""

from __future__ import annotations

from itertools import combinations, product
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monkeytree.sharing import may_share, stretch
from monkeytree.snapshot import Routing


def lateness(neighbours: int, per_uplink: int, busy: float) -> float:
    """E[max(0, (1 + senders) / k - 1)], over all subsets of the neighbours."""
    return sum(
        busy ** sum(senders)
        * (1 - busy) ** (neighbours - sum(senders))
        * max(0.0, (1 + sum(senders)) / per_uplink - 1)
        for senders in product((0, 1), repeat=neighbours)
    )


@pytest.mark.parametrize("own", [1, 2, 3])
@pytest.mark.parametrize("flows", [3, 5, 7])
@pytest.mark.parametrize(("uplinks", "per_uplink"), [(2, 1), (3, 1), (2, 2), (1, 1)])
@pytest.mark.parametrize("busy", [0.0, 0.3, 1.0])
def test_folding_is_a_draw_without_replacement(
    own: int, flows: int, uplinks: int, per_uplink: int, busy: float
) -> None:
    # Flow i lies on uplink i mod u; any ``own`` of the flows may be the group's.
    on = [len(range(i % uplinks, flows, uplinks)) for i in range(flows)]
    cases = [
        max(lateness(on[i] - 1, per_uplink, busy) for i in drawn) for drawn in combinations(range(flows), own)
    ]
    expected = fmean(cases) if flows > uplinks * per_uplink else 0.0
    assert stretch("steered", own, flows, uplinks, per_uplink, busy) == pytest.approx(expected)


@pytest.mark.parametrize("flows", [2, 4, 5])
@pytest.mark.parametrize(("uplinks", "per_uplink"), [(2, 1), (3, 1), (2, 2), (1, 2)])
@pytest.mark.parametrize("busy", [0.0, 0.4, 1.0])
def test_hashing_is_every_choice_of_uplinks(flows: int, uplinks: int, per_uplink: int, busy: float) -> None:
    cases = [
        lateness(choice.count(choice[0]) - 1, per_uplink, busy)
        for choice in product(range(uplinks), repeat=flows)
    ]
    expected = fmean(cases) if flows > per_uplink else 0.0
    assert stretch("ecmp", 1, flows, uplinks, per_uplink, busy) == pytest.approx(expected)


@pytest.mark.parametrize("busy", [0.0, 0.4, 1.0])
def test_spreading_makes_the_uplinks_one(busy: float) -> None:
    assert stretch("adaptive", 2, 7, 3, 2, busy) == pytest.approx(lateness(6, 6, busy))


ROUTINGS = st.sampled_from(["steered", "ecmp", "adaptive"])
CROWDS = st.tuples(st.integers(1, 6), st.integers(1, 300), st.integers(1, 64), st.integers(1, 4))


@given(ROUTINGS, CROWDS, st.floats(0, 1), st.floats(0, 1))
def test_busier_neighbours_delay_more(
    routing: Routing, crowd: tuple[int, int, int, int], one: float, other: float
) -> None:
    own, flows, uplinks, per_uplink = crowd
    own = min(own, flows)
    less, more = sorted((one, other))
    shorter = stretch(routing, own, flows, uplinks, per_uplink, less)
    longer = stretch(routing, own, flows, uplinks, per_uplink, more)
    assert 0 <= shorter <= longer + 1e-9
    if not may_share(routing, flows, uplinks, per_uplink):
        assert longer == 0


@given(ROUTINGS, CROWDS, st.floats(0, 1))
def test_more_flows_of_a_group_wait_longer_and_more_uplinks_shorten_it(
    routing: Routing, crowd: tuple[int, int, int, int], busy: float
) -> None:
    own, flows, uplinks, per_uplink = crowd
    own = min(own, flows)
    here = stretch(routing, own, flows, uplinks, per_uplink, busy)
    if own < flows:
        assert here <= stretch(routing, own + 1, flows, uplinks, per_uplink, busy) + 1e-9
    assert stretch(routing, own, flows, 2 * uplinks, per_uplink, busy) <= here + 1e-9


def test_crowds_beyond_any_switch_are_no_trouble() -> None:
    for routing in ("steered", "ecmp", "adaptive"):
        assert stretch(routing, 3_000, 50_000, 64, 2, 0.5) > 0
