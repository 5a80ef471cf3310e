"""Whole runs through the public door."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from monkeytree.plan import Plan
from monkeytree.simulation import (
    SYSTEMS,
    BadSetup,
    Migration,
    Result,
    Setup,
    TraceJob,
    simulate,
    simulate_many,
)
from monkeytree.snapshot import Snapshot

SMALL = Setup(gpus=256, gpus_per_rack=64, spines=8, jobs=60, seed=5, compress=50)
TIMES = ("solve_ms_mean", "cpu_s")


def figures(result: Result) -> tuple[Any, ...]:
    """All that must repeat: everything but how long it took."""
    plans = [replace(plan, solve_ms=0.0) for plan in result.plans]
    return result.jobs, plans, {name: value for name, value in result.summary.items() if name not in TIMES}


def never(snapshot: Snapshot, plan: Plan) -> bool:
    return False


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_runs_all_jobs_and_none_is_faster_than_ideal(system: str) -> None:
    result = simulate(replace(SMALL, system=system))
    assert [row.id for row in result.jobs] == list(range(60))
    for row in result.jobs:
        assert row.arrival_us <= row.start_us < row.end_us
        assert row.end_us - row.start_us >= row.ideal_us
        assert row.slowdown == (row.end_us - row.start_us) / row.ideal_us
    assert result.summary["system"] == system
    assert sum(row.migrations for row in result.jobs) == result.migrations
    if not SYSTEMS[system].defragments:
        assert not result.plans


def test_same_seed_same_result_whatever_the_number_of_processes() -> None:
    setups = [replace(SMALL, system=system, jobs=30) for system in ("ecmp", "monkeytree", "sglb")]
    alone, together = simulate_many(setups, 1), simulate_many(setups, 3)
    assert [figures(one) for one in alone] == [figures(one) for one in together]
    other = simulate(replace(setups[0], seed=6))
    assert figures(other)[0] != figures(alone[0])[0]


def test_full_bisection_is_ideal_and_systems_rank_as_in_the_paper() -> None:
    mean = {
        system: simulate(replace(SMALL, system=system, jobs=120, compress=60)).summary["mean"]
        for system in ("spray", "monkeytree", "perfect", "crux", "ecmp")
    }
    assert mean["spray"] == 1.0
    assert mean["monkeytree"] < mean["perfect"] < mean["ecmp"]
    assert mean["crux"] < mean["ecmp"]


def test_plans_remove_what_is_over_the_bound() -> None:
    result = simulate(replace(SMALL, jobs=100))
    assert result.plans
    assert all(plan.moves == 0 or plan.carried_out for plan in result.plans)
    assert result.migrations <= sum(plan.moves for plan in result.plans)
    assert all(plan.duration_us > 0 for plan in result.plans if plan.carried_out)


def test_a_trigger_that_refuses_leaves_the_router_alone() -> None:
    refused = simulate(replace(SMALL, trigger=never))
    router = simulate(replace(SMALL, system="perfect"))
    assert refused.jobs == router.jobs
    assert refused.plans
    assert not any(plan.carried_out for plan in refused.plans)


def lone(kind: str, gpus: int, iterations: int, **members: Any) -> Result:
    trace = (TraceJob(7, kind, gpus, iterations),)
    return simulate(Setup(system="ecmp", gpus=128, gpus_per_rack=64, trace=trace, **members))


@pytest.mark.parametrize(
    ("kind", "gpus", "iteration_us"),
    [
        ("gpt_13b_dp", 16, 1_190_000),
        ("llama2_70b_fsdp", 16, 7_531_625),
        ("llama2_70b_tp_dp", 16, 684_600),
        ("llama2_70b_tp_dp_pp_4", 64, 1_035_240),
        ("gpt_oss_20b_dp_moe", 16, 3_532_920),
    ],
)
def test_a_lone_job_takes_what_the_authors_measured(kind: str, gpus: int, iteration_us: int) -> None:
    (row,) = lone(kind, gpus, 5).jobs
    assert (row.start_us, row.end_us, row.slowdown) == (7, 7 + 5 * iteration_us, 1.0)


def test_two_jobs_swap_servers_at_their_barriers() -> None:
    """Two jobs, each over two full racks of two servers under one uplink: a swap heals both."""
    trace = (
        TraceJob(0, "gpt_7b_dp", 16, 3),
        TraceJob(0, "gpt_7b_dp", 16, 3),
    )
    setup = Setup(
        gpus=32, gpus_per_rack=16, spines=1, scheduler="random", trace=trace, migration=Migration(2.0, 1.0)
    )
    split = next(
        setup
        for seed in range(20)
        if simulate(replace(setup := replace(setup, seed=seed), system="perfect")).summary["mean"] > 1
    )
    result = simulate(split)
    assert result.migrations == 2
    (plan,) = result.plans
    first, second = result.jobs
    # An iteration together (two flows share each link), the state of 8 GPUs on one uplink and the pause,
    # two iterations alone.
    together_us, alone_us, moving_us = 113_000 + 2 * 487_500, 600_500, 8 * 20_000 + 2_000_000
    assert plan.duration_us == together_us + moving_us
    assert first.end_us == second.end_us == together_us + moving_us + 2 * alone_us


@pytest.mark.parametrize(
    "fabric",
    [
        {"fabric": "pods", "gpus_per_rack": 32, "racks_per_pod": 2, "spines": 4, "cores": 4},
        {"fabric": "rails", "gpus_per_rack": 64, "spines": 2},
        {"gpus_per_rack": 64, "spines": 8, "failed": frozenset({(0, 3), (1, 5)})},
        {"gpus_per_rack": 64, "spines": 8, "uplink_gbps": 800.0},
        {"gpus_per_rack": 64, "spines": 8, "uplink_gbps": 200.0},
    ],
    ids=["pods", "rails", "failed", "fast", "slow"],
)
@pytest.mark.parametrize("system", ["ecmp", "sglb", "monkeytree", "monkeytree3"])
def test_fabrics(fabric: dict[str, Any], system: str) -> None:
    result = simulate(Setup(system=system, gpus=256, jobs=40, seed=2, compress=50, **fabric))
    assert len(result.jobs) == 40
    assert min(row.end_us - row.start_us - row.ideal_us for row in result.jobs) >= 0


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"system": "magic"}, "no system 'magic'; there are ecmp"),
        ({"mix": "tea"}, "no job mix 'tea'"),
        ({"gpus_per_rack": 60}, "multiple of 8, not 60"),
        ({"gpus": 100}, "100 GPUs do not fill racks of 64"),
        ({"spines": 0}, "spines must be at least 1, not 0"),
        ({"fabric": "pods", "racks_per_pod": 3}, "16 racks do not fill pods of 3"),
        ({"gpus": 32, "gpus_per_rack": 32}, "needs .* GPUs; the cluster has 32"),
        ({"compress": 0}, "compress must be at least 1, not 0"),
        ({"jobs": 0}, "no job to simulate"),
        ({"trace": ()}, "no job to simulate"),
        ({"trace": (TraceJob(0, "tea", 16, 1),)}, "a type that the mix 'paper' lacks"),
        ({"trace": (TraceJob(0, "gpt_7b_dp", 12, 1),)}, "multiples of 8 GPUs"),
        ({"trace": (TraceJob(0, "gpt_7b_dp", 16, 0),)}, "0 iterations"),
        ({"load": float("nan")}, "load must be a finite number above 0, not nan"),
        ({"load": float("inf")}, "load must be a finite number above 0, not inf"),
        ({"migration": Migration(pause_s=float("nan"))}, "pause_s must be from 0"),
        ({"migration": Migration(state_gb=float("inf"))}, "state_gb must be from 0"),
        ({"uplink_gbps": 0.0}, "uplink_gbps must be above 0"),
        ({"gpus": 10**12}, "gpus must be at most"),
        ({"fabric": "torus"}, "no fabric 'torus'; there are leaf-spine"),
        ({"scheduler": "best"}, "no scheduler 'best'; there are best-fit"),
        ({"queue": "lifo"}, "no queue 'lifo'; there are fifo"),
        ({"fabric": "pods", "racks_per_pod": 0}, "racks_per_pod must be at least 1, not 0"),
        ({"failed": frozenset({(16, 0)})}, "no uplink 16:0 can fail: racks are 0 to 15"),
        ({"failed": frozenset({(0, 16)})}, "no uplink 0:16 can fail"),
        ({"spines": 2, "failed": frozenset({(1, 0), (5, 1)})}, "racks 1 and 5 share no live path"),
        ({"fabric": "pods", "cores": 1, "failed": frozenset({(3, 0)})}, "racks 3 and 4 share no live path"),
    ],
)
def test_a_setup_that_cannot_be_is_named(members: dict[str, Any], says: str) -> None:
    with pytest.raises(BadSetup, match=says):
        simulate(replace(Setup(jobs=20), **members))


def test_jobs_of_a_trace_come_in_the_order_of_their_arrivals() -> None:
    late, early = TraceJob(7_000_000, "gpt_7b_dp", 16, 2), TraceJob(0, "gpt_13b_dp", 16, 2)
    rows = simulate(Setup(system="ecmp", trace=(late, early))).jobs
    assert [(row.type, row.arrival_us, row.start_us) for row in rows] == [
        ("gpt_13b_dp", 0, 0),
        ("gpt_7b_dp", 7_000_000, 7_000_000),
    ]


@pytest.mark.parametrize("threshold", [None, 4])
def test_plans_are_made_where_the_uplinks_carry_less_than_is_sent(threshold: int | None) -> None:
    """Uplinks of two NIC rates carry two flows each: up to twice the spines nothing is to be planned."""
    setup = replace(SMALL, spines=4, uplink_gbps=800.0, scheduler="random", seed=3, threshold=threshold)
    plans = simulate(setup).plans
    assert plans
    assert all(plan.moves for plan in plans)


def test_a_threshold_above_all_that_racks_can_send_never_acts() -> None:
    assert not simulate(replace(SMALL, spines=2, scheduler="random", threshold=10**12)).plans
