"""The whole loop on an unknown hash: probe Linux routers, learn, plan, and see each flow on its spine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import monkeytree
from monkeytree.checker import check
from monkeytree.plan import Plan
from tests.ecmp.fabric import Fabric, fabric, missing

WHY = missing()
pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))
SPINES, PACKETS = 4, 200


@pytest.fixture
def net() -> Iterator[Fabric]:
    with fabric(SPINES) as made:
        yield made


def snapshot(jobs: str = "AB", uplinks: Any = SPINES, **fabric_: Any) -> dict[str, Any]:
    """The two racks with two nodes each, and jobs of two rings across them: two flows each way a job."""
    racks = [
        {
            "id": f"r{r}",
            "uplinks": uplinks,
            "nodes": {f"n{r}{n}": {"slots": 1, "addresses": [f"10.0.{r}.{n}"]} for n in (1, 2)},
        }
        for r in (0, 1)
    ]
    listed = [
        {"id": name, "replica_groups": [{"id": "0", "rings": 2, "workers": [f"n0{n}", f"n1{n}"]}]}
        for name, n in (("A", 1), ("B", 2))
        if name in jobs
    ]
    return {
        "format": 1, "cluster": "net", "taken_at": "2026-11-29T18:00:00Z", "fabric": fabric_,
        "racks": racks, "jobs": listed,
    }  # fmt: skip


def learned(net: Fabric, folder: Path, before: dict[str, Any], *more: str) -> tuple[dict[str, Any], str]:
    """Probe every pair that a plan may use from both hosts, and learn; what was told besides."""
    files = []
    for place, here, there in (("a", 0, 1), ("b", 1, 0)):
        for n in (1, 2):
            file = folder / f"{place}{n}.json"
            done = net.monkeytree(
                place, "probe", "send", net.host(here, n), net.host(there, n),
                "--count", "60", "--rate", "5000", "--timeout", "2", "--output", str(file),
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            files.append(str(file))
    where, hops = folder / "snapshot.json", folder / "hops.json"
    where.write_text(json.dumps(before))
    hops.write_text(json.dumps(net.hops))
    done = net.monkeytree("a", "probe", "learn", str(where), *files, "--hops", str(hops), *more)
    assert done.returncode == 0, done.stderr
    table: dict[str, Any] = json.loads(done.stdout)
    return table, done.stderr


def steered_share(net: Fabric, plan: Plan) -> float:
    """Send each flow from its port; the part of all packets that left by the uplink intended."""
    on_their_way = sent = 0
    for flow in plan.flows:
        n = 1 if flow.job == "A" else 2
        place, leaf, here = ("a", "l", 0) if flow.from_rack == "r0" else ("b", "m", 1)
        assert flow.uplink is not None
        assert flow.udp_source_port is not None
        before = net.sent_to_spines(leaf)
        label = flow.flow_label or 0
        net.send(place, net.host(here, n), flow.udp_source_port, net.host(1 - here, n), PACKETS, label)
        gone = [now - then for now, then in zip(net.sent_to_spines(leaf), before, strict=True)]
        on_their_way += min(gone[flow.uplink], PACKETS)
        sent += sum(gone)
    assert sent >= PACKETS * len(plan.flows)
    return on_their_way / sent


def test_flows_take_the_spine_they_are_steered_to(net: Fabric, tmp_path: Path) -> None:
    table, said = learned(net, tmp_path, snapshot())
    # Linux's hash is not affine, and it does not choose by modulo: no fit may be used.
    assert {pair["method"] for pair in table["learned"]["pairs"]} == {"probed"}
    assert said.count("not affine") == 4
    assert all(pair["confidence"] > 0.999999 for pair in table["learned"]["pairs"])
    known = monkeytree.load_snapshot(snapshot(hash=table))
    plan = monkeytree.make_plan(known)
    assert (len(plan.flows), plan.unsteered) == (8, ())
    assert check(known, plan) == []
    assert steered_share(net, plan) >= 0.99


@pytest.mark.parametrize("policy", [0, pytest.param(1, marks=pytest.mark.slow)], ids=["labels", "ports"])
def test_over_ipv6_flows_are_steered_by_labels_or_by_ports(policy: int, tmp_path: Path) -> None:
    """By default Linux hashes IPv6 packets by addresses and flow label, and looks at no port at all."""
    with fabric(SPINES, policy) as net:
        before = snapshot()
        for r, rack in enumerate(before["racks"]):
            for n, node in enumerate(rack["nodes"].values(), 1):
                node["addresses"] = [net.host(r, n)]
        table, said = learned(net, tmp_path, before)
        assert {pair["method"] for pair in table["learned"]["pairs"]} == {"probed"}, said
        known = monkeytree.load_snapshot({**before, "fabric": {"hash": table}})
        plan = monkeytree.make_plan(known)
        assert (len(plan.flows), plan.unsteered) == (8, ())
        assert check(known, plan) == []
        assert steered_share(net, plan) >= 0.99


def test_the_table_is_learned_anew_when_a_spine_is_gone(net: Fabric, tmp_path: Path) -> None:
    """Its epoch tells an old table from a new one, and the old one no longer steers."""
    old, _ = learned(net, tmp_path, snapshot())
    file = tmp_path / "old.json"
    file.write_text(json.dumps(old))
    net.cut(3)
    left: dict[str, Any] = {"uplinks": [0, 1, 2], "jobs": "A"}
    stale = monkeytree.make_plan(monkeytree.load_snapshot(snapshot(**left, hash=old)))
    assert [(row.reason, len(row.flows)) for row in stale.unsteered] == [("stale_table", 4)]
    new, _ = learned(net, tmp_path, snapshot(**left), "--table", str(file))
    assert (old["learned"]["version"], new["learned"]["version"]) == (1, 2)
    plan = monkeytree.make_plan(monkeytree.load_snapshot(snapshot(**left, hash=new)))
    assert (len(plan.flows), plan.unsteered) == (4, ())
    assert steered_share(net, plan) >= 0.99


def test_what_cannot_be_probed_is_told(net: Fabric) -> None:
    done = net.monkeytree("a", "probe", "send", "10.9.9.9", "10.0.1.1")
    assert done.returncode == 2
    assert "no address of this host" in done.stderr
    done = net.monkeytree(
        "a", "probe", "send", "10.0.0.1", "10.0.1.1", "--ttl", "9", "--count", "2", "--timeout", "0.1"
    )
    assert done.returncode == 3  # the host itself is reached, which does not answer so
    assert "4 of 4 probes were not answered" in done.stderr
