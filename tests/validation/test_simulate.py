"""Apart or together: cut, batched, reused and put together again without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import monkeytree
from monkeytree.snapshot import Snapshot
from monkeytree.validation.grouping import components
from monkeytree.validation.piece import combine, cut_piece, take_apart
from monkeytree.validation.scenario import traffic_before
from monkeytree.validation.simulate import BATCH_WORK, Outcome
from monkeytree.validation.traffic import Knobs, hashed, jobs_alone
from tests.validation.cases import job, simulator, small
from tests.validation.fluid import BUFFERS, Fluid
from tests.wire.samples import snapshots

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
AS_IS = Knobs()


def fcts(outcome: Outcome) -> list[float | None]:
    return [None if flow is None else flow.fct_ns for flow in outcome.flows]


@quick
@given(snapshots())
def test_apart_is_the_same_as_together(snapshot: Snapshot) -> None:
    before = traffic_before(snapshot, AS_IS)
    traffics = [before, hashed(before, 3), *jobs_alone(before, snapshot.fabric.flows_per_uplink).values()]
    apart = simulator().outcomes(traffics)
    together = simulator(apart=False).outcomes(traffics)
    for one, other in zip(apart, together, strict=True):
        assert [fct or -1 for fct in fcts(one)] == pytest.approx([fct or -1 for fct in fcts(other)], rel=1e-9)
        assert one.ports == other.ports


def test_rings_that_share_nothing_are_apart_and_equal_ones_run_once() -> None:
    snapshot = small(*(job(f"J{rack}", f"{rack}.0 {rack}.1 {rack}.2") for rack in range(4)), racks=4)
    traffic = traffic_before(snapshot, AS_IS)
    assert [len(members) for members in components(traffic)] == [3, 3, 3, 3]
    run = Fluid()
    outcome = (sim := simulator(run)).outcomes([traffic])[0]
    assert outcome.parts == 4
    assert (len(run.ran), len(run.ran[0]["flows"]), sim.meter.reused) == (1, 3, 3)
    assert len(set(fcts(outcome))) == 1


def test_parts_with_draws_in_them_are_never_reused() -> None:
    pairs = [job(f"{a}{n}", f"{a}.{n} {b}.{n}") for a, b in ((0, 1), (2, 3)) for n in (0, 1)]
    traffic = traffic_before(small(*pairs, racks=4, uplinks=1), AS_IS)
    run = Fluid()
    simulator(run).outcomes([traffic])
    assert [len(scenario["flows"]) for scenario in run.ran] == [4, 4]


def test_data_and_acks_of_others_count_as_sharing() -> None:
    """A's flow from r0 to r1 and B's from r1 to r0 meet on spine 0 only through their ACKs."""
    traffic = traffic_before(small(job("A", "0.0 1.0"), job("B", "0.1 1.1")), AS_IS)
    assert len(components(traffic)) <= 2
    ways = {frozenset(flow.hops[1:-1]) for flow in traffic.flows}
    assert len(ways) == 4


def test_parts_that_meet_in_a_full_buffer_are_simulated_together() -> None:
    snapshot = small(job("A", "0.0 0.1"), job("B", "0.2 0.3"))
    traffic = traffic_before(snapshot, AS_IS)
    calm = simulator().outcomes([traffic])[0]
    assert (calm.parts, calm.rerun) == (2, 0)
    pool = BUFFERS.pool(traffic.network, traffic.network.leaf(("r0", 0)))
    full = int(pool * BUFFERS.alpha * 0.7)  # a port alone is below its threshold, with three others above
    assert full < BUFFERS.alpha * (pool - 2 * full)
    joined = simulator(Fluid(ingress_bytes=full)).outcomes([traffic])[0]
    assert (joined.parts, joined.rerun) == (1, 2)
    assert fcts(joined) == pytest.approx(fcts(calm))


def test_work_is_spread_over_processes_and_the_split_does_not_depend_on_their_number() -> None:
    snapshot = monkeytree.load_snapshot(EXAMPLES / "lingjun847_bestfit_load95.json")
    traffic = traffic_before(snapshot, Knobs(scale=10))
    runs = [Fluid(), Fluid()]
    outcomes = [simulator(run, workers=n).outcomes([traffic])[0] for run, n in zip(runs, (1, 3), strict=True)]
    assert outcomes[0] == outcomes[1]
    key = str
    assert sorted(map(key, runs[0].ran)) == sorted(map(key, runs[1].ran))
    assert len(runs[0].ran) > 1
    work = [
        sum(flow["bytes"] * (len(flow["path"]) - 1) for flow in scenario["flows"]) for scenario in runs[0].ran
    ]
    assert sum(work) > BATCH_WORK


def test_drops_of_a_batch_are_told_apart() -> None:
    snapshot = small(job("A", "0.0 0.1"), job("B", "1.0 1.1 1.2"))
    run = Fluid(drops=3)
    outcome = simulator(run).outcomes([traffic_before(snapshot, AS_IS)])[0]
    assert [len(scenario["flows"]) for scenario in run.ran] == [5, 3, 2]
    assert outcome.drops == 6


def test_switches_keep_their_idle_ports() -> None:
    snapshot = small(job("A", "0.0 1.0"), job("B", "0.1 0.2"), job("C", "0.3 1.1"))
    traffic = traffic_before(snapshot, AS_IS)
    piece = cut_piece(traffic, [2])
    assert traffic.flows[2].job == "B"
    scenario = combine([piece], {"profile": "dcqcn"})
    leaf = scenario["switches"][0]
    assert sum(leaf in link[:2] for link in scenario["links"]) == len(
        traffic.network.ports[traffic.network.leaf(("r0", 0))]
    )


def test_steps_wait_for_their_own_part_and_the_one_before_in_the_ring() -> None:
    traffic = traffic_before(small(job("A", "0.0 0.1 1.0")), Knobs(flow_bytes=9, steps=2))
    piece = cut_piece(traffic, [0, 1, 2])
    assert [flow["bytes"] for flow in piece.flows] == [5] * 6
    assert [flow["after"] for flow in piece.flows] == [[], [], [], [0, 2], [0, 1], [1, 2]]
    whole = simulator().outcomes([traffic_before(small(job("A", "0.0 0.1 1.0")), AS_IS)])[0]
    stepped = simulator().outcomes([traffic_before(small(job("A", "0.0 0.1 1.0")), Knobs(steps=5))])[0]
    assert fcts(stepped) == pytest.approx(fcts(whole), rel=0.02)  # latencies


def test_results_find_their_way_back() -> None:
    traffic = traffic_before(small(job("A", "0.0 1.0"), job("B", "0.1 0.2")), AS_IS)
    pieces = [cut_piece(traffic, members) for members in components(traffic)]
    result = Fluid()(combine(pieces, {}), timeout_s=1)
    result["flows"].reverse()
    for piece, own in zip(pieces, take_apart(pieces, result), strict=True):
        ends = {(piece.nodes[a], piece.nodes[b]) for a, b in own.ports}
        assert ends >= {hop for index in piece.members for hop in traffic.flows[index].hops}
        assert len(own.flows) == len(piece.members)


def test_a_runner_that_fails_ends_it_all() -> None:
    def fail(scenario: object, **options: object) -> dict[str, object]:
        raise RuntimeError("no simulator here")

    sim = simulator()
    sim.run = fail
    with pytest.raises(RuntimeError, match="no simulator here"):
        sim.outcomes([traffic_before(small(job("A", "0.0 1.0")), AS_IS)])


def test_flows_without_a_way_have_no_result() -> None:
    snapshot = small(job("A", "0.0 1.0"), job("B", "0.1 0.2"), uplinks=0)
    outcome = simulator().outcomes([traffic_before(snapshot, AS_IS)])[0]
    assert [flow is None for flow in outcome.flows] == [True, True, False, False]
