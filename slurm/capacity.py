"""What nodes offer: slots, what of them nobody may use, whether workers may come, their class."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from monkeytree.limits import MAX_NAME
from monkeytree.snapshot import Node

from . import values
from .nodes import SlurmNode
from .site import NodeSite

ClassKey = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Use:
    """What is known of a node's slots: ``workers`` are placed, ``others`` hold without being workers."""

    workers: int = 0
    others: int = 0


def counts_gpus(nodes: Iterable[SlurmNode], site: NodeSite) -> bool:
    """Whether a slot is a GPU here, rather than a whole node."""
    if site.slots == "auto":
        return any(values.gres_count(node.gres, site.gres) for node in nodes)
    return site.slots == "gpus"


def as_node(
    node: SlurmNode, use: Use, site: NodeSite, name: str, *, gpus: bool, warn: Callable[[str], None]
) -> Node:
    """The node of a snapshot.

    Where nothing can start its free slots are held: on nodes that are down or off, still clean up
    (COMPLETING), or have no processor left; so are those that Slurm counts as used by nobody we know.

    Args:
        name: its class.
        gpus: whether a slot is a GPU.
    """
    slots = values.gres_count(node.gres, site.gres) if gpus else 1
    if use.workers > slots:
        if gpus:
            warn(f"node {node.name}: workers hold {use.workers} of {slots} {site.gres}; all are counted")
        slots = use.workers
    free = slots - use.workers
    if node.absent or node.completing or node.full:
        held = free
    elif gpus:
        used = values.gres_count(node.gres_used, site.gres)
        held = min(free, max(use.others, used - use.workers))
    else:
        busy = use.others or (not use.workers and "MIXED" in node.states)
        held = free if busy else 0
    draining = node.draining and site.draining == "drain" and not node.absent
    shared = not gpus and use.workers > 1
    cordoned = (node.absent or node.reserved or shared or node.draining) and not draining
    return Node(id=node.name, slots=slots, held=held, cordoned=cordoned, drain=draining, node_class=name)


def class_keys(nodes: Iterable[SlurmNode], site: NodeSite) -> dict[str, ClassKey]:
    """What tells the classes apart, by node: partitions, GPU types, features, as the site lists them."""

    def key(node: SlurmNode) -> ClassKey:
        parts = {
            "partitions": tuple(sorted(node.partitions)),
            "gres": values.gres_types(node.gres, site.gres),
            "features": tuple(sorted(node.features)),
        }
        return tuple(parts[what] for what in site.classes)

    return {node.name: key(node) for node in nodes}


def class_names(keys: Mapping[str, ClassKey]) -> dict[ClassKey, str]:
    """A name for each class: ``train+debug/h100``; "" where there is only one class."""
    distinct = sorted(set(keys.values()))
    if len(distinct) < 2:
        return dict.fromkeys(distinct, "")
    names: dict[ClassKey, str] = {}
    for key in distinct:
        name = "/".join("+".join(part) for part in key)
        if not name.strip("/") or len(name) > MAX_NAME or name in names.values():
            name = f"{name[:100]}#{hashlib.sha256(repr(key).encode()).hexdigest()[:8]}"
        names[key] = name
    return names


def classes_for(
    partitions: Iterable[str], here: Iterable[ClassKey], site: NodeSite, names: Mapping[ClassKey, str]
) -> frozenset[str] | None:
    """Classes that a job of these partitions, on nodes of the classes ``here``, may move to.

    Those that share a partition with it and are otherwise like one that it is on (any, where it is on
    none yet). None where there is one class only.
    """
    if len(names) < 2:
        return None
    wanted = set(partitions)
    at = site.classes.index("partitions") if "partitions" in site.classes else None
    like = {_without(key, at) for key in here}
    found = {
        name
        for key, name in names.items()
        if (at is None or wanted & set(key[at])) and (not like or _without(key, at) in like)
    }
    return frozenset(found | {names[key] for key in here})


def _without(key: ClassKey, at: int | None) -> ClassKey:
    return key if at is None else (*key[:at], *key[at + 1 :])
