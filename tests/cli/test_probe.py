"""``monkeytree probe`` without a network of switches (tests/ecmp/test_namespaces.py has one)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from monkeytree.ecmp.label import FIRST_PORT, LAST_PORT
from monkeytree.ecmp.stage import Packet, choose, hash_value
from monkeytree.fabric_hash import HashStage
from tests.checker.test_steering import fabric

from .running import monkeytree, write

CRC = HashStage("crc32", seed=5)
HOPS = {f"10.9.{spine}.1": spine for spine in range(4)}


def results(src: str, dst: str, count: int, **more: Any) -> dict[str, Any]:
    """As `probe send` writes them, of switches with a CRC."""
    rows = []
    for port in random.Random(1).sample(range(FIRST_PORT, LAST_PORT + 1), count):
        spine = choose(CRC, hash_value(CRC, Packet(src, dst, port)), 4)
        rows.append({"src": src, "dst": dst, "port": port, "hop": f"10.9.{spine}.1"})
    return {"format": 1, "ttl": 2, "dscp": 0, "probes": [*rows, {**rows[0], "hop": None}], **more}


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return write(tmp_path / "snapshot.json", fabric({"leaf": {"algorithm": "xor16"}}))


def test_a_hash_is_learned_from_results(snapshot: Path, tmp_path: Path) -> None:
    hops = write(tmp_path / "hops.json", HOPS)
    first = write(tmp_path / "a.json", results("10.0.0.1", "10.0.1.1", 60))
    done = monkeytree("probe", "learn", snapshot, first, "--hops", hops)
    assert done.returncode == 0, done.stderr
    assert "fitted from 15, confidence 1.000000" in done.stderr
    table = json.loads(done.stdout)["learned"]
    assert [pair["method"] for pair in table["pairs"]] == ["affine"]
    again = monkeytree(
        "probe", "learn", snapshot, write(tmp_path / "b.json", results("10.0.2.1", "10.0.3.1", 4)),
        "--hops", hops, "--table", write(tmp_path / "table.json", json.loads(done.stdout)),
    )  # fmt: skip
    table = json.loads(again.stdout)["learned"]
    assert (table["version"], [pair["probes"] for pair in table["pairs"]]) == (2, [60, 4])
    assert (again.returncode, "probe more" in again.stderr) == (3, True)


@pytest.mark.parametrize(
    ("probes", "hops", "said"),
    [
        ([{"src": "10.0.0.1", "dst": "10.0.1.1", "port": 50_000, "hop": "1.1.1.1"}], HOPS, "does not name"),
        ([{"src": "10.0.0.9", "dst": "10.0.1.1", "port": 50_000, "hop": "10.9.0.1"}], HOPS, "of no node"),
        ([{"src": "10.0.0.1"}], HOPS, "is no probe"),
        ([{"src": ["a"], "dst": "10.0.1.1", "port": 50_000, "hop": None}], HOPS, "is no probe"),
        ([{"src": "10.0.0.1", "dst": "10.0.1.1", "port": 50_000, "hop": ["a"]}], HOPS, "is no probe"),
        ([{"src": "10.0.0.1", "dst": "10.0.1.1", "port": 5, "hop": None}], HOPS, "is no probe"),
        (
            [{"src": "10.0.0.1", "dst": "10.0.1.1", "port": 50_000, "hop": None}],
            HOPS,
            "nothing to learn from",
        ),
        ("none", HOPS, "lists no probes"),
        ([{"src": "10.0.0.1", "dst": "10.0.0.2", "port": 50_000, "hop": "10.9.0.1"}], HOPS, "both in rack"),
        ([], {"10.9.0.1": 10**30}, "is no number of an uplink"),
        ([], {"10.9.0.1": "up"}, "is no number of an uplink"),
        ([], [], "must be a JSON object"),
    ],
)
def test_wrong_results_are_told(snapshot: Path, tmp_path: Path, probes: Any, hops: Any, said: str) -> None:
    done = monkeytree(
        "probe", "learn", snapshot, write(tmp_path / "a.json", {"probes": probes}),
        "--hops", write(tmp_path / "hops.json", hops),
    )  # fmt: skip
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_probes_that_end_at_a_spine_say_nothing_of_cores(tmp_path: Path) -> None:
    """Numbers of spines would pass for those of cores."""
    snapshot = write(tmp_path / "snapshot.json", fabric({"leaf": {"algorithm": "crc32"}}, pods=True))
    hops = write(tmp_path / "hops.json", HOPS)
    for ttl, code in ((2, 2), (3, 3), (4, 3)):  # 3: four of sixteen cores were seen
        far = write(tmp_path / "far.json", results("10.0.0.1", "10.0.2.1", 60, ttl=ttl))
        done = monkeytree("probe", "learn", snapshot, far, "--hops", hops)
        assert done.returncode == code, done.stderr
        assert ("--ttl 3" in done.stderr) == (ttl == 2)
    near = write(tmp_path / "near.json", results("10.0.0.1", "10.0.1.1", 60))
    assert monkeytree("probe", "learn", snapshot, near, "--hops", hops).returncode == 0


def test_pairs_without_probes_are_written_where_asked(tmp_path: Path) -> None:
    document = fabric({"leaf": {"algorithm": "xor16"}})
    for r, rack in enumerate(document["racks"]):
        rack["nodes"] |= {f"n{r}{n}": {"slots": 1, "addresses": [f"10.0.{r}.{n + 1}"]} for n in (2, 3)}
    snapshot, ends = write(tmp_path / "snapshot.json", document), (1, 2, 3, 4)
    pairs = [(f"10.0.0.{s}", f"10.0.{rack}.{t}") for s in ends for rack in (1, 2, 3) for t in ends]
    rows = [results(*pair, 40)["probes"] for pair in random.Random(3).sample(pairs, 24)]
    sent = write(tmp_path / "a.json", {"probes": [row for some in rows for row in some]})
    asked = ("probe", "learn", snapshot, sent, "--hops", write(tmp_path / "hops.json", HOPS))
    plain, more = monkeytree(*asked), monkeytree(*asked, "--unprobed")
    assert (plain.returncode, more.returncode) == (0, 0), more.stderr
    found = [json.loads(done.stdout)["learned"]["pairs"] for done in (plain, more)]
    assert [len(known) for known in found] == [24, 48]
    for row in (row for row in found[1] if not row["probes"]):
        for spine, ports in row["ports"].items():
            hashes = {choose(CRC, hash_value(CRC, Packet(row["src"], row["dst"], p)), 4) for p in ports}
            assert hashes == {int(spine)}


def test_a_table_that_is_none_is_told(snapshot: Path, tmp_path: Path) -> None:
    done = monkeytree(
        "probe", "learn", snapshot, write(tmp_path / "a.json", {"probes": []}),
        "--hops", write(tmp_path / "hops.json", HOPS), "--table", write(tmp_path / "t.json", {"leaf": 3}),
    )  # fmt: skip
    assert (done.returncode, "--table" in done.stderr) == (2, True)


def test_addresses_of_two_families_are_told() -> None:
    done = monkeytree("probe", "send", "127.0.0.1", "fd00::1")
    assert (done.returncode, "of the family of" in done.stderr) == (2, True)


def test_what_is_no_address_is_told() -> None:
    done = monkeytree("probe", "send", "127.0.0.1", "leaf-1")
    assert (done.returncode, "'leaf-1' must be an IP address" in done.stderr) == (2, True)
