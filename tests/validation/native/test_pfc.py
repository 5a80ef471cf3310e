"""What only packets show: pauses, victims behind them, drops without them."""

from __future__ import annotations

import pytest

from monkeytree.validation.profiles import resolve

from .fabrics import Document, fcts, flow, incast, needs_ns3, run, scenario, star

pytestmark = needs_ns3
SMALL = 4 << 20


@pytest.mark.parametrize("profile", ["dcqcn", "pfc_only"])
def test_sixteen_to_one_drops_nothing_with_pfc(profile: str) -> None:
    result = run(incast(16, 2_000_000, gbps=400, profile=profile, buffer_bytes=SMALL))
    totals = result["totals"]
    assert totals["finished"]
    assert totals["drops"] == 0
    assert totals["pauses"] > 0
    assert all(row["retransmits"] == 0 for row in result["flows"])


def test_sixteen_to_one_drops_without_pfc_and_still_ends() -> None:
    result = run(incast(16, 2_000_000, gbps=400, profile="pfc_only", pfc=False, buffer_bytes=SMALL))
    totals = result["totals"]
    assert totals["finished"]
    assert totals["drops"] > 0
    assert totals["pauses"] == 0
    assert sum(row["retransmits"] for row in result["flows"]) >= totals["drops"]


def test_too_little_headroom_drops_in_spite_of_pfc() -> None:
    tight = {"profile": "pfc_only", "buffer_bytes": SMALL, "gbps": 400}
    assert run(incast(16, 2_000_000, headroom_bdp=1, headroom_extra_bytes=0, **tight))["totals"]["drops"] > 0


@pytest.mark.parametrize("senders", [2, 4, 16])
def test_peak_ingress_is_the_threshold_and_what_was_under_way(senders: int) -> None:
    values = resolve({"profile": "pfconly_small"})
    ports = senders + 1
    pool = values["buffer_bytes"] - ports * (3 * 12_500 + 4096)
    threshold = pool / (8 + senders) + 4096
    result = run(incast(senders, 10_030_000, profile="pfconly_small"))
    peak = max(port["max_queue_bytes"] for port in result["ports"]) / senders
    under_way = 2 * 12_500 * (1 - 1 / senders)
    assert abs(peak - threshold - under_way) <= 2 * 1051
    assert max(fcts(result).values()) == pytest.approx(senders * 10_000 * 84.08 + 4100, rel=0.005)


def test_a_timed_pause_that_is_refreshed_loses_nothing() -> None:
    plain = run(incast(8, 2_000_000, profile="pfc_only", buffer_bytes=SMALL))
    timed = run(incast(8, 2_000_000, profile="pfc_only", buffer_bytes=SMALL, pause_us=10))
    assert timed["totals"]["drops"] == 0
    assert timed["totals"]["pauses"] > plain["totals"]["pauses"]  # the refreshes
    assert max(fcts(timed).values()) == pytest.approx(max(fcts(plain).values()), rel=0.02)


def _victim(shared: bool, **params: float | str) -> Document:
    """An incast of 8 over two leaves, and a victim beside one of its senders, to an idle receiver.

    Two spines; the victim takes that of the incast, or the other.
    """
    left, right, spines = 12, 13, (14, 15)
    links = [[host, left if host < 2 else right, 400, 1000] for host in range(12)]
    links += [[leaf, spine, 400, 1000] for leaf in (left, right) for spine in spines]
    flows = [flow("incast", 0, 2, 4_000_000, path=[0, left, spines[0], right, 2])]
    flows += [flow(f"local {host}", host, 2, 4_000_000) for host in range(4, 11)]
    victim = [1, left, spines[0 if shared else 1], right, 3]
    flows.append(flow("victim", 1, 3, 4_000_000, path=victim))
    return scenario(12, [left, right, *spines], links, flows, buffer_bytes=SMALL, **params)


