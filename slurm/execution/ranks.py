"""Which worker is which, when Slurm sorts a job's nodes anew.

Slurm lists a job's nodes in the order of its own table, and a snapshot takes the n-th of them for worker n.
After a live move the processes keep their ranks, so the job's comment says groups and ring orders from then
on (docs/slurm.md); after a requeue ranks are given out anew, by that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..jobs import SlurmJob
from ..layouts import MARK
from .work import JobWork

LONGEST = 1000
"""Longest comment that Slurm takes (1024, with some to spare)."""


def kept_by_order(job: JobWork, now: SlurmJob, table: Sequence[str]) -> bool:
    """Whether ranks given out by Slurm's order of nodes put all nodes into the groups that the plan says."""
    place = {node: at for at, node in enumerate(table)}
    after = sorted(job.after(job.all), key=lambda node: place.get(node, len(place)))
    if len(after) != len(now.nodes):
        return False
    index = {node: at for at, node in enumerate(now.nodes)}
    planned = job.groups_after(job.all)
    return all(
        frozenset(after[index[node]] for node in nodes if node in index) == frozenset(planned[group])
        for group, nodes in job.groups.items()
    )


def told_by_order(job: JobWork, comment: str, nodes: Sequence[str], done: frozenset[int]) -> bool:
    """Whether a snapshot would find groups and rings right without a word: blocks of nodes, in order."""
    found = MARK.search(comment)
    if found and ("groups=" in found[1] or "orders=" in found[1]):
        return False
    after = job.groups_after(done)
    ranks = [node for group in after.values() for node in group]
    rings = [after[group][rank] for group in after for rank in job.orders[group]]
    return ranks == list(nodes) and rings == list(nodes)


def comment_after(job: JobWork, comment: str, nodes: Sequence[str], done: frozenset[int]) -> str | None:
    """The comment that says where the ranks are now; None where it would be too long.

    Args:
        nodes: the job's nodes in Slurm's order.
        done: moves that are done; ring orders are the plan's once all are.
    """
    index = {node: at for at, node in enumerate(nodes)}
    groups = [[index[node] for node in ranks] for ranks in job.groups_after(done).values()]
    orders = [
        [group[rank] for rank in order]
        for group, order in zip(groups, (job.orders[name] for name in job.groups), strict=True)
    ]
    words: Mapping[str, str] = {
        "groups": "/".join(".".join(map(str, group)) for group in groups),
        "orders": "/".join(".".join(map(str, order)) for order in orders),
    }
    found = MARK.search(comment)
    kept = [word for word in (found[1].split(",") if found else []) if word.partition("=")[0] not in words]
    said = "monkeytree:" + ",".join([*kept, *(f"{key}={value}" for key, value in words.items())])
    text = (
        comment[: found.start()] + _gap(found[0]) + said + comment[found.end() :]
        if found
        else (f"{comment} {said}" if comment else said)
    )
    return text if len(text) <= LONGEST else None


def _gap(found: str) -> str:
    """The sign before the mark, if there is one."""
    return "" if found.startswith("monkeytree") else found[0]
