"""Each bad document is refused with the exact place of what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monkeytree.errors import InvalidSnapshot
from monkeytree.offence_log import MOST_LISTED
from monkeytree.wire.snapshot import load_snapshot, parse_snapshot
from tests.wire.samples import good

GONE = object()
GROUP = "/jobs/0/replica_groups/0"
CRC = {"algorithm": "crc32"}
PAIR = {"src": "10.0.0.1", "dst": "10.0.0.2", "ports": {}}
TABLE = {"version": 1, "epoch": "e", "pairs": []}
PAIRS = "/fabric/hash/learned/pairs"
CASES: list[tuple[str, Any, list[str]]] = [
    # pointer to change, its new value (GONE: removed), pointers of the offences
    ("/format", 2, ["/format"]),
    ("/format", "1", ["/format"]),
    ("/format", True, ["/format"]),
    ("/format", GONE, ["/format"]),
    ("/cluster", "", ["/cluster"]),
    ("/cluster", "x" * 129, ["/cluster"]),
    ("/cluster", "a\nb", ["/cluster"]),
    ("/cluster", "\ud800", ["/cluster"]),
    ("/cluster", None, ["/cluster"]),
    ("/cluster", GONE, ["/cluster"]),
    ("/taken_at", "2026-11-29", ["/taken_at"]),
    ("/taken_at", "2026-11-29T18:00:00", ["/taken_at"]),
    ("/taken_at", "2026-11-29T18:00:00+01:00", ["/taken_at"]),
    ("/taken_at", "2026-02-31T18:00:00Z", ["/taken_at"]),
    ("/taken_at", "2026-11-29T18:00:00Z\n", ["/taken_at"]),
    ("/taken_at", 1_764_439_200, ["/taken_at"]),
    ("/sequence", -1, ["/sequence"]),
    ("/sequence", 1.5, ["/sequence"]),
    ("/sequence", 10**400, ["/sequence"]),
    ("/sequence", True, ["/sequence"]),
    ("/labels", {"a": 1}, ["/labels/a"]),
    ("/labels", {"": "x"}, ["/labels/"]),
    ("/labels", ["a"], ["/labels"]),
    ("/labels", {"a/b~": "\udfff"}, ["/labels/a~1b~0"]),
    ("/colour", "red", ["/colour"]),
    ("/fabric", [], ["/fabric"]),
    ("/fabric", None, ["/fabric"]),
    ("/fabric/nic_gbps", 0, ["/fabric/nic_gbps"]),
    ("/fabric/nic_gbps", float("nan"), ["/fabric/nic_gbps"]),
    ("/fabric/nic_gbps", "400", ["/fabric/nic_gbps"]),
    ("/fabric/uplink_gbps", float("inf"), ["/fabric/uplink_gbps"]),
    ("/fabric/uplink_gbps", -1, ["/fabric/uplink_gbps"]),
    ("/fabric/routing", "magic", ["/fabric/routing"]),
    ("/fabric/rails", 0, ["/fabric/rails"]),
    ("/fabric/rails", 1.5, ["/fabric/rails"]),
    ("/fabric/planes", 2, ["/fabric/planes"]),
    ("/fabric/hash", 3, ["/fabric/hash"]),
    ("/fabric/hash", {}, ["/fabric/hash"]),
    ("/fabric/hash", {"leaf": {}}, ["/fabric/hash/leaf/algorithm"]),
    ("/fabric/hash", {"leaf": {"algorithm": "md5"}}, ["/fabric/hash/leaf/algorithm"]),
    ("/fabric/hash", {"leaf": {**CRC, "fields": []}}, ["/fabric/hash/leaf/fields"]),
    ("/fabric/hash", {"leaf": {**CRC, "fields": ["src", "src"]}}, ["/fabric/hash/leaf/fields/1"]),
    ("/fabric/hash", {"leaf": {**CRC, "fields": ["colour"]}}, ["/fabric/hash/leaf/fields/0"]),
    ("/fabric/hash", {"leaf": {**CRC, "seed": 2**32}}, ["/fabric/hash/leaf/seed"]),
    ("/fabric/hash", {"leaf": {**CRC, "offset": 32}}, ["/fabric/hash/leaf/offset"]),
    ("/fabric/hash", {"leaf": {**CRC, "key": "6d5a"}}, ["/fabric/hash/leaf/key"]),
    ("/fabric/hash", {"leaf": {"algorithm": "toeplitz", "key": "6"}}, ["/fabric/hash/leaf/key"]),
    ("/fabric/hash", {"leaf": CRC, "leaf_seeds": {"r1/1": 3}}, ["/fabric/hash/leaf_seeds/r1~11"]),
    ("/fabric/hash", {"leaf": CRC, "pod_seeds": {"p1/3": 3}}, ["/fabric/hash/pod_seeds/p1~13"]),
    ("/fabric/hash", {"leaf": CRC, "leaf_seeds": {"r1/0": -1}}, ["/fabric/hash/leaf_seeds/r1~10"]),
    ("/fabric/hash", {"leaf": CRC, "learned": TABLE}, ["/fabric/hash"]),
    ("/fabric/hash", {"learned": {**TABLE, "version": 0}}, ["/fabric/hash/learned/version"]),
    ("/fabric/hash", {"learned": {**TABLE, "pairs": [{**PAIR, "src": "1.2"}]}}, [f"{PAIRS}/0/src"]),
    (
        "/fabric/hash",
        {"learned": {**TABLE, "pairs": [{**PAIR, "ports": {"0": [80]}}]}},
        [f"{PAIRS}/0/ports/0/0"],
    ),
    ("/fabric/hash", {"learned": {**TABLE, "pairs": [{**PAIR, "ports": {"x": []}}]}}, [f"{PAIRS}/0/ports/x"]),
    ("/fabric/hash", {"learned": {**TABLE, "pairs": [PAIR, PAIR]}}, [f"{PAIRS}/1"]),
    ("/racks/0/nodes/r1n2/addresses", "10.0.0.1", ["/racks/0/nodes/r1n2/addresses"]),
    ("/racks/0/nodes/r1n2/addresses", ["10.0.0.1", "10.0.0.2"], ["/racks/0/nodes/r1n2/addresses"]),
    ("/racks/0/nodes/r1n2/addresses", ["10.0.0.01"], ["/racks/0/nodes/r1n2/addresses/0"]),
    ("/racks/0/nodes/r1n2/addresses", [7], ["/racks/0/nodes/r1n2/addresses/0"]),
    ("/racks", [], ["/racks"] + [f"{GROUP}/workers/{i}" for i in range(3)]),
    ("/racks", GONE, ["/racks"]),
    ("/racks", {}, ["/racks"]),
    ("/racks/0", 3, ["/racks/0"]),
    ("/racks/0/id", "r2", ["/racks/1/id"]),
    ("/racks/0/id", GONE, ["/racks/0/id"]),
    ("/racks/0/id", 7, ["/racks/0/id"]),
    ("/racks/0/rack", 7, ["/racks/0/rack"]),
    ("/racks/0/uplinks", -1, ["/racks/0/uplinks"]),
    ("/racks/0/uplinks", 5_000, ["/racks/0/uplinks"]),
    ("/racks/0/uplinks", "2", ["/racks/0/uplinks"]),
    ("/racks/0/uplinks", GONE, ["/racks/0/uplinks"]),
    ("/racks/1/uplinks", [0, 2, 0], ["/racks/1/uplinks/2"]),
    ("/racks/1/uplinks", [0, -2, True], ["/racks/1/uplinks/1", "/racks/1/uplinks/2"]),
    ("/racks/0/pod", "p9", ["/racks/0/pod"]),
    ("/racks/0/pod", GONE, ["/racks/0/pod"]),
    ("/racks/0/pod", 1, ["/racks/0/pod"]),
    ("/racks/0/nodes", [], ["/racks/0/nodes"]),
    ("/racks/0/nodes/r1n1", -1, ["/racks/0/nodes/r1n1"]),
    ("/racks/0/nodes/r1n1", 1, ["/racks/0/nodes/r1n1"]),
    ("/racks/0/nodes/r1n1", "two", ["/racks/0/nodes/r1n1"]),
    ("/racks/0/nodes/r1n1", {"slots": 1}, ["/racks/0/nodes/r1n1/slots"]),
    ("/racks/0/nodes/r1n1", {"slots": 2, "held": 1}, ["/racks/0/nodes/r1n1/slots"]),
    ("/racks/0/nodes/r1n1", {"slots": 2, "held": 3}, ["/racks/0/nodes/r1n1/held"]),
    ("/racks/0/nodes/r1n1", {"slots": 2, "held": -1}, ["/racks/0/nodes/r1n1/held"]),
    ("/racks/0/nodes/r1n1", {}, ["/racks/0/nodes/r1n1/slots"]),
    ("/racks/0/nodes/r1n2/cordoned", 1, ["/racks/0/nodes/r1n2/cordoned"]),
    ("/racks/0/nodes/r1n2/drain", "no", ["/racks/0/nodes/r1n2/drain"]),
    ("/racks/0/nodes/r1n2/class", None, ["/racks/0/nodes/r1n2/class"]),
    ("/racks/0/nodes/r1n2/gpu", 1, ["/racks/0/nodes/r1n2/gpu"]),
    ("/racks/0/nodes/r2n1", 2, ["/racks/1/nodes/r2n1"]),
    ("/racks/0/nodes/", 2, ["/racks/0/nodes/"]),
    ("/racks/0/nodes/r1n1", GONE, [f"{GROUP}/workers/0", f"{GROUP}/workers/1"]),
    ("/pods", {}, ["/pods"]),
    ("/pods", [], ["/racks/0/pod", "/racks/1/pod"]),
    ("/pods/0/id", "", ["/pods/0/id"]),
    ("/pods/0/uplinks", -1, ["/pods/0/uplinks"]),
    ("/pods/0/uplinks", [0, 1], ["/pods/0/uplinks"]),
    ("/pods/1", {"id": "p1", "uplinks": 1}, ["/pods/1/id"]),
    ("/jobs", None, ["/jobs"]),
    ("/jobs/0", "A", ["/jobs/0"]),
    ("/jobs/0/id", GONE, ["/jobs/0/id"]),
    ("/jobs/1", {"id": "A", "replica_groups": []}, ["/jobs/1/id"]),
    ("/jobs/0/mobility", "dead", ["/jobs/0/mobility"]),
    ("/jobs/0/mobility", ["live"], ["/jobs/0/mobility"]),
    ("/jobs/0/classes", "h200", ["/jobs/0/classes"]),
    ("/jobs/0/classes", ["h200", 1], ["/jobs/0/classes/1"]),
    ("/jobs/0/labels/tenant", None, ["/jobs/0/labels/tenant"]),
    ("/jobs/0/overlays", [], ["/jobs/0/overlays"]),
    ("/jobs/0/replica_groups", GONE, ["/jobs/0/replica_groups"]),
    ("/jobs/0/replica_groups/1", {"id": "0", "workers": ["r2n2"]}, ["/jobs/0/replica_groups/1/id"]),
    (f"{GROUP}/workers", [], [f"{GROUP}/workers"]),
    (f"{GROUP}/workers", "r1n1", [f"{GROUP}/workers"]),
    (f"{GROUP}/workers/1", "nowhere", [f"{GROUP}/workers/1"]),
    (f"{GROUP}/workers/1", 4, [f"{GROUP}/workers/1"]),
    (f"{GROUP}/rings", -1, [f"{GROUP}/rings"]),
    (f"{GROUP}/rings", 1e300, [f"{GROUP}/rings"]),
    (f"{GROUP}/slots_per_worker", 0, [f"{GROUP}/slots_per_worker"]),
    (f"{GROUP}/slots_per_worker", 2, ["/racks/0/nodes/r1n1"]),
    (f"{GROUP}/state_gb", -0.5, [f"{GROUP}/state_gb"]),
    (f"{GROUP}/traffic_gb", 0, [f"{GROUP}/traffic_gb"]),
    (f"{GROUP}/traffic_gb", "26", [f"{GROUP}/traffic_gb"]),
    (f"{GROUP}/iteration_s", 0, [f"{GROUP}/iteration_s"]),
    (f"{GROUP}/iteration_s", 5e-324, [f"{GROUP}/iteration_s"]),
    ("/jobs/0/remaining_s", -1, ["/jobs/0/remaining_s"]),
    ("/planning/trigger", "never", ["/planning/trigger"]),
    ("/pending", {}, ["/pending"]),
    ("/pending", [{"id": "P", "workers": 0}], ["/pending/0/workers"]),
    ("/pending", [{"id": "P", "workers": 1, "classes": [7]}], ["/pending/0/classes/0"]),
    ("/pending", [{"id": "P", "workers": 1, "submitted_at": "now"}], ["/pending/0/submitted_at"]),
    (
        "/pending",
        [{"id": "P", "workers": 1}, {"id": "P", "workers": 1, "x": 2}],
        ["/pending/1/x", "/pending/1/id"],
    ),
    ("/pending", [{"id": "A", "workers": 1}], ["/pending/0/id"]),
    (f"{GROUP}/state_gb", float("inf"), [f"{GROUP}/state_gb"]),
    (f"{GROUP}/state_gb", False, [f"{GROUP}/state_gb"]),
    (f"{GROUP}/order", [0, 1], [f"{GROUP}/order"]),
    (f"{GROUP}/order", [0, 1, 1], [f"{GROUP}/order"]),
    (f"{GROUP}/order", [0, 1, 3], [f"{GROUP}/order"]),
    (f"{GROUP}/order", [0, 1, -1], [f"{GROUP}/order/2"]),
    (f"{GROUP}/order", [0, 1, "2"], [f"{GROUP}/order/2"]),
    (f"{GROUP}/order_fixed", "yes", [f"{GROUP}/order_fixed"]),
    (f"{GROUP}/pinned", [0, 0], [f"{GROUP}/pinned/1"]),
    (f"{GROUP}/pinned", [1, 3], [f"{GROUP}/pinned/1"]),
    (f"{GROUP}/pinned", None, [f"{GROUP}/pinned"]),
    (f"{GROUP}/kind", "star", [f"{GROUP}/kind"]),
    ("/planning/objective", "speed", ["/planning/objective"]),
    ("/planning/time_limit_s", 0, ["/planning/time_limit_s"]),
    ("/planning/time_limit_s", 86_401, ["/planning/time_limit_s"]),
    ("/planning/solver", "", ["/planning/solver"]),
    ("/planning/max_moves", -1, ["/planning/max_moves"]),
    ("/planning/previous_plan_id", 5, ["/planning/previous_plan_id"]),
    ("/planning/pause_overhead_s", -1, ["/planning/pause_overhead_s"]),
    ("/planning/restart_s", float("nan"), ["/planning/restart_s"]),
    ("/planning/restarts", 1, ["/planning/restarts"]),
]


def change(document: dict[str, Any], pointer: str, value: Any) -> None:
    """Set or remove the member at ``pointer``; a list grows by one where it points past the end."""
    *path, last = pointer.split("/")[1:]
    at: Any = document
    for step in path:
        at = at[int(step)] if isinstance(at, list) else at[step]
    if isinstance(at, list):
        at[int(last) : int(last) + 1] = [value]
    elif value is GONE:
        del at[last]
    else:
        at[last] = value


def pointers(document: Any) -> list[str]:
    with pytest.raises(InvalidSnapshot) as caught:
        load_snapshot(document)
    json.dumps([offence.value for offence in caught.value.offences], allow_nan=False).encode()
    str(caught.value).encode()
    return [offence.pointer for offence in caught.value.offences]


@pytest.mark.parametrize(("pointer", "value", "expected"), CASES)
def test_the_place_of_an_offence(pointer: str, value: Any, expected: list[str]) -> None:
    document = good()
    change(document, pointer, value)
    assert pointers(document) == expected


def test_what_is_wrong_is_told_all_at_once_across_shape_and_meaning() -> None:
    document = good()
    for pointer, value in [
        ("/format", 3),
        ("/cluster", 5),
        ("/racks/0/uplinks", None),
        ("/racks/1/id", "r1"),
        ("/racks/0/nodes/r1n2", {"slots": "many"}),
        (f"{GROUP}/workers/2", "nowhere"),
        (f"{GROUP}/order", [2, 2, 2]),
        ("/planning/max_moves", -3),
        ("/extra", 1),
        ("/planes", 1),
    ]:
        change(document, pointer, value)
    assert sorted(pointers(document)) == sorted(
        [
            "/format", "/cluster", "/racks/0/uplinks", "/racks/1/id", "/racks/0/nodes/r1n2/slots",
            f"{GROUP}/workers/2", f"{GROUP}/order", "/planning/max_moves", "/extra", "/planes",
        ]
    )  # fmt: skip


def test_an_offence_shows_its_value_and_the_rule() -> None:
    document = good()
    change(document, "/racks/0/nodes/r1n1", {"slots": 4, "held": 3})
    with pytest.raises(InvalidSnapshot) as caught:
        load_snapshot(document)
    (offence,) = caught.value.offences
    assert offence.message == "workers occupy 2 slots of a node with 4, 3 of them held"
    assert offence.value == 4
    assert "/racks/0/nodes/r1n1/slots" in str(caught.value)


def test_a_long_list_of_offences_is_cut_and_counted() -> None:
    document = good()
    document["jobs"][0]["replica_groups"][0] = {"id": "0", "workers": [f"x{i}" for i in range(5_000)]}
    with pytest.raises(InvalidSnapshot) as caught:
        load_snapshot(document)
    assert len(caught.value.offences) == MOST_LISTED + 1
    assert caught.value.offences[-1].value == 4_000
    document["jobs"] = [7] * 3_000
    with pytest.raises(InvalidSnapshot) as caught:
        load_snapshot(document)
    assert caught.value.offences[-1].value == 2_000


@pytest.mark.parametrize("document", [[], 3, None, "x", True, 1.5])
def test_a_document_that_is_no_object(document: Any) -> None:
    with pytest.raises(InvalidSnapshot) as caught:
        parse_snapshot(json.dumps(document))
    assert [offence.pointer for offence in caught.value.offences] == [""]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", [""]),
        (b'{"a": 1,\n "b": }', [""]),
        (b'{"a": "\xff"}', [""]),
        (b"[" * 100_000, [""]),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, [""]),
        (b"7" * 10_000, [""]),
    ],
)
def test_text_that_is_no_json(text: bytes, expected: list[str]) -> None:
    with pytest.raises(InvalidSnapshot) as caught:
        parse_snapshot(text)
    assert [offence.pointer for offence in caught.value.offences] == expected


def test_a_syntax_error_names_line_and_column() -> None:
    with pytest.raises(InvalidSnapshot, match="line 2, column 7"):
        parse_snapshot('{"a": 1,\n "b": }')


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"r1n1": 2', '"r1n1": 2, "r1n1": 2', ["/racks/0/nodes/r1n1"]),
        ('"cluster"', '"cluster": "x", "cluster"', ["/cluster"]),
        ('"tenant": "t1"', '"a/b": "1", "a/b": "2"', ["/jobs/0/labels/a~1b"]),
        ('"nic_gbps": 400', '"nic_gbps": NaN', ["/fabric/nic_gbps"]),
        ('"nic_gbps": 400', '"nic_gbps": -Infinity', ["/fabric/nic_gbps"]),
        ('"nic_gbps": 400', '"nic_gbps": 1e999', ["/fabric/nic_gbps"]),
        ('"sequence": 41', '"sequence": ' + "9" * 6_000, ["/sequence"]),
        ('"sequence": 41', '"sequence": 1, "sequence": -1', ["/sequence", "/sequence"]),
        ('"prod-east"', '"\\ud800"', ["/cluster"]),
    ],
)
def test_text_that_python_would_let_pass(old: str, new: str, expected: list[str]) -> None:
    text = json.dumps(good())
    assert old in text
    with pytest.raises(InvalidSnapshot) as caught:
        parse_snapshot(text.replace(old, new))
    assert [offence.pointer for offence in caught.value.offences] == expected
