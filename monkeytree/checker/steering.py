"""The source ports: each puts its flow on its uplink, and none is missing that could be had.

With code of its own: the hash is computed from the snapshot's parameters, the port from the label by the
kernel's rule (``rdma_flow_label_to_udp_sport``), and that no port hits is tried with all 16,384.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .fault import Fault, pointer_to, show
from .hashes import Hashing, Stage, least_label
from .outcome import Outcome
from .placement import Placement
from .uplinks import leaves_pod

_FIRST, _PORTS = 0xC000, 0x4000
REASONS = ("no_uplink", "no_address", "polarised", "needs_queue_pair", "not_learned", "stale_table")


def steering_faults(plan: Mapping[str, Any], outcome: Outcome, placement: Placement) -> list[Fault]:
    """Faults of ``udp_source_port``, ``flow_label`` and ``unsteered``; paths of the flows must be right."""
    flows = plan["flows"]
    reasons, faults = _read_unsteered(plan.get("unsteered") or (), len(flows))
    hashing = None if placement.routing == "adaptive" else placement.hashing
    view = None if hashing is None else _View(hashing, placement, _is_stale(hashing, placement))
    for index, flow in enumerate(flows):
        reason, port = reasons.get(index), flow.get("udp_source_port")
        where = pointer_to("flows", index, "udp_source_port")
        if view is None:
            if port is not None:
                faults.append(Fault("port_unfounded", where, "the snapshot does not say how switches hash"))
            if reason is not None:
                faults.append(_false(index, "the snapshot does not say how switches hash"))
            continue
        pair = _pair(flow, outcome, placement)
        if (port is None) == (reason is None):
            message = "has neither" if port is None else f"is {port}, and the flow is in unsteered as well"
            faults.append(Fault("port_missing" if port is None else "unsteered_false", where, message))
        elif port is None:
            faults += view.reason_faults(flow, index, pair, str(reason))
        else:
            wrong = _label_faults(flow, port, index) or view.label_faults(flow, port, index)
            faults += wrong or view.port_faults(flow, port, where, pair)
    return faults or list(_repeated(flows, outcome, placement, view))


def _read_unsteered(rows: Sequence[Any], count: int) -> tuple[dict[int, str], list[Fault]]:
    reasons: dict[int, str] = {}
    faults = []
    for row, entry in enumerate(rows):
        where = pointer_to("unsteered", row)
        if entry["reason"] not in REASONS:
            faults.append(Fault("unsteered_false", where, f"{show(entry['reason'])} is no reason"))
        for index in entry["flows"]:
            if not 0 <= index < count or index in reasons:
                faults.append(Fault("unsteered_false", where, f"flow {index} is unknown or listed twice"))
            reasons[index] = entry["reason"]
    return reasons, faults


def _repeated(
    flows: Sequence[Mapping[str, Any]], outcome: Outcome, placement: Placement, view: _View | None
) -> Iterator[Fault]:
    """Flows that share a source port with another one of their pair and way, though others lead there."""
    alike: defaultdict[Any, list[int]] = defaultdict(list)
    for index, flow in enumerate(flows):
        if view is not None and flow.get("udp_source_port") is not None:
            pair = _pair(flow, outcome, placement)
            alike[pair, flow["uplink"], flow.get("pod_uplink")].append(index)
    for (pair, _, _), indices in alike.items():
        ports = {flows[index]["udp_source_port"] for index in indices}
        if view is None or pair is None or len(ports) == len(indices):
            continue
        known = view.ports(flows[indices[0]], pair)
        if len(ports) < min(len(indices), len(known)):
            where = pointer_to("flows", indices[-1], "udp_source_port")
            message = (
                f"flows {indices} between {pair[0]} and {pair[1]} have {len(ports)} of {len(known)} ports"
            )
            yield Fault("port_repeated", where, message)


def _false(index: int, message: str) -> Fault:
    return Fault("unsteered_false", "/unsteered", f"flow {index}: {message}")


def _label_faults(flow: Mapping[str, Any], port: int, index: int) -> list[Fault]:
    where, label = pointer_to("flows", index), flow.get("flow_label")
    if not _FIRST <= port < _FIRST + _PORTS:
        message = f"{port} is out of {_FIRST} to {_FIRST + _PORTS - 1}, which labels reach"
        return [Fault("port_out_of_range", where + "/udp_source_port", message)]
    if type(label) is not int or not 0 < label < 2**20:
        return [Fault("label_wrong", where, f"flow_label {show(label)} is no number of 1 to 20 bits")]
    leads_to = (label % 2**14 ^ label // 2**14) | _FIRST
    if leads_to != port:
        return [Fault("label_wrong", where + "/flow_label", f"label {label} leads to port {leads_to}")]
    return []


Pair = tuple[str, str] | None
"""Addresses of the NICs of a flow, None where a node has none."""


def _pair(flow: Mapping[str, Any], outcome: Outcome, placement: Placement) -> Pair:
    workers = outcome.workers[flow["job"], flow["group"]]
    nodes = [placement.nodes[workers[flow[end]]] for end in ("from_rank", "to_rank")]
    if not all(len(node.addresses) > flow["rail"] for node in nodes):
        return None
    return nodes[0].addresses[flow["rail"]], nodes[1].addresses[flow["rail"]]


@dataclass(frozen=True)
class _View:
    """The choices that a packet meets, from the snapshot."""

    hashing: Hashing
    placement: Placement
    stale: bool

    def label_faults(self, flow: Mapping[str, Any], port: int, index: int) -> list[Fault]:
        """Where switches hash it, the label must be the one that tables of ports stand for."""
        stages = (self.hashing.leaf, self.hashing.pod)
        label, least = flow["flow_label"], least_label(port)
        if label == least or not any(stage is not None and "flow_label" in stage.fields for stage in stages):
            return []
        message = f"{label} is hashed, and is not {least}, which port {port} in a table stands for"
        return [Fault("label_wrong", pointer_to("flows", index, "flow_label"), message)]

    def port_faults(self, flow: Mapping[str, Any], port: int, where: str, pair: Pair) -> Iterator[Fault]:
        wanted = _label(flow, self.placement)
        if pair is None or wanted is None:
            yield Fault("port_unfounded", where, "the flow has no uplink, or a node of it no address")
        elif self.hashing.table is not None:
            known = self.hashing.table.ports.get(pair, {}).get(wanted, frozenset())
            if self.stale or port not in known:
                yield Fault("port_unfounded", where, f"{port} is not in the learned table for {wanted}")
        else:
            for stage, seed, uplinks, uplink in self._stages(flow):
                if len(uplinks) < 2:
                    continue  # nothing to choose; that this is its uplink has been checked
                if "dst_qp" in stage.fields:
                    yield Fault("port_unfounded", where, "the hash covers the queue pair, not known here")
                    return
                took = uplinks[stage.position(stage.value(*pair, port, seed), len(uplinks))]
                if took != uplink:
                    message = f"{port} leads {pair[0]} to {pair[1]} to uplink {took}, not {uplink}"
                    yield Fault("port_wrong_uplink", where, message)

    def reason_faults(self, flow: Mapping[str, Any], index: int, pair: Pair, reason: str) -> Iterator[Fault]:
        """A reason that does not hold."""
        right = self._reason(flow, pair)
        if right is None:
            yield _false(index, f"is not {reason}: there is a source port for it")
        elif right != reason:
            yield _false(index, f"cannot be steered for {right}, not for {reason}")

    def _reason(self, flow: Mapping[str, Any], pair: Pair) -> str | None:
        """Why ``flow`` cannot be steered, None where it can."""
        wanted, table = _label(flow, self.placement), self.hashing.table
        if wanted is None:
            return "no_uplink"
        if pair is None:
            return "no_address"
        if table is not None:
            if self.stale:
                return "stale_table"
            return None if table.ports.get(pair, {}).get(wanted) else "not_learned"
        stages = self._stages(flow)
        if any("dst_qp" in stage.fields and len(uplinks) > 1 for stage, _, uplinks, _ in stages):
            return "needs_queue_pair"
        return None if self.ports(flow, pair) else "polarised"

    def ports(self, flow: Mapping[str, Any], pair: tuple[str, str]) -> frozenset[int]:
        """All source ports that lead ``flow`` where it is to go."""
        if self.hashing.table is not None:
            return self.hashing.table.ports.get(pair, {}).get(_label(flow, self.placement) or 0, frozenset())
        rows = [row for row in self._stages(flow) if len(row[2]) > 1]
        tables = [_all_values(stage, pair, seed) for stage, seed, _, _ in rows]
        return frozenset(
            _FIRST + port
            for port in range(_PORTS)
            if all(
                uplinks[stage.position(values[port], len(uplinks))] == uplink
                for values, (stage, _, uplinks, uplink) in zip(tables, rows, strict=True)
            )
        )

    def _stages(self, flow: Mapping[str, Any]) -> list[tuple[Stage, int, list[int], int]]:
        """For each stage that chooses: its hash, its seed, the uplinks it chooses among, the one wanted."""
        leaf, pod = self.hashing.leaf, self.hashing.pod
        assert leaf is not None
        assert pod is not None
        source, target = (self.placement.racks[flow[end]] for end in ("from_rack", "to_rack"))
        seed = self.hashing.leaf_seeds.get(f"{flow['from_rack']}/{flow['rail']}", leaf.seed)
        if not leaves_pod(flow, self.placement):
            return [(leaf, seed, sorted(source.spines & target.spines), flow["uplink"])]
        placement, own, other = self.placement, str(source.pod), str(target.pod)
        up, down = placement.pod_spines[own], placement.pod_spines[other]
        cores = [
            core
            for core in range(min(placement.pods[own], placement.pods[other]))
            if core % up in source.spines and core % down in target.spines
        ]
        spine, pod_seed = flow["uplink"], self.hashing.pod_seeds.get(f"{own}/{flow['uplink']}", pod.seed)
        return [
            (leaf, seed, sorted({core % up for core in cores}), spine),
            (pod, pod_seed, [core for core in cores if core % up == spine], flow["pod_uplink"]),
        ]


def _label(flow: Mapping[str, Any], placement: Placement) -> int | None:
    """The number that stands for the way of ``flow``: its core, or its spine inside a pod."""
    way = flow["pod_uplink"] if leaves_pod(flow, placement) else flow["uplink"]
    return way if type(way) is int else None


def _all_values(stage: Stage, pair: tuple[str, str], seed: int) -> list[int]:
    """The hash with each of the 16,384 ports."""
    if not stage.affine:
        return [stage.value(*pair, _FIRST + port, seed) for port in range(_PORTS)]
    values = [stage.value(*pair, _FIRST, seed, 0)]  # port and label go up together
    for bit in range(14):
        flip = values[0] ^ stage.value(*pair, _FIRST + 2**bit, seed)
        values += [value ^ flip for value in values]
    return [stage.value(*pair, _FIRST, seed), *values[1:]]  # but for that of the first: 0 is no label


def _is_stale(hashing: Hashing, placement: Placement) -> bool:
    return hashing.table is not None and hashing.table.epoch != _epoch(placement)


def _epoch(placement: Placement) -> str:
    fabric = {
        "rails": placement.rails,
        "pods": sorted([name, uplinks] for name, uplinks in placement.pods.items()),
        "racks": sorted(
            [name, rack.pod or "", sorted(rack.spines)] for name, rack in placement.racks.items()
        ),
    }
    text = json.dumps(fabric, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
