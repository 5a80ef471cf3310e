"""Labels of Kubernetes nodes: whatever says rack and block, in any of the schemes in use.

A scheme is a list of label keys from the top down. Topograph alone has written three: accelerator, leaf,
spine and core; then tiers, counted from the node; then tiers under ``fabric.topograph.run``. Kueue and
KAI name the keys in an object of their own (:func:`levels_of`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..errors import refuse_topology
from .model import Topology

SCHEMES: Mapping[str, tuple[str, ...]] = {
    "topograph-tiers": tuple(f"fabric.topograph.run/tier-{tier}" for tier in range(4, -1, -1)),
    "topograph-network-tiers": tuple(f"network.topology.nvidia.com/tier-{tier}" for tier in range(4, -1, -1)),
    "topograph-names": tuple(f"network.topology.nvidia.com/{name}" for name in ("core", "spine", "leaf")),
    "topograph-blocks": tuple(
        f"network.topology.nvidia.com/{name}" for name in ("datacenter", "spine", "block")
    ),
    "kueue": ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"),
    "aws": tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)),
    "gcp": ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
    "oci": ("oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/host.rack_id"),
    "topograph-accelerators": ("accelerator.topograph.run/domain",),
    "topograph-accelerator": ("network.topology.nvidia.com/accelerator",),
    "zones": ("topology.kubernetes.io/region", "topology.kubernetes.io/zone"),
}
"""Label keys from the top down, by scheme; the first whose last key most nodes bear is the default."""
HOSTNAME = "kubernetes.io/hostname"


def read_nodes(document: Any, source: str = "Kubernetes nodes") -> Topology:
    """``kubectl get nodes -o json`` (or YAML), or a list of node objects.

    Every label is a level key; by default the most exact scheme of :data:`SCHEMES` that most nodes bear
    (those of the control plane bear none).

    Raises:
        InvalidTopology: with the path of the member.
    """
    items = document.get("items") if isinstance(document, Mapping) else document
    if not isinstance(items, list) or not items:
        raise refuse_topology("/items", "must be a list of nodes", items)
    nodes: dict[str, dict[str, str]] = {}
    for index, item in enumerate(items):
        name, labels = _node(item, f"/items/{index}")
        if name in nodes:
            raise refuse_topology(
                f"/items/{index}/metadata/name", "is the name of another node already", name
            )
        nodes[name] = labels
    keys = tuple(sorted({key for labels in nodes.values() for key in labels}))
    return Topology(source, _known_first(keys), nodes, _default_levels(nodes))


def _node(item: Any, at: str) -> tuple[str, dict[str, str]]:
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(name, str) or not name:
        raise refuse_topology(f"{at}/metadata/name", "must be the node's name", name)
    labels = metadata.get("labels") or {}
    if not isinstance(labels, Mapping) or not all(isinstance(value, str) for value in labels.values()):
        raise refuse_topology(f"{at}/metadata/labels", "must map keys to strings", labels)
    return name, {str(key): value for key, value in labels.items()}


def _known_first(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Keys of the schemes from the top down, then the others."""
    known = [key for scheme in SCHEMES.values() for key in scheme if key in keys]
    return (*known, *(key for key in keys if key not in known))


def _default_levels(nodes: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    borne = Counter(key for labels in nodes.values() for key in labels)
    lowest = [scheme[-1] for scheme in SCHEMES.values()]
    by_most = [key for key in lowest if 2 * borne[key] > len(nodes)]
    return tuple([*by_most, *(key for key in lowest if borne[key])][:1])


def levels_of(document: Any) -> tuple[str, ...]:
    """The level keys of a Kueue ``Topology`` or a KAI topology object, from the top down, host left out.

    ``spec.levels: [{nodeLabel: cloud.provider.com/topology-block}, ...]``.

    Raises:
        InvalidTopology: with the path of the member.
    """
    spec = document.get("spec") if isinstance(document, Mapping) else None
    levels = spec.get("levels") if isinstance(spec, Mapping) else None
    if not isinstance(levels, list) or not levels:
        raise refuse_topology("/spec/levels", "must list levels, each with its nodeLabel", levels)
    keys = []
    for index, level in enumerate(levels):
        key = level.get("nodeLabel") if isinstance(level, Mapping) else None
        if not isinstance(key, str) or not key:
            raise refuse_topology(f"/spec/levels/{index}/nodeLabel", "must be a label key", key)
        keys.append(key)
    return tuple(key for key in keys if key != HOSTNAME)
