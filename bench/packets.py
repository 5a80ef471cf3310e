"""The packet simulator: events and packets per CPU second, beside two public simulators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from monkeytree.errors import MonkeyTreeError
from monkeytree.validation.profiles import resolve
from monkeytree.validation.runner import prepare, run_scenario

from .measure import quantile, spending
from .table import heading, show

Document = dict[str, Any]
TIMEOUT_S = 300.0
GBPS, DELAY_NS = 400, 1000
RACKS, NICS, SPINES = 32, 32, 2

REFERENCE = (
    ("one flow, 10 MB at 100G, 2 hops", "HPCC", 1.68, 210),
    ("one flow, 10 MB at 100G, 2 hops, 4 KB frames", "HPCC", 1.63, 204),
    ("one flow, 10 MB at 100G, 2 hops", "conweave-ns3", 0.81, 81),
    ("two to one, 100 MB at 100G, 2 hops", "HPCC", 1.51, 164),
    ("16 to one, 10 MB at 100G, 2 hops, 4 KB frames", "HPCC", 1.84, 114),
    ("16 to one, 10 MB at 100G, 2 hops", "conweave-ns3", 0.74, 58),
    ("16 ring flows, 10 MB at 100G, 4 hops, 4 KB frames", "HPCC", 1.54, 129),
    ("16 ring flows, 10 MB at 100G, 4 hops", "conweave-ns3", 0.59, 42),
)
"""Scenario, simulator, millions of events and thousands of data packets a CPU second of the simulation alone
(HPCC 9f4be2a on ns-3.18, conweave-ns3; settings ``hpcc``, gcc 12.2 -O3, one core; measured once, not by this
program, with up to 25 % between runs). Frames are 1,051 bytes unless said."""


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario document (format 1) under a name."""

    name: str
    scenario: Document


def report(megabytes: float, repeats: int) -> None:
    """Print the section; ``megabytes`` a flow of the large case, the best of ``repeats`` runs of each."""
    heading("The packet simulator")
    try:
        prepare()
    except MonkeyTreeError as error:
        print(f"left out: {error}")
        return
    show(
        (
            "scenario, frames of 4 KB",
            "M events",
            "events a packet",
            "M events/CPU s",
            "k packets/CPU s",
            "CPU s",
        ),
        [_row(case, repeats) for case in cases(megabytes)],
    )
    show(
        ("of others, as once measured", "simulator", "M events/CPU s", "k packets/CPU s"),
        [[name, by, f"{events:.2f}", str(packets)] for name, by, events, packets in REFERENCE],
    )
    _start_up(repeats)


def cases(megabytes: float) -> Iterator[Case]:
    """What is measured."""
    yield Case("one flow, 100 MB at 400G, 4 hops", leaf_spine(2, 1, 1, [_flow(0, 0, 1, 100e6)]))
    pair = [_flow(0, 0, 2, 100e6), _flow(1, 1, 3, 100e6)]
    yield Case("two on one uplink, 100 MB at 400G, 4 hops", leaf_spine(2, 2, 1, pair))
    yield Case("16 to one, 10 MB at 400G, 2 hops", _incast(16, 10e6))
    flows = list(_cross_rack(megabytes * 1e6))
    yield Case(f"64 of {megabytes:g} MB on 1,024 NICs, own uplinks", leaf_spine(RACKS, NICS, SPINES, flows))
    fast = leaf_spine(RACKS, NICS, SPINES, flows, fast_forward=1)
    yield Case("the same, fast forward", fast)


def leaf_spine(racks: int, nics: int, spines: int, flows: list[Document], **params: Any) -> Document:
    """A fabric with every NIC and uplink at 400 Gb/s; hosts are numbered rack by rack."""
    hosts = racks * nics
    leaves = [hosts + rack for rack in range(racks)]
    tops = [hosts + racks + spine for spine in range(spines)]
    links = [[host, leaves[host // nics], GBPS, DELAY_NS] for host in range(hosts)]
    links += [[leaf, top, GBPS, DELAY_NS] for leaf in leaves for top in tops]
    rows = []
    for flow in flows:
        src, dst, spine = flow["src"], flow["dst"], flow["path"][0]
        rows.append({**flow, "path": [src, leaves[src // nics], tops[spine], leaves[dst // nics], dst]})
    return _scenario(hosts, [*leaves, *tops], links, rows, **params)


def _incast(senders: int, size: float) -> Document:
    links = [[host, senders + 1, GBPS, DELAY_NS] for host in range(senders + 1)]
    flows = [{**_flow(at, at, senders, size), "path": None} for at in range(senders)]
    return _scenario(senders + 1, [senders + 1], links, flows)


def _cross_rack(size: float) -> Iterator[Document]:
    """From each rack one flow on each uplink, to the rack that many further on: no link carries two."""
    for rack in range(RACKS):
        for spine in range(SPINES):
            target = (rack + 1 + spine) % RACKS
            ends = rack * NICS + spine, target * NICS + NICS - 1 - spine
            yield _flow(SPINES * rack + spine, *ends, size, spine)


def _flow(name: int, src: int, dst: int, size: float, spine: int = 0) -> Document:
    return {
        "id": name, "src": src, "dst": dst, "bytes": round(size), "start_ns": 0, "path": [spine],
        "ack_path": None,
    }  # fmt: skip


def _scenario(hosts: int, switches: list[int], links: list[Any], flows: list[Any], **params: Any) -> Document:
    return {
        "format": 1, "hosts": hosts, "switches": switches, "links": links, "flows": flows,
        "params": {"profile": "dcqcn", "seed": 1, **params},
    }  # fmt: skip


def _row(case: Case, repeats: int) -> list[str]:
    """Packets are those of the flows, sent again or not; CPU time is the simulation's alone."""
    runs = [run_scenario(case.scenario, timeout_s=TIMEOUT_S) for _ in range(repeats)]
    totals = min((run["totals"] for run in runs), key=lambda totals: totals["cpu_s"])
    payload = resolve(case.scenario["params"])["payload_bytes"]
    packets = sum(ceil(flow["bytes"] / payload) + flow["retransmits"] for flow in runs[0]["flows"])
    cpu_s = max(totals["cpu_s"], 1e-6)
    return [
        case.name,
        f"{totals['events'] / 1e6:.2f}",
        f"{totals['events'] / packets:.2f}",
        f"{totals['events'] / cpu_s / 1e6:.2f}",
        f"{packets / cpu_s / 1e3:,.0f}",
        f"{totals['cpu_s']:.3f}",
    ]


def _start_up(repeats: int) -> None:
    """A whole run of one frame: process, ns-3, fabric, result."""
    document = leaf_spine(2, 1, 1, [_flow(0, 0, 1, 1000)])
    spent = []
    for _ in range(repeats + 2):
        with spending() as one:
            run_scenario(document, timeout_s=TIMEOUT_S)
        spent.append(one)
    cpu, wall = (quantile([getattr(one, name) for one in spent], 0.5) for name in ("cpu_ms", "wall_ms"))
    print(f"start-up: a run of one frame takes {cpu / 1e3:.2f} CPU s, {wall / 1e3:.2f} s on the clock\n")
