"""The benchmark's own parts: what it measures must be what it says."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

import pytest

import monkeytree
from bench import decisions, growth, packets, paper, rivals, schedulers, sizes
from bench.__main__ import main
from bench.churn import Cluster, Shape, cold, one_worker_a_gpu, states
from bench.measure import quantile, spending
from monkeytree.placement import over_bound
from monkeytree.snapshot import Snapshot

SMALL = Shape(6, 4)


def over(snapshot: Snapshot) -> int:
    return len(over_bound(snapshot))


@pytest.mark.parametrize("scheduler", schedulers.SCHEDULERS)
def test_schedulers_place_every_worker_once_where_there_is_room(scheduler: str) -> None:
    free = [3, 0, 2, 4, 1]
    for size in range(1, sum(free) + 1):
        shares = schedulers.SCHEDULERS[scheduler](free, size)
        racks = Counter(rack for rack, _ in shares)
        assert sum(count for _, count in shares) == size
        assert all(0 < count <= free[rack] and racks[rack] == 1 for rack, count in shares)
        if size <= max(free) and scheduler != "seq":
            assert len(shares) == 1


@pytest.mark.parametrize("scheduler", ["seq", "first"])
def test_churn_comes_again_and_its_plans_take_effect(scheduler: str) -> None:
    seen = []
    for _ in range(2):
        run = []
        for cluster, snapshot in islice(states(SMALL, scheduler, seed=3, most_events=3000), 5):
            assert over(snapshot) == cluster.over > 0
            plan, decision = decisions.measured(snapshot)
            cluster.apply(decision.moves)
            healed = cluster.snapshot()
            assert over(healed) == cluster.over
            assert cluster.over == 0 or not plan.proved
            assert cluster.used == sum(len(group.workers) for _, group in healed.groups)
            run.append(snapshot)
        seen.append(run)
    assert seen[0] == seen[1]
    assert seen[0]


def test_degrees_are_those_of_the_library_with_rings() -> None:
    for cluster, snapshot in islice(states(Shape(6, 4, uplinks=4, rings=(1, 3)), "seq", 1, 3000), 3):
        degree = {f"r{rack}": value - 4 for rack, value in enumerate(cluster.degree) if value > 4}
        assert over_bound(snapshot) == degree


def test_a_cold_cluster_is_worse_than_a_planned_one() -> None:
    assert over(cold(Shape(16, 8), "seq", 1)) > 1


def test_a_worker_for_each_gpu_keeps_the_racks() -> None:
    snapshot = cold(SMALL, "seq", 2)
    by_gpu = one_worker_a_gpu(snapshot)
    assert over_bound(by_gpu) == over_bound(snapshot)
    assert len(by_gpu.groups[0][1].workers) == 8 * len(snapshot.groups[0][1].workers)


def test_the_papers_program_needs_no_fewer_moves_and_both_solvers_agree() -> None:
    found = islice(states(SMALL, "seq", 5, 3000), 4)
    pairs = rivals.beside([decisions.measured(snapshot)[0] for _, snapshot in found], seconds=60)
    assert pairs
    for sample, answers in pairs:
        assert sample.proved
        assert {answer.status for answer in answers.values()} == {"optimal"}
        assert len({answer.moves for answer in answers.values()}) == 1
        assert (answers["cbc"].moves or 0) >= sample.moves
        assert answers["cbc"].cpu_ms > 0


def test_the_papers_program_knows_one_tier_only() -> None:
    snapshot = one_worker_a_gpu(cold(SMALL, "seq", 2))
    paper.fewest_moves(snapshot)  # slots of a node do not matter to it
    document = monkeytree.dump_snapshot(snapshot)
    document["fabric"] = {"rails": 2}
    with pytest.raises(ValueError, match="one rail"):
        paper.fewest_moves(monkeytree.load_snapshot(document))


def test_quantiles_and_clocks() -> None:
    assert [quantile([4.0, 1.0, 3.0, 2.0], part) for part in (0.0, 0.5, 1.0)] == [1.0, 3.0, 4.0]
    with spending() as spent:
        sum(range(100_000))
    assert spent.own_ms > 0
    assert spent.children_ms == 0


def test_peak_memory_is_our_own() -> None:
    assert 5 < sizes.peak_mb() < 5_000


def test_the_command_line_runs_a_section(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    main(["--quick", "--only", "authors", "--instances", str(tmp_path)])
    assert "no authors-*.json" in capsys.readouterr().out


def test_growth_has_a_point_for_each_place_with_enough_states() -> None:
    samples = [decisions.measured(snapshot)[0] for _, snapshot in islice(states(SMALL, "seq", 5, 3000), 3)]
    (point,) = growth.points({6: samples, 7: samples[:1]})
    assert point.at == 6
    assert len(point.costs) == 3


def test_a_cluster_that_ends_all_its_jobs_is_empty() -> None:
    cluster = Cluster(SMALL, "seq")
    for name, size in (("a", 5), ("b", 6), ("c", 3)):
        cluster.start(name, size, rings=1)
    for name in ("b", "a", "c"):
        cluster.end(name)
    assert cluster.used == 0
    assert cluster.degree == [0] * 6


def test_the_large_packet_case_has_64_flows_of_which_no_two_share_a_link_of_data() -> None:
    scenario = list(packets.cases(1))[-2].scenario
    hops = [hop for flow in scenario["flows"] for hop in pairwise(flow["path"])]
    assert (scenario["hosts"], len(scenario["flows"])) == (1024, 64)
    assert max(Counter(hops).values()) == 1
    assert all(len(flow["path"]) == 5 for flow in scenario["flows"])


def test_packets_are_measured_or_left_out_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    packets.report(0.1, 1)
    said = capsys.readouterr().out
    assert "left out: " in said or "start-up" in said
