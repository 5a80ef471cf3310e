"""What NVIDIA Topograph writes: its ``graph`` JSON, its models, and ConfigMaps of its Slinky engine.

Its Slurm engine writes topology.conf and topology.yaml, which :mod:`.slurm` reads, its Kubernetes engine
node labels, which :mod:`.kubernetes` reads. (docs/engines/graph.md and docs/engines/slinky.md of
NVIDIA/topograph.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import refuse_topology
from ..hostlist import BadHostlist, expand
from .model import Topology
from .tree import Switch, tree_topology

ACCELERATOR = "accelerator"
"""Level key of the NVLink domain (``attributes.nvlink``)."""


def read_graph(document: Any, source: str = "Topograph graph") -> Topology:
    """``{"instances": [{"id", "network_layers": [leaf, spine, ...], "attributes": {"nvlink"}}]}``.

    The layers are listed from the node up: they become ``level0``, ``level1`` and so on, as in
    Slurm's tree.

    Raises:
        InvalidTopology: with the path of the member.
    """
    instances = document.get("instances") if isinstance(document, Mapping) else None
    if not isinstance(instances, list) or not instances:
        raise refuse_topology("/instances", "must be a list of instances", instances)
    nodes: dict[str, dict[str, str]] = {}
    depth = 0
    for index, instance in enumerate(instances):
        at = f"/instances/{index}"
        name = _text(instance, "id", at)
        if name in nodes:
            raise refuse_topology(f"{at}/id", "is the id of another instance already", name)
        layers = instance.get("network_layers")
        if not isinstance(layers, list) or not all(isinstance(layer, str) and layer for layer in layers):
            raise refuse_topology(
                f"{at}/network_layers", "must list the switches above it, nearest first", layers
            )
        depth = max(depth, len(layers))
        values = {f"level{level}": layer for level, layer in enumerate(layers)}
        attributes = instance.get("attributes")
        if isinstance(attributes, Mapping) and isinstance(attributes.get("nvlink"), str):
            values[ACCELERATOR] = attributes["nvlink"]
        nodes[name] = values
    keys = tuple(f"level{level}" for level in range(depth - 1, -1, -1))
    extra = (ACCELERATOR,) if any(ACCELERATOR in values for values in nodes.values()) else ()
    return Topology(source, (*keys, *extra), nodes, ("level0",) if keys else extra)


def read_model(document: Any, source: str = "Topograph model") -> Topology:
    """A model (YAML): ``switches: {S2: {switches: [...], nodes: [...]}}``; nodes may be hostlists.

    Raises:
        InvalidTopology: with the path of the member.
    """
    rows = document.get("switches") if isinstance(document, Mapping) else None
    if not isinstance(rows, Mapping) or not rows:
        raise refuse_topology("/switches", "must map switches to what hangs on them", rows)
    switches = []
    for name, row in rows.items():
        at = f"/switches/{name}"
        row = {} if row is None else row
        if not isinstance(row, Mapping):
            raise refuse_topology(at, "must be an object", row)
        switches.append(Switch(at, str(name), _hosts(row, "nodes", at), _hosts(row, "switches", at)))
    return tree_topology(source, switches)


def configmap_text(document: Any, key: str | None = None) -> tuple[str, str]:
    """The topology in a Slinky ConfigMap: its file name (``topology.conf``, ``topology.yaml``) and text.

    Raises:
        InvalidTopology: there is none, or more than one and ``key`` does not say which.
    """
    data = document.get("data") if isinstance(document, Mapping) else None
    if not isinstance(data, Mapping):
        raise refuse_topology("/data", "must map file names to texts", data)
    found = [name for name in data if (name == key if key else str(name).startswith("topology."))]
    if len(found) != 1 or not isinstance(data[found[0]], str):
        raise refuse_topology("/data", "must hold one topology.conf or topology.yaml", sorted(map(str, data)))
    return str(found[0]), data[found[0]]


def _text(row: Any, member: str, at: str) -> str:
    value = row.get(member) if isinstance(row, Mapping) else None
    if not isinstance(value, str) or not value:
        raise refuse_topology(f"{at}/{member}", "must be a name", value)
    return value


def _hosts(row: Mapping[str, Any], member: str, at: str) -> tuple[str, ...]:
    listed = row.get(member) or []
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise refuse_topology(f"{at}/{member}", "must be a list of names", listed)
    try:
        return tuple(host for item in listed for host in expand(item))
    except BadHostlist as error:
        raise refuse_topology(f"{at}/{member}", str(error), listed) from None
