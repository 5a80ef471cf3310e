"""Reading a snapshot document (contract, section 1) into a placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from math import inf
from typing import Any, TypeVar

from .hashes import read_hashing
from .placement import Group, Job, Node, Pending, Placement, Planning, Rack

T = TypeVar("T")
_LARGEST = 2**53  # JSON numbers are exact up to here (RFC 8259, section 6)
_MOST_PORTS = 2**16  # uplinks of a leaf, rails of a rack: beyond any switch


class Unreadable(Exception):
    """The snapshot document is not one that a plan can be checked against."""


def read_placement(document: Any) -> Placement:
    """Index a snapshot document.

    Raises:
        Unreadable: where the document is no valid snapshot.
    """
    try:
        return _read(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def _read(document: Any) -> Placement:
    fabric = document.get("fabric") or {}
    nic_gbps = float(_given(fabric, "nic_gbps", 400.0))
    uplink_gbps = float(_given(fabric, "uplink_gbps", nic_gbps))
    if nic_gbps <= 0:
        raise ValueError(f"nic_gbps is {nic_gbps}")
    rails = _whole(_given(fabric, "rails", 1), least=1, most=_MOST_PORTS)
    pods = _unique((pod["id"], _whole(pod["uplinks"])) for pod in document.get("pods") or [])
    racks = _unique((rack["id"], _read_rack(rack, pods)) for rack in document["racks"])
    nodes = _unique(
        (name, _read_node(rack["id"], node))
        for rack in document["racks"]
        for name, node in rack["nodes"].items()
    )
    jobs = _unique((job["id"], _read_job(job, nodes)) for job in document["jobs"])
    planning = document.get("planning") or {}
    max_moves = planning.get("max_moves")
    return Placement(
        cluster=document["cluster"],
        nic_gbps=nic_gbps,
        per_uplink=max(1, int(uplink_gbps // nic_gbps)),
        rails=rails,
        routing=_given(fabric, "routing", "steered"),
        hashing=read_hashing(fabric.get("hash")),
        pending=tuple(_read_pending(job) for job in document.get("pending") or ()),
        racks=racks,
        nodes=nodes,
        pods=pods,
        jobs=jobs,
        planning=Planning(
            objective=_given(planning, "objective", "moves"),
            max_moves=None if max_moves is None else _whole(max_moves),
            pause_overhead_s=float(_given(planning, "pause_overhead_s", 9.02)),
            restart_s=float(_given(planning, "restart_s", 120.0)),
        ),
    )


def _read_rack(rack: Mapping[str, Any], pods: Mapping[str, int]) -> Rack:
    uplinks = rack["uplinks"]
    spines = uplinks if isinstance(uplinks, list | tuple) else range(_whole(uplinks, most=_MOST_PORTS))
    pod = rack.get("pod")
    if pod is not None and pod not in pods:
        raise KeyError(f"rack {rack['id']!r} is in pod {pod!r}, which is not listed")
    return Rack(spines=frozenset(_whole(spine) for spine in spines), pod=pod)


def _read_node(rack: str, node: Any) -> Node:
    node = node if isinstance(node, dict) else {"slots": node}
    return Node(
        rack=rack,
        usable=_whole(node["slots"]) - _whole(_given(node, "held", 0)),
        cordoned=bool(node.get("cordoned")),
        drain=bool(node.get("drain")),
        node_class=_text(_given(node, "class", "")),
        addresses=tuple(_address(address) for address in _given(node, "addresses", ())),
    )


def _read_job(job: Mapping[str, Any], nodes: Mapping[str, Node]) -> Job:
    groups = tuple(_read_group(job["id"], group) for group in job["replica_groups"])
    if len({group.id for group in groups}) < len(groups):
        raise ValueError(f"job {job['id']!r} names a replica group twice")
    now = {nodes[worker].node_class for group in groups for worker in group.workers}
    classes = job.get("classes")
    return Job(
        id=job["id"],
        mobility=_given(job, "mobility", "live"),
        classes=frozenset(now if classes is None else (_text(name) for name in classes)),
        groups=groups,
        remaining_s=_amount(job.get("remaining_s")),
    )


def _read_pending(job: Mapping[str, Any]) -> Pending:
    classes = job.get("classes")
    return Pending(
        id=_text(job["id"]),
        workers=_whole(job["workers"], least=1),
        slots_per_worker=_whole(_given(job, "slots_per_worker", 1), least=1),
        rings=_whole(_given(job, "rings", 1), most=_MOST_PORTS),
        classes=None if classes is None else frozenset(_text(name) for name in classes),
        one_per_node=bool(job.get("one_per_node")),
    )


def _read_group(job: str, group: Mapping[str, Any]) -> Group:
    workers = tuple(group["workers"])
    ranks = range(len(workers))
    order = tuple(_whole(rank) for rank in _given(group, "order", ranks))
    if not _is_permutation(order, len(workers)):
        raise ValueError(f"the order of group {group['id']!r} of job {job!r} is no permutation")
    return Group(
        job=job,
        id=group["id"],
        workers=workers,
        order=order,
        rings=_whole(_given(group, "rings", 1)),
        slots_per_worker=_whole(_given(group, "slots_per_worker", 1), least=1),
        state_gb=float(_given(group, "state_gb", 12.0)),
        order_fixed=bool(group.get("order_fixed")),
        pinned=frozenset(group.get("pinned") or ()),
        kind=_given(group, "kind", "ring"),
        traffic_gb=_amount(group.get("traffic_gb")),
        iteration_s=_amount(group.get("iteration_s")),
    )


def _is_permutation(order: Sequence[int], size: int) -> bool:
    return len(order) == size and set(order) == set(range(size))


def _given(document: Mapping[str, Any], name: str, default: Any) -> Any:
    value = document.get(name)
    return default if value is None else value


def _whole(value: Any, least: int = 0, most: int = _LARGEST) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{value!r} is no integer from {least} to {most}")
    return value


def _amount(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value < inf:
        raise ValueError(f"{value!r} is no finite amount")
    return float(value)


def _address(value: Any) -> str:
    return str(ip_address(_text(value)))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r} is no string")
    return value


def _unique(pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is named twice")
        found[name] = value
    return found
