"""The two readers of the table, in C and in Python, agree; labels go round; logs are read back as proof."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monkeytree.agent.labels import BadTable, Labels, parse_table, read_table
from monkeytree.agent.shim.build import SOURCES
from monkeytree.agent.shim_log import prove, read_log
from monkeytree.ecmp.label import label_of_port

from .harness import Bench, compile_c

_ADDRESS = st.sampled_from(
    [
        "10.0.0.1",
        "10.0.1.1",
        "0.0.0.0",
        "255.255.255.255",
        "10.0.0.256",
        "10.0.0",
        "010.0.0.1",
        "",
        "::",
        "::1",
        "fd00::1",
        "FD00:0::0:1",
        "::ffff:10.0.0.1",
        "::ffff:a00:1",
        "::10.0.0.1",
        "fe80::1%eth0",
        "[fd00::1]",
        "fd00::1::2",
        "1:2:3:4:5:6:7:8:9",
        "0001:0002:0003:0004:0005:0006:255.255.255.255",
    ]
)
_PORTS = st.lists(
    st.sampled_from(["49152", "65535", "50000", "049152", "65536", "49151", "0", "+50000", ""]),
    min_size=1,
    max_size=3,
)
_GOOD = st.builds(
    lambda a, b, p: f"{a},{b}={p}",
    *[st.sampled_from(["10.0.0.1", "10.0.1.1"])] * 2,
    st.integers(49152, 65535),
) | st.builds(
    lambda a, b, p: f"{a},{b}={p}",
    *[st.sampled_from(["fd00::1", "FD00:0::1", "fd00::2:1", "::1"])] * 2,
    st.integers(49152, 65535),
)
_LINE = st.builds(lambda a, b, p: f"{a},{b}={','.join(p)}", _ADDRESS, _ADDRESS, _PORTS) | st.sampled_from(
    ["", "# note", " ", "x"]
)
_TABLE = st.lists(_GOOD, max_size=6) | st.lists(_GOOD | _LINE, max_size=4)


class Entry(ctypes.Structure):
    """struct mt_entry of shim.h."""

    _fields_ = [
        ("source", ctypes.c_uint64 * 2),
        ("target", ctypes.c_uint64 * 2),
        ("order", ctypes.c_uint32),
        ("port", ctypes.c_uint16),
    ]


@pytest.fixture(scope="session")
def parser(bench: Bench) -> ctypes.CDLL:
    """The shim's own parser by itself; ``bench`` skips where there is no compiler."""
    return ctypes.CDLL(str(compile_c(bench.root / "parse.so", [SOURCES / "parse.c"], "-shared", "-fPIC")))


def _address(value: ctypes.Array[ctypes.c_uint64]) -> str:
    found = ip_address(bytes(value))
    assert found.version == 6
    return str(found.ipv4_mapped or found)


def parse_in_c(parser: ctypes.CDLL, text: str) -> dict[tuple[str, str], tuple[int, ...]]:
    parser.mt_parse.restype = ctypes.POINTER(Entry)
    count = ctypes.c_size_t()
    entries = parser.mt_parse(text.encode("ascii"), ctypes.c_size_t(len(text)), ctypes.byref(count))
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for entry in entries[: count.value]:
        pair = (_address(entry.source), _address(entry.target))
        found[pair] = (*found.get(pair, ()), entry.port)
    return found


@settings(deadline=None)
@given(lines=_TABLE, end=st.sampled_from(["", "\n", "\r\n", "\n\n"]), between=st.sampled_from(["\n", "\r\n"]))
def test_both_parsers_understand_the_same(
    parser: ctypes.CDLL, lines: list[str], end: str, between: str
) -> None:
    text = between.join(lines) + end
    try:
        wanted = parse_table(text)
    except BadTable:
        wanted = {}
    assert parse_in_c(parser, text) == wanted


def test_a_bad_line_is_named() -> None:
    with pytest.raises(BadTable, match=r"line 2: '10\.0\.0\.1=50000' is not"):
        parse_table("# x\n10.0.0.1=50000\n")
    with pytest.raises(BadTable, match=r"port outside of 49152\.\.65535"):
        parse_table("10.0.0.1,10.0.0.2=4791\n")


def test_ipv6_stands_without_brackets_and_one_address_is_one_however_it_is_written() -> None:
    table = parse_table(
        "FD00::0:1,fd00:0:0::2=50000\n::ffff:10.0.0.1,10.0.0.2=50001\n10.0.0.1,10.0.0.2=50002\n"
    )
    assert table == {("fd00::1", "fd00::2"): (50000,), ("10.0.0.1", "10.0.0.2"): (50001, 50002)}
    labels = Labels(table)
    assert labels.next_label("fd00:0::1", "fd00::2") == label_of_port(50000)
    assert labels.next_label("::ffff:a00:1", "10.0.0.2") == label_of_port(50001)
    for line in ("fd00::1,10.0.0.2=50000", "[fd00::1],[fd00::2]=50000", "fe80::1%0,fe80::2=50000"):
        with pytest.raises(BadTable, match="line 1"):
            parse_table(line)


def test_labels_go_round_and_threads_share_them() -> None:
    labels = Labels(parse_table("10.0.0.1,10.0.0.2=50000,50001\n"))
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: labels.next_label("10.0.0.1", "10.0.0.2"), range(40)))
    assert sorted(taken) == sorted([label_of_port(50000), label_of_port(50001)] * 20)
    assert labels.next_label("10.0.0.2", "10.0.0.1") == 0


def test_no_table_is_an_empty_one(tmp_path: Path) -> None:
    assert read_table(tmp_path / "none") == {}
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(BadTable):
        read_table(tmp_path / "binary")


def test_what_the_shim_logs_proves_which_flows_are_steered(bench: Bench) -> None:
    text = "10.0.0.1,10.1.0.1=50000\n10.0.0.1,10.9.9.9=50001\n"
    bench.run("connect", "1", "4", "1", "plain", table=text)
    log = read_log(bench.root / "log")
    assert (len(log.pairs), log.bad_lines) == (2, 0)
    table = parse_table(text)
    proof = prove(table, log.pairs)
    assert (proof.steered, proof.unsteered, proof.unseen) == (
        (("10.0.0.1", "10.1.0.1"),),
        (),
        (("10.0.0.1", "10.9.9.9"),),
    )
    assert prove(table, log.pairs, since=log.pairs[-1].time + 1).steered == ()
    assert prove({("10.0.0.1", "10.1.0.1"): (50005,)}, log.pairs).unsteered == (("10.0.0.1", "10.1.0.1"),)


def test_a_refused_label_is_no_proof(bench: Bench) -> None:
    text = "10.0.0.1,10.1.0.1=50000\n"
    bench.run("connect", "1", "2", "1", "plain", table=text, env={"FAKE_VERBS_REFUSE_LABELS": "1"})
    assert prove(parse_table(text), read_log(bench.root / "log").pairs).unsteered == (
        ("10.0.0.1", "10.1.0.1"),
    )


def test_lines_that_are_no_records_are_counted_and_a_half_line_waits(bench: Bench, tmp_path: Path) -> None:
    bench.run("connect", "1", "2", "1", "plain", table="10.0.0.1,10.1.0.1=50000\n")
    good = (bench.root / "log").read_bytes()
    half = good[: len(good) // 2]
    (tmp_path / "1.jsonl").write_bytes(
        b"{}\nnull\n\xff\n" + good.replace(b'"pid": ', b'"pid": "') + good + half
    )
    log = read_log(tmp_path)
    assert (len(log.pairs), log.bad_lines) == (1, 4)
    assert read_log(tmp_path / "none").pairs == ()
