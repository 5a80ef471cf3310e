"""How long jobs pause, by hand: 9.02 s and the state over the wire, job by job and wave by wave."""

from __future__ import annotations

from dataclasses import replace

import pytest

import monkeytree
from monkeytree.placement import Arrangement
from monkeytree.plan import Move, Plan, Transient
from monkeytree.timing import pause_seconds, transients
from tests.oracle.reading import Document

from .support import assert_holds, job, planned, snapshot

OVERHEAD_S = 9.02
WIRE_S = 12.0 * 8 / 400  # 12 GB at 400 Gb/s


def rack(uplinks: int, **nodes: int | Document) -> Document:
    return {"uplinks": uplinks, "nodes": nodes}


def swap(**of_b: object) -> Document:
    """A and B each have a worker in the other's full rack; no uplinks: a swap is all that helps."""
    racks = {"r1": rack(0, a=1, b=1), "r2": rack(0, c=1, d=1)}
    mobility = str(of_b.pop("mobility", "live"))
    return snapshot(racks, [job("A", "a", "c"), job("B", "d", "b", mobility=mobility, **of_b)])


def pause(document: Document, *moves: tuple[str, int, int], reordered: tuple[str, ...] = ()) -> float:
    """``pause_s`` of moves given as (job, group, wave)."""
    made = [Move(name, str(group), 0, "from", "to", wave) for name, group, wave in moves]
    return pause_seconds(monkeytree.load_snapshot(document), made, reordered)


def two_groups(mobility: str = "live", **planning: float) -> Document:
    """Job A of two groups, 12 GB and 50 GB a worker; job B with 4 GB."""
    racks = {"r1": rack(4, a=8), "r2": rack(4, b=8)}
    groups = [
        {"id": "0", "workers": ["a", "b"]},
        {"id": "1", "workers": ["a", "b"], "state_gb": 50.0},
    ]
    first: Document = {"id": "A", "mobility": mobility, "replica_groups": groups}
    return snapshot(racks, [first, job("B", "a", "b", state_gb=4.0)], planning=planning)


def test_a_move_pauses_its_job_for_the_overhead_and_the_wire() -> None:
    assert pause(two_groups(), ("A", 0, 0)) == pytest.approx(9.26)


def test_moves_of_one_wave_pause_a_job_once_for_the_largest_state() -> None:
    assert pause(two_groups(), ("A", 0, 0), ("A", 0, 0), ("A", 1, 0)) == pytest.approx(OVERHEAD_S + 1.0)


def test_every_wave_pauses_anew() -> None:
    assert pause(two_groups(), ("A", 0, 0), ("A", 1, 2)) == pytest.approx(2 * OVERHEAD_S + WIRE_S + 1.0)


def test_jobs_pause_each_for_itself() -> None:
    assert pause(two_groups(), ("A", 0, 0), ("B", 0, 0)) == pytest.approx(2 * OVERHEAD_S + WIRE_S + 0.08)


def test_a_restart_counts_once_whatever_moves() -> None:
    moves = (("A", 0, 0), ("A", 1, 0), ("A", 0, 1))
    assert pause(two_groups("restart"), *moves) == pytest.approx(120.0)
    assert pause(two_groups("restart", restart_s=30.0), *moves) == pytest.approx(30.0)


def test_a_job_only_reordered_counts_the_overhead_once() -> None:
    assert pause(two_groups("restart"), reordered=("A", "B")) == pytest.approx(2 * OVERHEAD_S)
    assert pause(two_groups(pause_overhead_s=1.5), reordered=("A",)) == pytest.approx(1.5)


def test_nothing_pauses_for_nothing() -> None:
    assert pause(two_groups()) == 0.0


def test_a_swap_on_a_full_cluster_is_one_wave_of_staged_moves() -> None:
    plan = planned(swap())
    assert_holds(swap(), plan)
    assert (plan.status, plan.moves_needed, plan.jobs_paused) == ("optimal", 2, 2)
    assert [(move.wave, move.staged) for move in plan.moves] == [(0, True), (0, True)]
    assert plan.pause_s == pytest.approx(2 * (OVERHEAD_S + WIRE_S))


def staged(plan: Plan) -> int:
    return sum(move.staged for move in plan.moves)


def test_gpu_seconds_count_slots_times_pause() -> None:
    """B restarts for 120 s; A's two slots pause for 9.26 s."""
    document = swap(mobility="restart") | {"planning": {"objective": "gpu_seconds"}}
    plan = planned(document)
    assert_holds(document, plan)
    assert plan.objective.value == pytest.approx(2 * (OVERHEAD_S + WIRE_S) + 2 * 120)


def test_an_overtaking_order_is_given_up_in_wave_0_for_the_overhead() -> None:
    """Ranks a, c, b, d depart four times; a new order departs twice, within one uplink each."""
    racks = {"r1": rack(1, a=1, b=1), "r2": rack(1, c=1, d=1)}
    document = snapshot(racks, [job("A", "a", "c", "b", "d")])
    plan = planned(document)
    assert_holds(document, plan)
    assert (plan.status, plan.moves, plan.jobs_paused) == ("optimal", (), 1)
    assert plan.pause_s == pytest.approx(OVERHEAD_S)
    assert [ring.changed for ring in plan.rings] == [True]


def test_a_passing_overload_is_a_transient() -> None:
    """A leaves r1, which has no uplink, in two waves: after the first it is on both racks."""
    racks = {"r1": rack(0, a=1, b=1), "r2": rack(1, c=1, d=1)}
    loaded = monkeytree.load_snapshot(snapshot(racks, [job("A", "a", "b")]))
    before = Arrangement.of(loaded)
    after = Arrangement((("c", "d"),), before.orders)
    moves = [Move("A", "0", 0, "a", "c", 0), Move("A", "0", 1, "b", "d", 1)]
    assert transients(loaded, moves, before, after) == (Transient("r1", 0, 0, 1),)
    assert transients(loaded, [replace(move, wave=0) for move in moves], before, after) == ()


def test_an_overload_that_was_there_before_is_no_transient() -> None:
    racks = {"r1": rack(0, a=1, b=1), "r2": rack(0, c=1, d=1), "r3": rack(2, e=1)}
    loaded = monkeytree.load_snapshot(snapshot(racks, [job("A", "a", "c"), job("B", "b", "e")]))
    before = Arrangement.of(loaded)
    after = Arrangement((("a", "b"), ("b", "e")), before.orders)
    moves = [Move("A", "0", 1, "c", "d", 0)]
    assert transients(loaded, moves, before, after) == ()


def test_jobs_spread_over_full_racks_with_one_uplink_gather() -> None:
    """Three jobs, each on all of three full racks: every one has to come whole, two moves each."""
    racks = {name: rack(1, **{f"{name}{at}": 1 for at in range(3)}) for name in ("r1", "r2", "r3")}
    document = snapshot(racks, [job(f"J{at}", f"r1{at}", f"r2{at}", f"r3{at}") for at in range(3)])
    plan = planned(document)
    assert_holds(document, plan)
    assert (plan.status, plan.moves_needed, plan.jobs_paused) == ("optimal", 6, 3)
    assert staged(plan) > 0
