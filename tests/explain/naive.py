"""The reasons of moves and the freedom of demands, worked out from documents by the oracle's reading."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tests.oracle.brute import brute_force
from tests.oracle.reading import Document, World, read, walk

PLENTY = 4_096


def reasons(snapshot: Document, plan: Document) -> Iterator[set[str]]:
    """For each move of ``plan`` what goes wrong without it, all counted anew."""
    world = read(snapshot)
    moves = plan["moves"]
    loads = _loads(world, plan, moves)
    for index, move in enumerate(moves):
        rest = [other for other in moves if other is not move]
        undone = _loads(world, plan, rest, adjacent=(move["job"], move["group"]))
        found = {f"drain:{move['from']}"} if world.places[move["from"]].draining else set()
        for key, bound in world.bounds.items():
            if undone[key] > max(bound, loads[key]):
                found.add(key[0] if key[1] is not None else f"pod:{key[0]}")
        if _used(world, rest)[move["from"]] > world.places[move["from"]].room:
            late = [at for at, other in enumerate(moves) if other["wave"] >= move["wave"] and at != index]
            found |= {f"move:{at}" for at in late if moves[at]["to"] == move["from"]}
        yield found


def can_be_met(snapshot: Document, conflict: Document) -> bool:
    """Whether the jobs can be placed within the bounds of the racks and pods, the nodes drained."""
    cut: Document = copy.deepcopy(snapshot)
    cut["planning"] = {}
    cut["jobs"] = [job for job in cut["jobs"] if job["id"] in conflict["jobs"]]
    for rack in cut["racks"]:
        if rack["id"] not in conflict["racks"]:
            rack["uplinks"] = PLENTY
        for name, node in rack["nodes"].items():
            if isinstance(node, dict) and name not in conflict["drains"]:
                node.pop("drain", None)
    for pod in cut.get("pods", []):
        if pod["id"] not in conflict["pods"]:
            pod["uplinks"] = PLENTY
    best = brute_force(cut)
    return (best.undrained, best.excess) == (0, 0)


def without_one(conflict: Document) -> Iterator[Document]:
    """The conflict less one of its parts, for each part."""
    for kind, names in conflict.items():
        for name in names:
            yield {**conflict, kind: [other for other in names if other != name]}


def _after(world: World, moves: Sequence[Document]) -> dict[tuple[str, str], list[str]]:
    places = {(job.id, group.id): list(group.workers) for job in world.jobs for group in job.groups}
    for move in moves:
        places[move["job"], move["group"]][move["rank"]] = move["to"]
    return places


def _loads(
    world: World, plan: Document, moves: Sequence[Document], adjacent: tuple[str, str] | None = None
) -> Counter[Any]:
    """f of each leaf and pod after ``moves``, in the plan's orders; group ``adjacent`` in one that is."""
    orders = {(ring["job"], ring["group"]): ring["order"] for ring in plan["rings"]}
    after = _after(world, moves)
    loads: Counter[Any] = Counter()
    for job in world.jobs:
        for group in job.groups:
            nodes = [after[job.id, group.id][rank] for rank in orders.get((job.id, group.id), group.order)]
            if (job.id, group.id) == adjacent:
                nodes.sort(key=lambda node: (str(world.places[node].pod), world.places[node].rack))
            loads.update(world.loads(group, *walk(world, nodes)))
    return loads


def _used(world: World, moves: Sequence[Document]) -> Counter[str]:
    after = _after(world, moves)
    used: Counter[str] = Counter()
    for job in world.jobs:
        for group in job.groups:
            for node in after[job.id, group.id]:
                used[node] += group.slots
    return used
