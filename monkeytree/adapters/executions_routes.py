"""Source ports of an execution: the tables that agents are given, and the port of each transfer itself.

Tables are put before the first wave. Programs label a queue pair when they connect it, and the jobs that
move connect theirs anew within their pauses: a table that came after the last wave would be read by nobody.
Queue pairs that jobs at rest have open are not touched by a table, before or after.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from monkeytree.ecmp.exports import FlowRoute, routes
from monkeytree.ecmp.ways import Ways, pod_spines
from monkeytree.plan import Flow
from monkeytree.snapshot import Snapshot
from monkeytree.steering import steer
from monkeytree.wire.agents import Route, RouteTable
from monkeytree.wire.plan import load_plan

from .executions_calls import Ask
from .executions_rows import Step

#: A transfer tries so many uplinks, the least used first, before it is left to the hash.
MOST_TRIED = 8
#: Address that movers connect between.
_RAIL = 0


def flow_routes(plan: Mapping[str, Any], snapshot: Snapshot) -> list[FlowRoute]:
    """The flows of a plan's document that have a source port; none where the snapshot says no hash."""
    if all(flow.get("udp_source_port") is None for flow in plan.get("flows") or ()):
        return []
    return routes(snapshot, load_plan(plan))


def routed_nodes(plan: Mapping[str, Any], snapshot: Snapshot) -> list[str]:
    """Nodes that are given a table: all that send such a flow, and all that a worker leaves.

    The latter may have a table from before, of flows that are no more.
    """
    senders = [route.node for route in flow_routes(plan, snapshot)]
    return list(dict.fromkeys([*senders, *(move["from"] for move in plan["moves"])])) if senders else []


def route_asks(found: Iterable[FlowRoute], steps: Iterable[Step], epoch: int) -> list[Ask]:
    """A call for each of ``steps`` (of kind ``routes``)."""
    tables: defaultdict[str, list[Route]] = defaultdict(list)
    for route in found:
        last = route.uplink if route.pod_uplink is None else route.pod_uplink
        tables[route.node].append(
            Route(route.src_ip, route.dst_ip, route.port, route.flow_label, route.job, last)
        )
    return [
        Ask(
            step.source or "", "make", "routes", "", step.number,
            RouteTable(epoch, tuple(tables.get(step.source or "", ()))),
        )
        for step in steps
    ]  # fmt: skip


def transfer_ports(plan: Mapping[str, Any], snapshot: Snapshot, steps: Iterable[Step]) -> dict[int, int]:
    """By step number, the UDP source port that puts a move's state on an uplink that few planned flows use.

    None for moves inside a rack, without addresses, or where the hash is not known.
    """
    if snapshot.fabric.hash is None:
        return {}
    moves = [step for step in steps if step.kind == "move" and step.source_rack != step.target_rack]
    ways = _FreeWays(snapshot, plan)
    choices = {step.number: ways.of(step) for step in moves}
    ports: dict[int, int] = {}
    for _ in range(MOST_TRIED):  # all moves at once: what is made for a snapshot costs more than a port
        flows = [
            flow
            for step in moves
            if step.number not in ports and (flow := next(choices[step.number], None)) is not None
        ]
        if not flows:
            break
        places = {("", str(step.number)): (step.source or "", step.target or "") for step in moves}
        for flow in steer(snapshot, places, flows)[0]:
            if flow.udp_source_port is not None:
                ports[int(flow.group)] = flow.udp_source_port
    return ports


class _FreeWays:
    """Ways between racks, those that fewest flows of a plan use first."""

    def __init__(self, snapshot: Snapshot, plan: Mapping[str, Any]) -> None:
        self._ways = Ways(snapshot)
        self._pod_of = {rack.id: rack.pod for rack in snapshot.racks}
        self._spines = pod_spines(snapshot.racks)
        self._used: Counter[tuple[str, int, str]] = Counter()
        for flow in plan.get("flows") or ():
            if flow["uplink"] is not None and flow["rail"] == _RAIL:
                core = flow.get("pod_uplink")
                self._used.update(self._ends(flow["from_rack"], flow["to_rack"], flow["uplink"], core))

    def of(self, step: Step) -> Iterator[Flow]:
        """The transfer of a move, on each of its ways."""
        source, target = step.source_rack or "", step.target_rack or ""
        leaves = self._ways.leaves_pod(source, target)
        found: list[tuple[int, int | None]] = []
        for spine in self._ways.spines(source, target):
            cores: Sequence[int | None] = self._ways.cores(source, target, spine) if leaves else (None,)
            found += [(spine, core) for core in cores]
        found.sort(key=lambda way: sum(self._used[end] for end in self._ends(source, target, *way)))
        for spine, core in islice(found, MOST_TRIED):
            yield Flow("", str(step.number), 0, _RAIL, 0, 1, source, target, spine, leaves, core)

    def _ends(self, source: str, target: str, spine: int, core: int | None) -> list[tuple[str, int, str]]:
        down = spine if core is None else core % self._spines.get(self._pod_of[target] or "", 1)
        return [(source, spine, "up"), (target, down, "down")]
