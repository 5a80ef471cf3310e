"""Times that can be worked out by hand, and what is never lost."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

from monkeytree.validation.profiles import resolve

from .fabrics import Document, fcts, flow, incast, needs_ns3, run, scenario, star

pytestmark = needs_ns3
EXACT = 1e-4


def _fct_ns(size: int, links: list[tuple[float, float]], params: dict[str, float]) -> float:
    """Frames through a chain of store-and-forward links (gbps, delay_ns), and the last ACK back."""
    payload = params["payload_bytes"]
    frames = [payload] * int(size // payload) + ([size % payload] if size % payload else [])
    over = params["header_bytes"] + params["wire_overhead_bytes"]
    here = [0.0] * len(frames)  # when each frame is whole at this node
    for gbps, delay in links:
        free, there = 0.0, []
        for ready, part in zip(here, frames, strict=True):
            free = max(free, ready) + (part + over) * 8 / gbps
            there.append(free + delay)
        here = there
    ack = (params["ack_bytes"] + params["wire_overhead_bytes"]) * 8
    return here[-1] + sum(ack / gbps + delay for gbps, delay in links)


@pytest.mark.parametrize("profile", ["dcqcn", "pfc_only", "hpcc", "paper_mtu4000"])
def test_a_flow_alone_takes_what_its_wire_takes(profile: str) -> None:
    # Chains of one to five links side by side, none slower than the one before it: no queue but the first.
    draw = random.Random(7)
    hosts, links, flows, want = 16, [], [], {}
    switches: list[int] = []
    params = resolve({"profile": profile})
    for at in range(0, hosts, 2):
        rates = sorted(draw.choice([25, 40, 100, 200, 400]) for _ in range(draw.randint(1, 5)))
        ways = [(float(rate), float(draw.randint(0, 5000))) for rate in rates]
        inner = [hosts + len(switches) + i for i in range(len(ways) - 1)]
        switches += inner
        nodes = [at, *inner, at + 1]
        links += [[a, b, *way] for a, b, way in zip(nodes, nodes[1:], ways, strict=False)]
        size = draw.randint(1, 3_000_000)
        flows.append(flow(at, at, at + 1, size))
        want[at] = _fct_ns(size, ways, params)
    got = fcts(run(scenario(hosts, switches, links, flows, profile=profile, buffer_bytes=2**30)))
    assert got == pytest.approx(want, rel=EXACT)


def test_the_reference_formula() -> None:
    got = fcts(run(star(2, [flow("only", 0, 1, 10_030_000)], profile="pfconly")))
    assert got["only"] == pytest.approx(10_000 * 84.08 + 84.08 + 4000 + 2 * 4.8, rel=EXACT)


def test_dependent_steps_follow_each_other() -> None:
    flows = [flow("first", 0, 1, 1_000_000), flow("second", 1, 2, 1_000_000, after=["first"])]
    result = run(star(3, flows))
    alone = fcts(run(star(3, flows[:1])))["first"]
    first, second = result["flows"]
    assert first["fct_ns"] == alone
    assert second["fct_ns"] == pytest.approx(alone + 86 * 8 / 100)  # behind the last ACK of the first
    # It starts when the last byte has come, one ACK's way before the first is finished.
    assert second["start_ns"] == pytest.approx(alone - 2000 - 2 * 86 * 8 / 100, abs=0.01)


@pytest.mark.parametrize("pfc", [1, 0])
def test_bytes_are_conserved(pfc: int) -> None:
    params = {"buffer_bytes": 2 << 20, "profile": "pfc_only", "pfc": pfc, "sample_us": 100}
    result = run(incast(8, 2_000_000, **params))
    sent = {(port["node"], port["peer"]): port["sent_bytes"][-1] for port in result["samples"]["ports"]}
    frames, rest = divmod(2_000_000, 4096)
    once = frames * (4096 + 62) + rest + 62
    retransmits = sum(row["retransmits"] for row in result["flows"])
    assert (result["totals"]["drops"] > 0) == (retransmits > 0) == (not pfc)
    total = sum(sent[host, 9] for host in range(8))
    least, most = (retransmits * (part + 62) for part in (rest, 4096))
    assert 8 * once + least <= total <= 8 * once + most
    if pfc:
        assert total == 8 * once == sent[9, 8]


def test_the_same_seed_gives_the_same_result_to_the_bit() -> None:
    document = incast(4, 3_000_000, profile="hpcc", seed=3)
    results = [_timeless(run(document)) for _ in range(2)]
    # Two runs in one process, after another scenario has used up random numbers.
    script = (
        "import json, sys\n"
        "from monkeytree.validation.child import simulate\n"
        "from monkeytree.validation.scenario_document import read_scenario\n"
        "other, this = json.load(sys.stdin)\n"
        "out = [simulate(read_scenario(each)) for each in (this, other, this)]\n"
        "print(json.dumps([out[0], out[2]]))\n"
    )
    both = json.dumps([incast(3, 1_000_000, profile="hpcc"), document])
    done = subprocess.run(
        [sys.executable, "-c", script], input=both, capture_output=True, text=True, check=True
    )
    results += [_timeless(result) for result in json.loads(done.stdout)]
    assert all(result == results[0] for result in results)
    assert _timeless(run(incast(4, 3_000_000, profile="hpcc", seed=4))) != results[0]


def _timeless(result: Document) -> Document:
    return {**result, "totals": {**result["totals"], "cpu_s": 0}}
