"""RoCEv2 over IPv6: a GID is then the address itself, in tables, in the shim and in its log."""

from __future__ import annotations

import pytest

from monkeytree.agent.labels import parse_table
from monkeytree.agent.shim_log import prove, read_log
from monkeytree.ecmp.label import label_of_port, port_of_label

from .harness import Bench
from .test_shim import PORTS, labels, without_labels
from .test_shim import TABLE as IPV4

# Threads on device 0 send from fd00::1, on device 1 from fd00:0:1::1, each to two peers in turn.
TABLE = """fd00::1,fd00:1::1=49152,50000
fd00:0:0:0:0:0:0:1,FD00:1:1::1=65535
fd00:0:1::1,fd00:1::1=61000,61001,61002
"""
ENDS = {
    ("fd00::1", "fd00:1::1"): (49152, 50000),
    ("fd00::1", "fd00:1:1::1"): (65535,),
    ("fd00:0:1::1", "fd00:1::1"): (61000, 61001, 61002),
}


def test_each_pair_takes_its_ports_in_turn_and_nothing_else_changes(bench: Bench) -> None:
    arguments = ("connect", "8", "12", "1", "ipv6")
    plain, run = bench.run(*arguments, shim=False), bench.run(*arguments, table=TABLE)
    assert (run.output, run.errors, run.returncode) == ("0 failures\n", "", 0)
    assert without_labels(run) == without_labels(plain)
    assert run.shared("ibv_query_gid") == plain.shared("ibv_query_gid")
    taken: dict[tuple[str, str], list[int]] = {pair: [] for pair in [*ENDS, ("fd00:0:1::1", "fd00:1:1::1")]}
    for key, label in labels(run).items():
        thread, nth = divmod(key - 1000, 100)
        pair = ("fd00:0:1::1" if thread % 2 else "fd00::1", "fd00:1:1::1" if nth % 2 else "fd00:1::1")
        taken[pair].append(port_of_label(label) if label else 0)
    for pair, ports in taken.items():
        wanted = ENDS.get(pair, (0,))
        assert sorted(ports) == sorted(wanted[i % len(wanted)] for i in range(24)), pair


def test_the_log_names_the_addresses_and_proves_it(bench: Bench) -> None:
    run = bench.run("connect", "2", "4", "1", "ipv6", table=TABLE)
    assert {(row["source"], row["target"]) for row in run.log} == set(ENDS)
    for row in run.log:
        assert row["flow_label"] == label_of_port(row["udp_source_port"])
    proof = prove(parse_table(TABLE), read_log(bench.root / "log").pairs)
    assert (set(proof.steered), proof.unsteered, proof.unseen) == (set(ENDS), (), ())


def test_a_table_may_have_lines_of_both_families(bench: Bench) -> None:
    for mode, ports in (("ipv6", ENDS), ("plain", PORTS)):
        run = bench.run("connect", "2", "4", "1", mode, table=TABLE + IPV4)
        assert {(row["source"], row["target"]) for row in run.log} == set(ports)


@pytest.mark.parametrize(
    ("mode", "table"),
    [
        ("mixed", TABLE + IPV4),  # from an IPv6 address to an IPv4 one: no packet of RoCEv2 is that
        ("gid0", TABLE),
        ("ipv6", IPV4),
        ("ipv6", "fd00::1,10.1.0.1=50000\n" + TABLE),
        ("ipv6", TABLE + "fd00::1,fd00::1::2=50000\n"),
        ("ipv6", "[fd00::1],[fd00:1::1]=50000\n"),
        ("ipv6", "fd00::1%eth0,fd00:1::1=50000\n"),
    ],
)
def test_what_no_line_names_or_is_not_understood_passes_untouched(
    bench: Bench, mode: str, table: str
) -> None:
    arguments = ("connect", "2", "4", "1", mode)
    run, plain = bench.run(*arguments, table=table), bench.run(*arguments, shim=False)
    assert run.by_pair() == plain.by_pair()
    assert run.log == ()


def test_an_ipv4_address_written_as_ipv6_is_the_same_gid(bench: Bench) -> None:
    run = bench.run("connect", "1", "2", "1", "plain", table="::ffff:10.0.0.1,::ffff:a01:1=50000\n")
    assert {(row["source"], row["target"]) for row in run.log} == {("10.0.0.1", "10.1.0.1")}
