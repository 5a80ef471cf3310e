"""A plan's source ports in the forms that programs read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from monkeytree.plan import Plan
from monkeytree.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FlowRoute:
    """A flow of a plan and the port that steers it; ``node`` sends it."""

    node: str
    src_ip: str
    dst_ip: str
    port: int
    flow_label: int
    job: str
    group: str
    ring: int
    rail: int
    uplink: int
    pod_uplink: int | None


def routes(snapshot: Snapshot, plan: Plan) -> list[FlowRoute]:
    """All flows of ``plan`` that have a source port, with the addresses they have after its moves.

    In order of sender, pair of addresses, job, group and ring: the ports of a pair are handed out to its
    queue pairs in the order in which they are made, ring by ring.
    """
    places = {(job.id, group.id): list(group.workers) for job, group in snapshot.groups}
    for move in plan.moves:
        places[move.job, move.group][move.rank] = move.target
    found = []
    for flow in plan.flows:
        if flow.udp_source_port is None or flow.flow_label is None or flow.uplink is None:
            continue
        nodes = [places[flow.job, flow.group][rank] for rank in (flow.from_rank, flow.to_rank)]
        src_ip, dst_ip = (snapshot.node_by_id[node].addresses[flow.rail] for node in nodes)
        found.append(
            FlowRoute(
                nodes[0], src_ip, dst_ip, flow.udp_source_port, flow.flow_label, flow.job, flow.group,
                flow.ring, flow.rail, flow.uplink, flow.pod_uplink,
            )
        )  # fmt: skip
    return sorted(found, key=lambda r: (r.node, r.src_ip, r.dst_ip, r.job, r.group, r.ring))


def as_lines(found: Iterable[FlowRoute]) -> str:
    """``srcIP,dstIP=port0,port1`` a pair: the form of Huawei's ``HCCL_RDMA_QP_PORT_CONFIG_PATH``.

    The shim for ``libibverbs`` reads the same. IPv6 addresses stand as they are: neither "," nor "=" occurs
    in them. Huawei's library knows IPv4 alone; a fabric has one family, so it never meets both.
    """
    pairs: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for route in found:
        pairs[route.src_ip, route.dst_ip].append(route.port)
    return "".join(f"{src},{dst}={','.join(map(str, ports))}\n" for (src, dst), ports in pairs.items())


def by_node(found: Iterable[FlowRoute]) -> dict[str, list[dict[str, Any]]]:
    """For each node what it sends, as plain data."""
    table: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for route in found:
        row = {name: getattr(route, name) for name in FlowRoute.__slots__ if name != "node"}
        if route.pod_uplink is None:
            del row["pod_uplink"]
        table[route.node].append(row)
    return dict(table)


def for_agents(found: Iterable[FlowRoute], epoch: int) -> dict[str, dict[str, Any]]:
    """For each node the body of ``PUT /v1/routes`` of its agent.

    Args:
        epoch: may not be lower than that of the table before.
    """
    tables: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for route in found:
        tables[route.node].append(
            {
                "src_ip": route.src_ip,
                "dst_ip": route.dst_ip,
                "port": route.port,
                "flow_label": route.flow_label,
                "job": route.job,
                "uplink": route.uplink if route.pod_uplink is None else route.pod_uplink,
            }
        )
    return {node: {"epoch": epoch, "routes": rows} for node, rows in tables.items()}
