"""LLDP neighbours of every host (``lldpctl -f json0``): the leaf a node hangs on, and no more.

LLDP (IEEE 802.1AB) tells a host its neighbour only: the chassis is the leaf. A host with several leaves
(two ToRs, one per rail) belongs to none of them alone: choose the interfaces that shall count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import refuse_topology
from .model import Topology

LEAF = "leaf"


def read_lldp(documents: Mapping[str, Any], interfaces: Iterable[str] = (), source: str = "LLDP") -> Topology:
    """Topology of one level, ``leaf``, from each host's answer.

    Args:
        documents: host -> what ``lldpctl -f json0`` printed there, as plain data. The form json0 is the
            one whose shape does not change with the number of neighbours (lldpcli(8)).
        interfaces: those that count; by default all.

    Raises:
        InvalidTopology: a host without a neighbour, or with more than one chassis on these interfaces.
    """
    wanted = frozenset(interfaces)
    nodes: dict[str, dict[str, str]] = {}
    for host, document in documents.items():
        found = _chassis(host, document, wanted)
        if not found:
            where = f"on {', '.join(sorted(wanted))}" if wanted else "on any interface"
            raise refuse_topology(host, f"sees no neighbour {where}", None)
        if len(set(found.values())) > 1:
            raise refuse_topology(
                host,
                "sees more than one chassis; name the interfaces that count (topology.interfaces)",
                dict(sorted(found.items())),
            )
        nodes[host] = {LEAF: next(iter(found.values()))}
    if not nodes:
        raise refuse_topology(source, "names no host")
    return Topology(source, (LEAF,), nodes, (LEAF,))


def _chassis(host: str, document: Any, wanted: frozenset[str]) -> dict[str, str]:
    """Chassis by interface: its id, or its system name where the id is missing."""
    found: dict[str, str] = {}
    for at, interface in _interfaces(host, document):
        name = interface.get("name")
        if not isinstance(name, str):
            raise refuse_topology(f"{host}: {at}/name", "must be the interface's name", name)
        if wanted and name not in wanted:
            continue
        for index, chassis in enumerate(_list(interface, "chassis", f"{host}: {at}")):
            here = f"{host}: {at}/chassis/{index}"
            value = _value(chassis, "id", here) or _value(chassis, "name", here)
            if value is None:
                raise refuse_topology(f"{here}/id", "the chassis tells neither id nor name", chassis)
            if found.setdefault(name, value) != value:
                raise refuse_topology(
                    here, f"{name} sees a second chassis; {found[name]} is the first", value
                )
    return found


def _interfaces(host: str, document: Any) -> list[tuple[str, Mapping[str, Any]]]:
    if not isinstance(document, Mapping):
        raise refuse_topology(f"{host}: /lldp", "must be an object with `lldp`", document)
    rows = []
    for outer, lldp in enumerate(_list(document, "lldp", host)):
        for inner, interface in enumerate(_list(lldp, "interface", f"{host}: /lldp/{outer}", optional=True)):
            rows.append((f"/lldp/{outer}/interface/{inner}", interface))
    return rows


def _list(row: Any, member: str, at: str, *, optional: bool = False) -> list[Any]:
    value = row.get(member, [] if optional else None) if isinstance(row, Mapping) else None
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise refuse_topology(f"{at}/{member}", "must be a list (is this the form json0?)", value)
    return value


def _value(chassis: Mapping[str, Any], member: str, at: str) -> str | None:
    values = _list(chassis, member, at, optional=True)
    value = values[0].get("value") if values else None
    return value if isinstance(value, str) and value else None
