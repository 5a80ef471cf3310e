"""A snapshot as a document again, and the id of its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING
from dataclasses import fields as fields_of
from typing import Any

from .fabric_hash import FabricHash, dump_hash
from .snapshot import Fabric, Job, Node, Pending, Planning, Rack, ReplicaGroup, Snapshot

_MEMBERS = {"node_class": "class"}


def dump_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """The document of ``snapshot``, with members at their default left out.

    ``load_snapshot(dump_snapshot(s)) == s``. Numbers without a fraction are written as integers.
    """
    document: dict[str, Any] = {"format": 1, "cluster": snapshot.cluster, "taken_at": snapshot.taken_at}
    if snapshot.sequence is not None:
        document["sequence"] = snapshot.sequence
    for member, value in (
        ("labels", dict(snapshot.labels)),
        ("fabric", _changed(snapshot.fabric)),
        ("pods", [{"id": pod.id, "uplinks": pod.uplinks} for pod in snapshot.pods]),
        ("planning", _changed(snapshot.planning)),
    ):
        if value:
            document[member] = value
    document["racks"] = [_rack(rack) for rack in snapshot.racks]
    document["jobs"] = [_job(job) for job in snapshot.jobs]
    if snapshot.pending:
        document["pending"] = [_changed(job) for job in snapshot.pending]
    return document


def snapshot_id(snapshot: Snapshot) -> str:
    """SHA-256, in hex, of what a decision about the placement rests on.

    The hashed text is the document of :func:`dump_snapshot` without ``taken_at``, ``sequence`` and
    ``planning``, and further without what says the same as leaving it out: an ``order`` by rank, an
    ``uplink_gbps`` equal to ``nic_gbps``, ``classes`` equal to those of the job's nodes. It is written
    as JSON in UTF-8 with members sorted by code point, no white space, no escapes but those that JSON
    demands, integers for numbers without a fraction, and the shortest digits that read back for the
    others. So member order, explicit defaults and the form of ``uplinks`` and nodes do not count; the
    order of racks, pods, jobs and groups, ids and labels do.
    """
    return _digest(_content(snapshot))


def placement_id(snapshot: Snapshot) -> str:
    """SHA-256, in hex, of the placement alone: where every worker is, and what may be done there.

    As :func:`snapshot_id`, and further without what is only told about it: ``labels``, ``traffic_gb``,
    ``iteration_s``, the jobs that are ``pending``, and ``remaining_s``, which changes with every second.
    Snapshots with the same placement id ask for the same moves; whether these are worthwhile may differ. A
    plan is out of date where the placement id has changed since, not where the snapshot id has.
    """
    document = _content(snapshot)
    for member in ("labels", "pending"):
        document.pop(member, None)
    for rack in document["racks"]:
        rack["nodes"] = {name: _without_labels(node) for name, node in rack["nodes"].items()}
    for job in document["jobs"]:
        for member in ("labels", "remaining_s"):
            job.pop(member, None)
        for group in job["replica_groups"]:
            for member in ("iteration_s", "traffic_gb"):
                group.pop(member, None)
    return _digest(document)


def _without_labels(node: int | dict[str, Any]) -> int | dict[str, Any]:
    if isinstance(node, int) or "labels" not in node:
        return node
    rest = {member: value for member, value in node.items() if member != "labels"}
    return int(rest["slots"]) if len(rest) == 1 else rest


def _content(snapshot: Snapshot) -> dict[str, Any]:
    """The document of which :func:`snapshot_id` is the digest."""
    document = dump_snapshot(snapshot)
    for member in ("taken_at", "sequence", "planning"):
        document.pop(member, None)
    fabric = snapshot.fabric
    if fabric.uplink_gbps == fabric.nic_gbps:
        del document["fabric"]["uplink_gbps"]
        if not document["fabric"]:
            del document["fabric"]
    for job, written in zip(snapshot.jobs, document["jobs"], strict=True):
        if job.classes is not None and job.classes == _classes_now(job, snapshot.node_by_id):
            del written["classes"]
        for group, row in zip(job.replica_groups, written["replica_groups"], strict=True):
            if group.order == tuple(range(len(group.workers))):
                del row["order"]
    return document


def _digest(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _classes_now(job: Job, nodes: Mapping[str, Node]) -> set[str]:
    return {nodes[node].node_class for group in job.replica_groups for node in group.workers}


def _rack(rack: Rack) -> dict[str, Any]:
    count = len(rack.spines)
    plain = not count or (rack.spines[0] == 0 and rack.spines[-1] == count - 1)
    row: dict[str, Any] = {"id": rack.id, "uplinks": count if plain else list(rack.spines)}
    if rack.pod is not None:
        row["pod"] = rack.pod
    row["nodes"] = {node.id: _node(node) for node in rack.nodes}
    return row


def _node(node: Node) -> int | dict[str, Any]:
    more = node.held or node.cordoned or node.drain or node.node_class or node.labels or node.addresses
    if not more:
        return node.slots
    long = _changed(node, skip=("id",))
    return node.slots if len(long) == 1 else long


def _job(job: Job) -> dict[str, Any]:
    row = _changed(job, skip=("replica_groups",))
    row["replica_groups"] = [_changed(group) for group in job.replica_groups]
    return row


def _defaults(model: type) -> tuple[tuple[str, str, Any], ...]:
    """Attribute, member and default of each field; a fresh object where there is no default."""
    return tuple(
        (
            field.name,
            _MEMBERS.get(field.name, field.name),
            field.default_factory() if field.default_factory is not MISSING else field.default,
        )
        for field in fields_of(model)
    )


_DEFAULTS = {model: _defaults(model) for model in (Fabric, Planning, Node, Job, ReplicaGroup, Pending)}


def _changed(part: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """Members of ``part`` that differ from their default."""
    row = {}
    for attribute, member, default in _DEFAULTS[type(part)]:
        value = getattr(part, attribute)
        if value != default and attribute not in skip:
            row[member] = value if type(value) is str or type(value) is int else _plain(value)
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, FabricHash):
        return dump_hash(value)
    return value