@pytest.mark.parametrize("profile", ["pfc_only", "dcqcn"])
def test_a_victim_is_slowed_on_a_shared_uplink_and_free_on_its_own(profile: str) -> None:
    own = run(_victim(False, profile=profile))
    shared = run(_victim(True, profile=profile))
    lonely = _victim(False, profile=profile)
    alone = fcts(run({**lonely, "flows": lonely["flows"][-1:]}))["victim"]
    assert fcts(own)["victim"] == pytest.approx(alone, rel=0.02)
    # Max-min would give the victim half of the uplink or more.
    assert fcts(shared)["victim"] > (3 if profile == "pfc_only" else 1.05) * alone
    assert own["totals"]["drops"] == shared["totals"]["drops"] == 0


def test_ecn_and_dcqcn_keep_the_queue_below_the_pauses() -> None:
    without = run(incast(4, 10_000_000, profile="pfc_only", buffer_bytes=16 << 20))
    with_it = run(incast(4, 10_000_000, profile="dcqcn", buffer_bytes=16 << 20))
    assert with_it["totals"]["pauses"] < without["totals"]["pauses"]
    assert with_it["totals"]["ecn_marks"] > 0
    assert all(row["cnps"] > 0 for row in with_it["flows"])
    assert without["totals"]["ecn_marks"] == 0


def test_classes_are_paused_apart() -> None:
    # Class 5 to an idle receiver passes the pauses of class 3 on the same uplink.
    document = _victim(True, profile="pfc_only")
    document["flows"][-1]["priority"] = 5
    slow, fast = fcts(run(_victim(True, profile="pfc_only")))["victim"], fcts(run(document))["victim"]
    assert fast < 0.7 * slow


def test_hashed_flows_spread_and_paths_are_kept() -> None:
    links: list[list[float]] = [[host, 16 + host // 8, 100, 1000] for host in range(16)]
    links += [[leaf, spine, 100, 1000] for leaf in (16, 17) for spine in (18, 19)]
    hashed = [flow(at, at, at + 8, 100_000) for at in range(8)]
    used = {
        peer: _sent(run(scenario(16, [16, 17, 18, 19], links, hashed, sample_us=1000)), 16, peer)
        for peer in (18, 19)
    }
    assert min(used.values()) > 0
    steered = [{**each, "path": [each["src"], 16, 18, 17, each["dst"]]} for each in hashed]
    result = run(scenario(16, [16, 17, 18, 19], links, steered, sample_us=1000))
    assert _sent(result, 16, 19) == 0
    # An ACK path of its own.
    other = [{**each, "ack_path": [each["dst"], 17, 19, 16, each["src"]]} for each in steered]
    result = run(scenario(16, [16, 17, 18, 19], links, other, sample_us=1000))
    assert _sent(result, 17, 19) > 0
    assert _sent(result, 17, 18) == 0


def _sent(result: Document, node: int, peer: int) -> int:
    series = [
        p["sent_bytes"][-1] for p in result["samples"]["ports"] if (p["node"], p["peer"]) == (node, peer)
    ]
    return sum(series)


def test_parallel_links_and_hosts_side_by_side_are_fabrics_too() -> None:
    assert fcts(run(scenario(2, [], [[0, 1, 100, 500]], [flow(0, 0, 1, 50_000)])))[0] > 0
    twice = [[0, 2, 400, 100], [1, 3, 400, 100], [2, 3, 100, 100], [2, 3, 100, 100]]
    flows = [flow(at, 0, 1, 200_000) for at in range(8)]
    result = run(scenario(2, [2, 3], twice, flows))
    both = [port for port in result["ports"] if (port["node"], port["peer"]) == (2, 3)]
    assert len(both) == 2
    assert all(port["max_queue_bytes"] > 0 for port in both)


def test_a_run_that_is_cut_short_says_so() -> None:
    result = run(star(2, [flow("long", 0, 1, 10_000_000)], stop_us=100))
    assert result["totals"]["finished"] is False
    assert result["flows"][0]["fct_ns"] is None
