"""A stand-in for the packet simulator: max-min fair rates, queues where a link is asked for too much.

It takes and gives the documents of the real one (scenario and result, format 1), so that what is around
it can be tested in milliseconds. Bytes carry their headers; ACKs take nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from monkeytree.flowmodel import Transfer, completion_times
from monkeytree.validation.grouping import Buffers
from monkeytree.validation.profiles import resolve

PAYLOAD, OVERHEAD = 4096, 82
BUFFERS = Buffers.of(resolve({}))


class Fluid:
    """Runs scenarios; counts them.

    Attributes:
        ran: the scenarios it was given.
        pausing: a queue on an overloaded link also pauses the senders' ports.
        drops: packets it says were lost in every run.
        finished: what it says of every run.
        ingress_bytes: peak it says of every ingress port.
    """

    def __init__(
        self, *, pausing: bool = False, drops: int = 0, finished: bool = True, ingress_bytes: int = 4_178
    ) -> None:
        self.ran: list[dict[str, Any]] = []
        self.pausing = pausing
        self.drops = drops
        self.finished = finished
        self.ingress_bytes = ingress_bytes

    def __call__(
        self,
        scenario: dict[str, Any],
        *,
        timeout_s: float,
        on_progress: Callable[[float], None] | None = None,
    ) -> dict[str, Any]:
        assert timeout_s > 0
        self.ran.append(scenario)
        check(scenario)
        rates = {}
        for a, b, gbps, delay_ns in scenario["links"]:
            rates[a, b] = rates[b, a] = (gbps, delay_ns)
        paths = [list(pairwise(flow["path"])) for flow in scenario["flows"]]
        load: Counter[tuple[int, int]] = Counter(hop for path in paths for hop in set(path))
        place = {flow["id"]: at for at, flow in enumerate(scenario["flows"])}
        transfers = [
            Transfer(path, _wire_bits(flow["bytes"]), 0.0, [place[name] for name in flow["after"]])
            for flow, path in zip(scenario["flows"], paths, strict=True)
        ]
        ends = completion_times(transfers, {hop: rates[hop][0] for hop in load})
        flows = [
            self._flow(flow, float(end), max((float(ends[at]) for at in transfer.after), default=0.0))
            for flow, transfer, end in zip(scenario["flows"], transfers, ends, strict=True)
        ]
        totals = {
            "pauses": 0, "ecn_marks": 0, "drops": self.drops, "events": len(flows), "cpu_s": 0.001,
            "finished": self.finished,
        }  # fmt: skip
        ports = [self._port(hop, load[hop]) for hop in rates]
        result = {"format": 1, "flows": flows, "ports": ports, "totals": totals}
        if scenario["params"].get("sample_us"):
            result["samples"] = {"ports": [_samples(hop) for hop in load]}
        return result

    def _flow(self, flow: dict[str, Any], end: float, start: float) -> dict[str, Any]:
        row = {"id": flow["id"], "bytes": flow["bytes"], "retransmits": 0, "cnps": 0}
        latency_ns = 1000.0 * (len(flow["path"]) - 1) * (not flow["after"])
        if flow["after"]:
            row["start_ns"] = start
        return {**row, "fct_ns": end - start + latency_ns if self.finished else None}

    def _port(self, hop: tuple[int, int], flows: int) -> dict[str, Any]:
        crowded = flows > 1
        return {
            "node": hop[0],
            "peer": hop[1],
            "pauses_sent": 0,
            "pauses_received": int(crowded and self.pausing),
            "paused_ns": 0.0,
            "ecn_marks": 10 * crowded,
            "max_queue_bytes": 2_000_000 if crowded else PAYLOAD * flows,
            "max_ingress_bytes": self.ingress_bytes if flows else 0,
            "headroom_bytes": 0,
        }


def _samples(hop: tuple[int, int]) -> dict[str, Any]:
    """Enough to draw."""
    sent, queued = [0, 500_000, 1_000_000], [0, 4_096, 0]
    return {"node": hop[0], "peer": hop[1], "sent_bytes": sent, "queue_bytes": queued}


def _wire_bits(size: int) -> float:
    return (size + -(-size // PAYLOAD) * OVERHEAD) * 8.0


def check(scenario: dict[str, Any]) -> None:
    """What the format asks for."""
    hosts, switches = scenario["hosts"], scenario["switches"]
    assert scenario["format"] == 1
    assert set(switches).isdisjoint(range(hosts))
    nodes = {*range(hosts), *switches}
    ends = {frozenset(link[:2]) for link in scenario["links"]}
    assert len(ends) == len(scenario["links"])
    assert set().union(*ends) <= nodes
    assert len({flow["id"] for flow in scenario["flows"]}) == len(scenario["flows"])
    for flow in scenario["flows"]:
        path = flow["path"]
        assert (path[0], path[-1]) == (flow["src"], flow["dst"])
        assert set(path[1:-1]) <= set(switches)
        assert path[0] in range(hosts)
        assert path[-1] in range(hosts)
        assert all(frozenset(hop) in ends for hop in pairwise(path))
        assert isinstance(flow["bytes"], int)
        assert flow["bytes"] > 0
