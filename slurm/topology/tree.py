"""Switches of a tree, from whatever source, as a topology.

Level 0 is the switches that nodes hang on; a switch above others has one level more than the highest of
them, as slurmctld counts (``Level=`` of ``scontrol show topology``). The key of level n is ``leveln``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import refuse_topology
from .model import Topology

MOST_LEVELS = 16


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch: where it was read, its name, and what hangs on it."""

    at: str
    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


def tree_topology(source: str, switches: Sequence[Switch]) -> Topology:
    """The topology of ``switches``.

    Raises:
        InvalidTopology: a switch named twice, below two others or unknown, a node on two switches, a
            circle, a switch with nothing below it.
    """
    if not switches:
        raise refuse_topology(source, "names no switch")
    by_name = _by_name(switches)
    parent = _parents(switches, by_name)
    level = {name: _level(name, by_name, ()) for name in by_name}
    nodes: dict[str, dict[str, str]] = {}
    home: dict[str, str] = {}
    for switch in switches:
        for node in switch.nodes if not switch.switches else ():
            if node in home:
                raise refuse_topology(
                    switch.at, f"node hangs on {home[node]!r} already; a node hangs on one switch", node
                )
            home[node] = switch.name
            nodes[node] = {f"level{level[above]}": above for above in _upwards(switch.name, parent)}
    top = max(level.values())
    keys = tuple(f"level{at}" for at in range(top, -1, -1))
    return Topology(source, keys, nodes, ("level0",))


def _by_name(switches: Sequence[Switch]) -> dict[str, Switch]:
    by_name: dict[str, Switch] = {}
    for switch in switches:
        if switch.name in by_name:
            raise refuse_topology(
                switch.at, f"a switch of that name stands at {by_name[switch.name].at}", switch.name
            )
        if not switch.nodes and not switch.switches:
            raise refuse_topology(switch.at, "has neither nodes nor switches below it", switch.name)
        by_name[switch.name] = switch
    return by_name


def _parents(switches: Sequence[Switch], by_name: dict[str, Switch]) -> dict[str, str]:
    parent: dict[str, str] = {}
    for switch in switches:
        for below in switch.switches:
            if below not in by_name:
                raise refuse_topology(f"{switch.at}, switches", "is no known switch", below)
            if below in parent:
                raise refuse_topology(
                    f"{switch.at}, switches",
                    f"hangs below {parent[below]!r} already; a switch has one parent",
                    below,
                )
            parent[below] = switch.name
    return parent


def _level(name: str, by_name: dict[str, Switch], above: tuple[str, ...]) -> int:
    if name in above or len(above) > MOST_LEVELS:
        raise refuse_topology(f"{by_name[name].at}, switches", "hangs below itself", name)
    below = by_name[name].switches
    return 1 + max(_level(one, by_name, (*above, name)) for one in below) if below else 0


def _upwards(name: str, parent: dict[str, str]) -> list[str]:
    path = [name]
    while path[-1] in parent:
        path.append(parent[path[-1]])
    return path
