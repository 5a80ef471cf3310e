"""Placement advice for pending jobs, as the ``scontrol`` lines that would follow it; nothing is run here.

The cluster is taken as it stands: no move of a plan is presumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monkeytree.advise import advise
from monkeytree.placement import Arrangement, degrees
from monkeytree.plan import PendingPlacement
from monkeytree.snapshot import Pending, Rack, Snapshot

from .hostlist import fold


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to tell Slurm about one pending job.

    Attributes:
        require: ReqNodeList that keeps every rack within its bound; "" where there is none.
        exclude: ExcNodeList that leaves Slurm the choice of the rest: the nodes of racks that cannot take
            another flow of this job as the cluster stands, and the pending jobs before it as advised.
    """

    placement: PendingPlacement
    job: Pending
    require: str
    exclude: str

    @property
    def commands(self) -> tuple[str, ...]:
        """The lines to choose from."""
        job = self.job.labels.get("slurm_task", self.job.id)
        lines = [f"scontrol update JobId={job} ReqNodeList={self.require}"] if self.require else []
        return (
            (*lines, f"scontrol update JobId={job} ExcNodeList={self.exclude}")
            if self.exclude
            else tuple(lines)
        )

    def document(self) -> dict[str, Any]:
        """It as plain data."""
        return {
            "job": self.job.id,
            "name": self.job.labels.get("name", ""),
            "workers": self.job.workers,
            "nodes": list(self.placement.nodes),
            "after": {rack: f[0] if len(f) == 1 else list(f) for rack, f in self.placement.after.items()},
            "within_bound": self.placement.within_bound,
            "proved": self.placement.proved,
            "because": list(self.placement.because),
            "req_node_list": self.require or None,
            "exc_node_list": self.exclude or None,
            "commands": list(self.commands),
        }


def proposals(snapshot: Snapshot) -> tuple[Proposal, ...]:
    """A proposal for each of ``snapshot.pending``, in order."""
    loads: dict[tuple[str, int], int] = dict(degrees(snapshot, Arrangement.of(snapshot)).racks)
    found = []
    for placement, job in zip(advise(snapshot), snapshot.pending, strict=True):
        full = _full_racks(snapshot, job, loads)
        require = fold(set(placement.nodes)) if placement.within_bound else ""
        exclude = fold(node.id for rack in full for node in rack.nodes)
        settled = not placement.nodes or (placement.within_bound and len(placement.after) == 1)
        found.append(Proposal(placement, job, require, "" if settled else exclude))
        loads.update({(rack, rail): f for rack, row in placement.after.items() for rail, f in enumerate(row)})
    return tuple(found)


def _full_racks(snapshot: Snapshot, job: Pending, loads: Mapping[tuple[str, int], int]) -> list[Rack]:
    """Racks that a flow of ``job`` would put over their bound."""
    rails = snapshot.fabric.rails
    added = [job.rings // rails + (1 if rail < job.rings % rails else 0) for rail in range(rails)]
    return [
        rack
        for rack in snapshot.racks
        if any(
            more and loads.get((rack.id, rail), 0) + more > snapshot.bound(rack)
            for rail, more in enumerate(added)
        )
    ]


def as_text(found: Sequence[Proposal]) -> str:
    """The proposals for a person to read; "" for none."""
    return "\n".join(line for one in found for line in _lines(one))


def _shown(name: str) -> str:
    """A job's name on one line, without what would steer a terminal: any user may choose it."""
    return "".join(sign if sign.isprintable() else "?" for sign in name)


def _lines(one: Proposal) -> list[str]:
    job, placement = one.job, one.placement
    name = _shown(job.labels.get("name", ""))
    head = f"job {job.id}{f' ({name})' if name else ''}, {job.workers} node{'s' if job.workers > 1 else ''}: "
    if not placement.nodes:
        return [head + "no room for it now"]
    racks = len(placement.after)
    where = f"{fold(set(placement.nodes))} in {racks} rack{'s' if racks > 1 else ''}"
    if placement.within_bound:
        lines = [f"{head}{where}, every rack within its bound"]
    else:
        surely = "no nodes keep" if placement.proved else "found no nodes that keep"
        over = ", ".join(placement.because)
        lines = [f"{head}{surely} every rack within its bound; on {where} these are over: {over}"]
    return lines + [f"  {command}" for command in one.commands]
