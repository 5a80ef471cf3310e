"""Nodes, read from ``sinfo --json``, ``scontrol show nodes --json`` or slurmrestd.

22.05 and slurmrestd list nodes (``nodes``). Newer ``sinfo --json`` lists groups of like nodes, by partition
(``sinfo``); the same node then stands in the rows of several partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import values
from .answers import refuse_errors, rows_of
from .errors import refuse_answer
from .hostlist import is_host

DRAINING = frozenset({"DRAIN", "DRAINED", "DRAINING"})
RESERVED = frozenset({"RESERVED", "MAINTENANCE", "MAINT"})
COMPLETING = frozenset({"COMPLETING"})
BUSY = frozenset({"ALLOCATED", "ALLOC"})
ABSENT = frozenset(
    {
        "DOWN", "ERROR", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "INVALID", "INVALID_REG", "NOT_RESPONDING",
        "NO_RESPOND", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "POWER_UP",
        "REBOOT_ISSUED", "REBOOT_REQUESTED", "BLOCKED",
    }
)  # fmt: skip
"""States in which no work can start on a node now."""
WELL = frozenset({"IDLE", "MIXED", "ALLOCATED", "ALLOC", *DRAINING})
"""States of which a node has one, unless it is absent or in a state that is not known here."""


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node as Slurm tells of it.

    Attributes:
        states: base state and flags, in capitals.
        gres, gres_used: generic resources configured and in use, as Slurm writes them.
    """

    name: str
    states: frozenset[str]
    partitions: tuple[str, ...]
    gres: str
    gres_used: str
    features: tuple[str, ...] = ()

    @property
    def draining(self) -> bool:
        """An operator drains it: it gets no new jobs."""
        return bool(self.states & DRAINING)

    @property
    def reserved(self) -> bool:
        """Under a reservation or in maintenance."""
        return bool(self.states & RESERVED)

    @property
    def absent(self) -> bool:
        """Down, off, rebooting or unknown, to Slurm or to us: nothing can start on it."""
        return bool(self.states & ABSENT) or not self.states & WELL

    @property
    def completing(self) -> bool:
        """A job that ended still cleans up on it."""
        return bool(self.states & COMPLETING)

    @property
    def full(self) -> bool:
        """All its processors are allocated: what GPUs are left cannot be had."""
        return bool(self.states & BUSY)


def read_nodes(answer: Any) -> tuple[SlurmNode, ...]:
    """The nodes of an answer, of any shape; each once.

    Raises:
        InvalidAnswer: naming the field; SlurmFailed where the answer tells of errors.
    """
    refuse_errors(answer)
    if isinstance(answer, Mapping) and "nodes" not in answer and "sinfo" in answer:
        return _grouped(answer)
    nodes: dict[str, SlurmNode] = {}
    for at, row in enumerate(rows_of(answer, "nodes")):
        node = _node(row, f"/nodes/{at}")
        if node.name in nodes:
            raise refuse_answer(f"/nodes/{at}/name", "is the name of another node already", node.name)
        nodes[node.name] = node
    return tuple(nodes.values())


def _node(row: Mapping[str, Any], at: str) -> SlurmNode:
    name = values.text(row, "name", at)
    if not name:
        raise refuse_answer(f"{at}/name", "is missing", row.get("name"))
    if not is_host(name):
        raise refuse_answer(f"{at}/name", "is no name of a node", name)
    return SlurmNode(
        name=name,
        states=values.states(row, "state", "state_flags", at=at),
        partitions=values.names(row, "partitions", at),
        gres=values.gres(row, "gres", at),
        gres_used=values.gres(row, "gres_used", at),
        features=values.names(row, "features", at),
    )


def _grouped(answer: Any) -> tuple[SlurmNode, ...]:
    nodes: dict[str, SlurmNode] = {}
    for at, row in enumerate(rows_of(answer, "sinfo")):
        here = f"/sinfo/{at}"
        shared = _shared(row, here)
        listed = _part(row, "nodes", here).get("nodes")
        for name in values.names({"nodes": listed}, "nodes", f"{here}/nodes"):
            known = nodes.get(name)
            partitions = (*known.partitions, *shared.partitions) if known else shared.partitions
            nodes[name] = replace(shared, name=name, partitions=tuple(dict.fromkeys(partitions)))
    return tuple(nodes.values())


def _shared(row: Mapping[str, Any], at: str) -> SlurmNode:
    """What all nodes of a row have in common."""
    gres = _part(row, "gres", at)
    features = row.get("features")
    total = features.get("total") if isinstance(features, Mapping) else features
    return SlurmNode(
        name="",
        states=values.states(_part(row, "node", at), "state", at=f"{at}/node"),
        partitions=(values.text(_part(row, "partition", at), "name", f"{at}/partition"),),
        gres=values.gres(gres, "total", f"{at}/gres"),
        gres_used=values.gres(gres, "used", f"{at}/gres"),
        features=values.names({"features": total}, "features", at),
    )


def _part(row: Mapping[str, Any], member: str, at: str) -> Mapping[str, Any]:
    part = row.get(member)
    if not isinstance(part, Mapping):
        raise refuse_answer(f"{at}/{member}", "must be an object", part)
    return part
