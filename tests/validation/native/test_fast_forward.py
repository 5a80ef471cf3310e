"""Skipping what is steady: the same result, or within 1 % where queues grow slowly, for less work."""

from __future__ import annotations

from typing import Any

import pytest

from tools.fidelity import DATA, scenario

from .fabrics import Document, fcts, flow, incast, needs_ns3, run, star
from .fabrics import scenario as fabric

pytestmark = needs_ns3

PUBLIC = sorted(path.stem for path in DATA.glob("*_10MB.json"))


def both(document: Document) -> tuple[Document, Document]:
    """The full run's result and the fast one's."""
    params = document["params"]
    return run(document), run({**document, "params": {**params, "fast_forward": 1}})


def without_cost(result: Document) -> dict[str, Any]:
    kept = {name: value for name, value in result.items() if name != "totals"}
    totals = result["totals"]
    dropped = ("cpu_s", "events", "skips", "skipped_ns")
    return {**kept, "totals": {name: totals[name] for name in totals if name not in dropped}}


@pytest.mark.parametrize("profile", ["dcqcn", "pfc_only", "hpcc_win_mtu4000"])
@pytest.mark.parametrize("name", PUBLIC)
def test_public_scenarios_within_one_per_cent(name: str, profile: str) -> None:
    full, fast = both(scenario(name, profile, 1))
    assert fcts(fast) == pytest.approx(fcts(full), rel=0.01)
    for count in ("ecn_marks", "pauses", "drops"):
        assert fast["totals"][count] == full["totals"][count]


def test_a_flow_alone_is_exact_at_a_fraction_of_the_work() -> None:
    full, fast = both(star(2, [flow("a", 0, 1, 100_000_123)], gbps=400))
    assert without_cost(fast) == without_cost(full)
    assert fast["totals"]["skips"] == 1
    assert fast["totals"]["skipped_ns"] > 0.9 * fcts(full)["a"]
    assert fast["totals"]["events"] < full["totals"]["events"] / 50


def test_starts_ends_and_dependents_are_kept() -> None:
    flows = [
        flow("long", 0, 3, 60_000_000),
        flow("short", 1, 4, 20_000_001),
        flow("late", 2, 5, 10_000_000, start_ns=1_234_567),
        flow("then", 2, 6, 15_000_000, after=["short", "late"], start_ns=10_000),
        flow("later", 1, 7, 15_000_000, after=["short"], start_ns=3_000_000),
    ]
    full, fast = both(star(8, flows))
    assert fast["flows"] == full["flows"]
    assert fast["totals"]["skips"] >= 3


def test_windows_that_share_a_link_are_exact() -> None:
    full, fast = both(incast(3, 10_000_000, profile="hpcc_win"))
    assert without_cost(fast) == without_cost(full)
    assert fast["totals"]["skips"] >= 1


@pytest.mark.parametrize("params", [{}, {"ecn": 0, "dcqcn": 0}])
def test_nothing_is_skipped_where_queues_fill(params: dict[str, float]) -> None:
    full, fast = both(incast(4, 20_000_000, **params))
    assert without_cost(fast) == without_cost(full)
    assert fast["totals"]["skips"] == 0


def test_the_bound_of_simulated_time_is_kept() -> None:
    full, fast = both(star(2, [flow("a", 0, 1, 100_000_000)], stop_us=2000))
    assert [result["totals"]["finished"] for result in (full, fast)] == [False, False]
    assert fast["totals"]["skips"] == 1
    assert full["ports"] == fast["ports"]


def test_rings_whose_acks_meet_data_are_within_one_per_cent() -> None:
    hosts = 4
    ring = [flow(at, at, (at + 1) % hosts, 40_000_000) for at in range(hosts)]
    links = [[host, hosts + host % 2, 400, 1000] for host in range(hosts)]
    links += [[hosts + leaf, top, 400, 1000] for leaf in range(2) for top in (6, 7)]
    paths = [[at, 4 + at % 2, 6 + at // 2, 4 + (at + 1) % 2, (at + 1) % hosts] for at in range(hosts)]
    flows = [{**row, "path": path} for row, path in zip(ring, paths, strict=True)]
    full, fast = both(fabric(hosts, [4, 5, 6, 7], links, flows))
    assert fcts(fast) == pytest.approx(fcts(full), rel=0.01)
    assert fast["totals"]["skips"] >= 1


def test_off_and_with_samples_nothing_is_skipped() -> None:
    document = star(2, [flow("a", 0, 1, 10_000_000)], sample_us=50)
    full, fast = both(document)
    assert without_cost(fast) == without_cost(full)
    assert "skips" not in full["totals"]
    assert fast["totals"]["skips"] == 0
