"""Addresses and hashes in snapshots: what several nodes may not share, and what survives a round trip."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import monkeytree
from monkeytree.errors import InvalidSnapshot
from tests.wire.samples import good


def addressed(first: str, second: str) -> dict[str, Any]:
    document = good()
    for node, address in (("r1n1", first), ("r1n2", second)):
        document["racks"][0]["nodes"][node] = {"slots": 2, "addresses": [address]}
    return document


@pytest.mark.parametrize(
    ("second", "said"),
    [("10.0.0.1", "of node 'r1n1' already"), ("fd00::1", "must be IPv4 as the ones before")],
)
def test_addresses_are_of_one_node_and_of_one_family(second: str, said: str) -> None:
    with pytest.raises(InvalidSnapshot) as refused:
        monkeytree.load_snapshot(addressed("10.0.0.1", second))
    (offence,) = refused.value.offences
    assert offence.pointer == "/racks/0/nodes/r1n2/addresses/0"
    assert said in offence.message


def test_seeds_and_tables_survive_a_round_trip() -> None:
    document = addressed("10.0.0.1", "10.0.0.2")
    document["fabric"]["hash"] = {
        "leaf": {
            "algorithm": "crc32_hi",
            "fields": ["src", "sport"],
            "seed": 7,
            "offset": 3,
            "select": "high",
        },
        "leaf_seeds": {"r1/0": 9},
        "pod_seeds": {"p1/2": 11},
    }
    snapshot = monkeytree.load_snapshot(document)
    dumped = monkeytree.dump_snapshot(snapshot)
    assert dumped["fabric"]["hash"] == document["fabric"]["hash"]
    assert dumped["racks"][0]["nodes"]["r1n1"] == {"slots": 2, "addresses": ["10.0.0.1"]}
    assert monkeytree.load_snapshot(dumped) == snapshot
    other = copy.deepcopy(document)
    other["fabric"]["hash"]["leaf"]["seed"] = 8
    assert monkeytree.snapshot_id(monkeytree.load_snapshot(other)) != monkeytree.snapshot_id(snapshot)


@pytest.mark.parametrize(
    ("hash_", "pointer"),
    [
        ({"leaf": {"algorithm": "crc32"}, "leaf_seeds": {"r1/00": 1}}, "/fabric/hash/leaf_seeds/r1~100"),
        (
            {"leaf": {"algorithm": "crc32"}, "leaf_seeds": {"r1/\u0660": 1}},
            "/fabric/hash/leaf_seeds/r1~1\u0660",
        ),
        (
            {"leaf": {"algorithm": "crc32"}, "leaf_seeds": {"r1/" + "9" * 5000: 1}},
            "/fabric/hash/leaf_seeds/r1~1999",
        ),
        ({"learned": {"01": [49_152], "1": [49_153]}}, "/fabric/hash/learned/pairs/0/ports/01"),
        ({"learned": {"0": [49_152], "1": [49_152]}}, "/fabric/hash/learned/pairs/0/ports/1/0"),
    ],
)
def test_switches_and_uplinks_have_one_name_and_a_port_leads_one_way(hash_: Any, pointer: str) -> None:
    document = addressed("10.0.0.1", "10.0.0.2")
    if "learned" in hash_:
        pairs = [{"src": "10.0.0.1", "dst": "10.0.0.2", "ports": hash_["learned"]}]
        hash_ = {"learned": {"version": 1, "epoch": "any", "pairs": pairs}}
    document["fabric"]["hash"] = hash_
    with pytest.raises(InvalidSnapshot) as refused:
        monkeytree.load_snapshot(document)
    (offence,) = refused.value.offences
    assert offence.pointer.startswith(pointer)


def test_an_address_has_no_zone() -> None:
    with pytest.raises(InvalidSnapshot) as refused:
        monkeytree.load_snapshot(addressed("fe80::1", "fe80::1%eth0"))
    assert [offence.pointer for offence in refused.value.offences] == ["/racks/0/nodes/r1n2/addresses/0"]


@pytest.mark.parametrize("address", ["0.0.0.0", "255.255.255.255", "239.1.1.1", "::", "ff02::1"])
def test_an_address_is_of_one_nic(address: str) -> None:
    with pytest.raises(InvalidSnapshot) as refused:
        monkeytree.load_snapshot(addressed(address, "fd00::1" if ":" in address else "10.0.0.2"))
    (offence,) = refused.value.offences
    assert (offence.pointer, offence.value) == ("/racks/0/nodes/r1n1/addresses/0", address)


def test_a_key_may_have_as_many_bytes_as_the_message_says() -> None:
    document = addressed("10.0.0.1", "10.0.0.2")
    document["fabric"]["hash"] = {"leaf": {"algorithm": "toeplitz", "key": "6d" * 64}}
    snapshot = monkeytree.load_snapshot(document)
    assert monkeytree.dump_snapshot(snapshot)["fabric"]["hash"] == document["fabric"]["hash"]


def test_what_belongs_to_a_computed_hash_does_not_stand_beside_a_table() -> None:
    document = addressed("10.0.0.1", "10.0.0.2")
    document["fabric"]["hash"] = {
        "learned": {"version": 1, "epoch": "any", "pairs": []},
        "pod": {"algorithm": "crc32"},
        "leaf_seeds": {"r1/0": 9},
    }
    with pytest.raises(InvalidSnapshot) as refused:
        monkeytree.load_snapshot(document)
    found = [offence.pointer for offence in refused.value.offences]
    assert found == ["/fabric/hash/pod", "/fabric/hash/leaf_seeds"]
