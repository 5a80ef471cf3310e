"""RoCEv2 over IPv6: addresses of 16 bytes, and the flow label in the header, which switches may hash too."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import monkeytree
from monkeytree.agent.labels import parse_table
from monkeytree.checker import check
from monkeytree.ecmp import exports
from monkeytree.ecmp.known import KnownWays
from monkeytree.ecmp.label import FIRST_PORT, LAST_PORT, PORTS, label_of_port, port_of_label
from monkeytree.ecmp.learn import Probe, learn, probes_needed, table_of
from monkeytree.ecmp.search import find_port, matching_ports
from monkeytree.ecmp.stage import Packet, choose, hash_value
from monkeytree.ecmp.ways import Choice
from monkeytree.errors import InvalidSnapshot
from monkeytree.fabric_hash import FIVE_TUPLE, HashField, HashStage
from tests.checker.test_steering import ALGORITHMS, fabric, planned
from tests.cli.running import monkeytree as command
from tests.cli.running import write

PAIR = ("fd00::1", "fd00:0:1::2")
LABELLED: tuple[HashField, ...] = (*FIVE_TUPLE, "flow_label")
#: As Google's P4 model of switches hashes IPv6: the label, the addresses, the ports.
LABEL_FIRST: tuple[HashField, ...] = ("flow_label", "src", "dst", "sport", "dport")


def six(hash_: Any, **options: Any) -> dict[str, Any]:
    """The fabric of the checker's tests with IPv6 addresses."""
    document = fabric(hash_, **options)
    for rack in document["racks"]:
        for node in rack["nodes"].values():
            old = [[int(part) for part in address.split(".")] for address in node["addresses"]]
            node["addresses"] = [f"fd00:{a}:{b + 1}:{c + 1}::{d}" for a, b, c, d in old]
    return document


def labelled(algorithm: str, **members: Any) -> dict[str, Any]:
    return {"algorithm": algorithm, "fields": list(LABELLED), **members}


