"""What every importer makes, and how racks and pods are told from it.

A node hangs below a value at each *level*: ``{"level1": "spine01", "level0": "rack01"}`` in Slurm's tree,
``{"PSW": "P10", "ASW": "S14"}`` in the Lingjun dataset, labels in Kubernetes. A site names an ordered list
of level keys, from the top down, as Kueue's topologies do; the last one makes racks, the one above it
pods. Labels may repeat below different parents (``S14`` exists in every PSW), so a rack is the whole path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from monkeytree.errors import Offence
from monkeytree.limits import MAX_NAME

from ..errors import InvalidTopology, offence, refuse_topology

MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class Topology:
    """Where each node hangs.

    Attributes:
        source: what it was read from, for messages.
        keys: level keys this source has, from the top down.
        nodes: node id -> level key -> value; a level may be missing for a node.
        levels: the levels that make racks (and pods) unless a site says otherwise.
        qualify: whether labels repeat below different parents, so that rack ids need the path.
    """

    source: str
    keys: tuple[str, ...]
    nodes: Mapping[str, Mapping[str, str]]
    levels: tuple[str, ...]
    qualify: bool = False


@dataclass(frozen=True, slots=True)
class Grouping:
    """Racks and pods.

    Attributes:
        racks: rack id -> its nodes, in the order of the source.
        pod_of: rack id -> pod id; empty where a single level was asked for.
        outside: nodes asked for that the topology does not know.
    """

    racks: Mapping[str, tuple[str, ...]]
    pod_of: Mapping[str, str] = field(default_factory=dict)
    outside: tuple[str, ...] = ()


def group(
    topology: Topology,
    levels: Sequence[str] = (),
    *,
    qualify: bool | None = None,
    nodes: Iterable[str] | None = None,
) -> Grouping:
    """Racks and pods of ``topology``.

    Args:
        levels: level keys from the top down; the last makes racks, the one before it pods. By default
            those of the source.
        qualify: name a rack by its whole path (``P10/S14``) instead of its label. By default as the
            source needs it.
        nodes: only these; by default all.

    Raises:
        InvalidTopology: an unknown level, a node without a value at a level, a label that stands below
            two parents and is not qualified.
    """
    wanted = tuple(levels) or topology.levels
    full = topology.qualify if qualify is None else qualify
    _check_levels(topology, wanted)
    known = topology.nodes
    asked = list(known) if nodes is None else list(nodes)
    paths = _paths(topology, wanted, [node for node in asked if node in known])
    names = {path: "/".join(path) if full else path[-1] for path in paths.values()}
    _check_names(names, wanted)
    racks: dict[str, list[str]] = {}
    for node, path in paths.items():
        racks.setdefault(names[path], []).append(node)
    pods = {names[path]: "/".join(path[:-1]) if full else path[-2] for path in names if len(path) > 1}
    outside = tuple(node for node in asked if node not in known)
    return Grouping({rack: tuple(members) for rack, members in racks.items()}, pods, outside)


def _check_levels(topology: Topology, wanted: Sequence[str]) -> None:
    if not wanted:
        has = f"{topology.source} has {', '.join(topology.keys[:MOST_LISTED]) or 'none'}"
        raise refuse_topology("levels", f"nothing says which level makes racks: name it; {has}", [])
    offences = [
        offence(
            f"levels/{at}", f"{topology.source} has no such level; it has {', '.join(topology.keys)}", key
        )
        for at, key in enumerate(wanted)
        if key not in topology.keys
    ]
    if len(set(wanted)) < len(wanted):
        offences.append(offence("levels", "a level is named twice", list(wanted)))
    if offences:
        raise InvalidTopology(offences)


def _paths(topology: Topology, wanted: Sequence[str], nodes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    paths: dict[str, tuple[str, ...]] = {}
    offences: list[Offence] = []
    for node in nodes:
        values = topology.nodes[node]
        missing = [key for key in wanted if not values.get(key)]
        if missing:
            offences.append(offence(node, f"has no {missing[0]} in {topology.source}", dict(values)))
        else:
            paths[node] = tuple(values[key] for key in wanted)
    if offences:
        raise InvalidTopology(offences[:MOST_LISTED])
    return paths


def _check_names(names: Mapping[tuple[str, ...], str], wanted: Sequence[str]) -> None:
    paths: dict[str, tuple[str, ...]] = {}
    for path, name in names.items():
        other = paths.setdefault(name, path)
        if other != path:
            above, here = "/".join(other[:-1]), "/".join(path[:-1])
            raise refuse_topology(
                wanted[-1], f"lies below both {above!r} and {here!r}; set `qualify: true`", name
            )
        if len(name) > MAX_NAME:
            raise refuse_topology(wanted[-1], f"a rack's name may have {MAX_NAME} characters", name)
