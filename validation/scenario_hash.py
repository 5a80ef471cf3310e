"""Scenarios with ``routing: hash``: a flow's path follows from its packet and the hashes of switches.

A flow then has ``hashed``: addresses, source port and, for each switch that chooses, the nodes it chooses
among and its hash (as in ``fabric.hash``), or which of them a learned table says it chooses
(``learned``). Everywhere else there must be one shortest way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Any

from monkeytree.ecmp.stage import Packet, choose, hash_value
from monkeytree.fabric_hash import HashStage
from monkeytree.hash_offences import FLOW_LABEL, check_stage, version_of
from monkeytree.offence_log import OffenceLog
from monkeytree.wire.hash_parts import HashStageSchema

Edges = Mapping[int, Collection[int]]
"""The neighbours of each node."""
MEMBERS = ("src", "dst", "udp_source_port", "choices")
OPTIONAL = ("flow_label",)  # of the IPv6 header; by default the one that gives the port
Refused = tuple[str, str, Any]
"""Pointer below ``hashed``, message, value."""


class Unreadable(Exception):
    """``hashed`` is not in order; ``refused`` lists what is wrong."""

    def __init__(self, *refused: Refused) -> None:
        super().__init__(str(refused))
        self.refused = refused


def hashed_path(hashed: Any, src: int, dst: int, hosts: int, edges: Edges) -> tuple[int, ...]:
    """The nodes from host ``src`` to host ``dst`` that a flow takes.

    Raises:
        Unreadable: what is wrong with ``hashed``, or with the way it leads.
    """
    packet, choices = _read(hashed)
    path, node, far = [src], src, _distances(dst, hosts, edges)
    while node != dst:
        if node in choices:
            among, how = choices[node]
            node = how if isinstance(how, int) else among[choose(how, hash_value(how, packet), len(among))]
            if node not in edges.get(path[-1], ()):
                raise Unreadable(("/choices", f"node {path[-1]} has no link to what it chose", node))
        else:
            near = [n for n in edges.get(node, ()) if far.get(n, hosts) < far.get(node, -1)]
            if len(near) != 1:
                message = f"node {node} has {len(near)} shortest ways to host {dst}: it must be in choices"
                raise Unreadable(("/choices", message, node))
            node = near[0]
        if node in path or (node < hosts and node != dst):
            raise Unreadable(("/choices", "leads to a host that does not forward, or in a circle", node))
        path.append(node)
    return tuple(path)


def _read(hashed: Any) -> tuple[Packet, dict[int, tuple[list[int], HashStage | int]]]:
    if not isinstance(hashed, Mapping) or set(hashed) - set(OPTIONAL) != set(MEMBERS):
        raise Unreadable(("", f"must be an object with {', '.join(MEMBERS)}", hashed))
    port, rows = hashed["udp_source_port"], hashed["choices"]
    refused: list[Refused] = []
    for end in ("src", "dst"):
        if not version_of(hashed[end]):
            refused.append((f"/{end}", "must be an IP address", hashed[end]))
    if type(port) is not int or not 0 < port < 65_536:
        refused.append(("/udp_source_port", "must be a port, 1 to 65,535", port))
    if "flow_label" in hashed and not FLOW_LABEL.holds(hashed["flow_label"]):
        refused.append(("/flow_label", FLOW_LABEL.message, hashed["flow_label"]))
    if not isinstance(rows, list):
        refused.append(("/choices", "must be a list", rows))
        rows = []
    choices: dict[int, tuple[list[int], HashStage | int]] = {}
    for index, row in enumerate(rows):
        wrong = _wrong_choice(row)
        if wrong is not None:
            refused.append((f"/choices/{index}", wrong, row))
        elif "learned" in row:
            choices[row["at"]] = row["among"], row["learned"]
        else:
            stage, offences = _read_stage(row["hash"], index, version_of(hashed["src"]))
            refused += offences
            choices[row["at"]] = row["among"], stage
    if refused:
        raise Unreadable(*refused)
    return Packet(hashed["src"], hashed["dst"], port, flow_label=hashed.get("flow_label")), choices


def _wrong_choice(row: Any) -> str | None:
    if not isinstance(row, Mapping) or set(row) not in ({"at", "among", "hash"}, {"at", "among", "learned"}):
        return "must be an object with at, among and hash, or learned"
    among = row["among"]
    if type(row["at"]) is not int or not isinstance(among, list) or {type(node) for node in among} != {int}:
        return "at must be a node, and among a list of nodes"
    if "learned" in row and (type(row["learned"]) is not int or row["learned"] not in among):
        return "learned must be one of among"
    return None


def _read_stage(document: Any, index: int, family: int) -> tuple[HashStage, list[Refused]]:
    log, at = OffenceLog(), ("choices", index, "hash")
    stage = HashStageSchema.read(document, log, at)
    if not len(log):
        check_stage(stage, at, log, family)
    if stage is not None and "dst_qp" in stage.fields:  # None: very much is wrong
        log.add((*at, "fields"), "must not hold the queue pair, which no flow has here", "dst_qp")
    return stage, [(offence.pointer, offence.message, offence.value) for offence in log.listed]


def _distances(dst: int, hosts: int, edges: Edges) -> dict[int, int]:
    """Links from each node to ``dst``; hosts do not forward."""
    far, todo = {dst: 0}, deque([dst])
    while todo:
        node = todo.popleft()
        if node != dst and node < hosts:
            continue
        for near in edges.get(node, ()):
            if near not in far:
                far[near] = far[node] + 1
                todo.append(near)
    return far