@pytest.mark.parametrize("fields", [LABEL_FIRST, ("src", "dst", "flow_label")], ids=["ports too", "labels"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_ports_found_are_those_that_hit_and_no_others(algorithm: Any, fields: Any) -> None:
    """With the label of each port: that of the first port, 0x4001, is out of line with all others."""
    rng = random.Random(f"{algorithm}/{fields}")
    for counts in ((4,), (6,), (2, 8), (3, 4)) if algorithm != "murmur3" else ((2, 8),):
        choices = [
            Choice(
                HashStage(
                    algorithm if at == 0 else "crc32", fields, seed=rng.randrange(2**16), offset=3 * at,
                    select=rng.choice(["modulo", "high"]),
                ),
                tuple(range(count)),
            )
            for at, count in enumerate(counts)
        ]  # fmt: skip
        targets = [(choice, rng.randrange(len(choice.uplinks))) for choice in choices]
        found = list(matching_ports(Packet(*PAIR, 0), targets))
        assert len(found) == len(set(found))
        others = rng.sample(range(FIRST_PORT, LAST_PORT + 1), 60)
        for port in {FIRST_PORT, LAST_PORT, *found[:20], *found[-5:], *others}:
            packet = Packet(*PAIR, port)
            hits = [choose(c.stage, hash_value(c.stage, packet), len(c.uplinks)) == at for c, at in targets]
            assert all(hits) == (port in found)


def test_the_label_of_the_header_is_the_one_that_gives_the_port() -> None:
    stage = HashStage("crc32", ("flow_label",))
    for port in (FIRST_PORT, FIRST_PORT + 1, 50_000, LAST_PORT):
        given = replace(Packet(*PAIR, port), flow_label=label_of_port(port))
        assert hash_value(stage, Packet(*PAIR, port)) == hash_value(stage, given)
    assert hash_value(stage, Packet(*PAIR, 50_000, flow_label=0)) != hash_value(stage, Packet(*PAIR, 50_000))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_plans_over_ipv6_are_steered_checked_and_exported(algorithm: str) -> None:
    rng, pods = random.Random(algorithm), bool(ALGORITHMS.index(algorithm) % 2)
    leaf = labelled(algorithm, seed=rng.randrange(2**32), select=rng.choice(["modulo", "high"]))
    document = six({"leaf": leaf, "pod": labelled("crc32", offset=5)}, pods=pods, rails=2)
    snapshot, plan = planned(document)
    assert check(snapshot, plan) == []
    found = exports.routes(snapshot, plan)
    lost = {index for row in plan.unsteered for index in row.flows}
    assert len(found) == len(plan.flows) - len(lost) > 0
    # A fold by XOR sees the low bits of port and label, which are the same: they cancel out.
    assert len(lost) < len(found) or "xor" in algorithm
    lines = exports.as_lines(found)
    ports = parse_table(lines)
    assert sum(map(len, ports.values())) == len(found)
    assert all(line.count(":") > 2 and line.startswith("fd00:10:") for line in lines.splitlines())
    for route in found:
        assert route.port in ports[route.src_ip, route.dst_ip]
        assert port_of_label(route.flow_label) == route.port
    for node, body in exports.for_agents(found, 3).items():
        rows = exports.by_node(found)[node]
        ends = [(row["src_ip"], row["dst_ip"], row["port"]) for row in rows]
        assert [(row["src_ip"], row["dst_ip"], row["port"]) for row in body["routes"]] == ends


def test_the_command_writes_ipv6_as_it_is(tmp_path: Path) -> None:
    document = six({"leaf": labelled("crc32")})
    snapshot, plan = planned(document)
    files = write(tmp_path / "s.json", document), write(tmp_path / "p.json", monkeytree.dump_plan(plan))
    done = command("routes", *files)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == exports.as_lines(exports.routes(snapshot, plan))
    assert re.fullmatch(r"(fd00:[0-9a-f:]+,fd00:[0-9a-f:]+=[0-9]{5}(,[0-9]{5})*\n)+", done.stdout)


def test_the_checker_wants_the_label_that_tables_stand_for_where_switches_hash_it() -> None:
    """A table has ports: another label of the same port would be hashed elsewhere, and never be applied."""
    for fields, codes in ((list(LABELLED), {"label_wrong"}), (list(FIVE_TUPLE), set())):
        snapshot, plan = planned(six({"leaf": {"algorithm": "crc32", "fields": fields}}))
        port = plan.flows[0].udp_source_port
        high = 5 << 14
        label = high | ((port & 0x3FFF) ^ 5)
        assert port_of_label(label) == port
        other = replace(plan, flows=(replace(plan.flows[0], flow_label=label), *plan.flows[1:]))
        assert {fault.code for fault in check(snapshot, other)} == codes


def test_the_checker_finds_a_wrong_port_and_a_wrong_excuse_under_labels() -> None:
    snapshot, plan = planned(six({"leaf": labelled("crc16_ccitt")}))
    flow = plan.flows[0]
    stage = HashStage("crc16_ccitt", LABELLED)
    ends = next(r for r in exports.routes(snapshot, plan) if r.port == flow.udp_source_port)
    wrong = next(
        port
        for port in range(FIRST_PORT, LAST_PORT)
        if choose(stage, hash_value(stage, Packet(ends.src_ip, ends.dst_ip, port)), 4) != ends.uplink
    )
    bad = replace(flow, udp_source_port=wrong, flow_label=label_of_port(wrong))
    at = next(i for i, f in enumerate(plan.flows) if f.udp_source_port == ends.port)
    faults = check(snapshot, replace(plan, flows=(*plan.flows[:at], bad, *plan.flows[at + 1 :])))
    assert {fault.code for fault in faults} == {"port_wrong_uplink"}
    excused = replace(flow, udp_source_port=None, flow_label=None)
    row = monkeytree.plan.Unsteered("polarised", (0,))
    faults = check(snapshot, replace(plan, flows=(excused, *plan.flows[1:]), unsteered=(row,)))
    assert {fault.code for fault in faults} == {"unsteered_false"}


@pytest.mark.parametrize("fields", [FIVE_TUPLE, LABELLED], ids=["ports", "ports and label"])
def test_a_hash_over_labels_is_learned_and_known_of_every_port(fields: Any) -> None:
    stage, rng = HashStage("crc32_hi", fields, seed=5), random.Random(1)

    def way(port: int) -> int:
        return choose(stage, hash_value(stage, Packet(*PAIR, port)), 8)

    ports = [FIRST_PORT, *rng.sample(range(FIRST_PORT + 1, LAST_PORT + 1), probes_needed(8) + 4)]
    sent = [Probe(*PAIR, port, way(port)) for port in ports]
    (learned,) = learn(sent, {PAIR: range(8)})
    assert learned.pair.method == "affine", learned.why
    known = KnownWays(table_of([learned], "epoch"))
    # The first port is known by its probe alone, as its label is out of line; all others by the fit.
    assert [known.uplink(*PAIR, FIRST_PORT + at, range(8)) for at in range(1, PORTS)] == [
        way(FIRST_PORT + at) for at in range(1, PORTS)
    ]
    listed = {port: uplink for uplink, some in learned.pair.ports.items() for port in some}
    assert known.uplink(*PAIR, FIRST_PORT, range(8)) == listed.get(FIRST_PORT)
    assert all(way(port) == uplink for port, uplink in listed.items())
    assert known.uplink("fd00::1", "fd00::9", 50_000, range(8)) is None
    assert known.uplink(*PAIR, 4_000, range(8)) is None


def test_a_table_knows_every_port_though_it_lists_the_first_one() -> None:
    """Its label is out of line with the others', so it is none of the ports that determine the fit."""
    stage = HashStage("crc32", LABELLED, seed=7)

    def way(port: int) -> int:
        return choose(stage, hash_value(stage, Packet(*PAIR, port)), 2)

    for seed in range(30):
        rng = random.Random(seed)
        ports = [FIRST_PORT, *rng.sample(range(FIRST_PORT + 1, LAST_PORT + 1), 60)]
        (learned,) = learn([Probe(*PAIR, port, way(port)) for port in ports], {PAIR: (0, 1)})
        known, some = (
            KnownWays(table_of([learned], "epoch")),
            rng.sample(range(FIRST_PORT + 1, LAST_PORT), 50),
        )
        assert [known.uplink(*PAIR, port, (0, 1)) for port in some] == [way(port) for port in some], seed


def test_a_fit_that_its_ports_contradict_is_not_believed() -> None:
    stage = HashStage("crc32", seed=5)
    sent = [
        Probe(*PAIR, port, choose(stage, hash_value(stage, Packet(*PAIR, port)), 4))
        for port in random.Random(2).sample(range(50_000, 60_000), 60)
    ]
    (learned,) = learn(sent, {PAIR: range(4)})
    table = table_of([learned], "epoch")
    first, second, *_ = table.pairs[0].ports
    ports = dict(table.pairs[0].ports)
    ports[first], ports[second] = (*ports[first], ports[second][0]), ports[second][1:]
    edited = replace(table, pairs=(replace(table.pairs[0], ports=ports),))
    unlisted = next(
        port for port in range(60_000, 60_100) if not any(port in some for some in ports.values())
    )
    assert KnownWays(table).uplink(*PAIR, unlisted, range(4)) is not None
    assert KnownWays(edited).uplink(*PAIR, unlisted, range(4)) is None


@pytest.mark.parametrize("stage", ["leaf", "pod"])
def test_ipv4_has_no_flow_label_to_hash(stage: str) -> None:
    hash_ = {"leaf": {"algorithm": "crc32"}, stage: labelled("crc32")}
    with pytest.raises(InvalidSnapshot) as refused:
        monkeytree.load_snapshot(fabric(hash_))
    (offence,) = refused.value.offences
    assert offence.pointer == f"/fabric/hash/{stage}/fields/5"
    assert offence.message == "is a field of IPv6 headers, and the addresses are IPv4"
    assert monkeytree.load_snapshot(six(hash_)).fabric.hash


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("fd00::7", "must be IPv4 as the ones before"),
        ("::ffff:10.0.0.7", "must be an IP address, written the shortest way"),
        ("::ffff:a00:7", "must be an IP address, written the shortest way"),
    ],
)
def test_one_fabric_has_one_family(address: str, said: str) -> None:
    document = fabric({"leaf": {"algorithm": "crc32"}})
    document["racks"][3]["nodes"]["n31"]["addresses"] = [address]
    with pytest.raises(InvalidSnapshot) as refused:
        monkeytree.load_snapshot(document)
    (offence,) = refused.value.offences
    assert (offence.pointer, said in offence.message) == ("/racks/3/nodes/n31/addresses/0", True)


def test_a_learned_pair_has_one_family() -> None:
    pairs = [{"src": "10.0.0.1", "dst": "fd00::1", "ports": {}}]
    document = fabric({"learned": {"version": 1, "epoch": "e", "pairs": pairs}})
    with pytest.raises(InvalidSnapshot, match="must be of the family of src"):
        monkeytree.load_snapshot(document)


def test_find_port_takes_the_queue_pair_over_ipv6_too() -> None:
    choice = Choice(HashStage("crc32", (*LABELLED, "dst_qp")), (0, 1, 2, 3))
    packet = Packet(*PAIR, 0, dst_qp=77)
    port = find_port(packet, [(choice, 2)])
    assert port is not None
    assert choose(choice.stage, hash_value(choice.stage, replace(packet, sport=port)), 4) == 2
