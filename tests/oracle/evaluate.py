"""What a plan document costs, worked out hop by hop; a plan that may not be is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .reading import Document, Group, Job, Score, World, read, walk


class IllegalPlan(AssertionError):
    """The plan does what the snapshot forbids."""


def evaluate(snapshot: Document, plan: Document) -> Score:
    """The score of ``plan``, from its ``moves`` and ``rings`` alone; groups not in ``rings`` keep theirs.

    Raises:
        IllegalPlan: a move of a rank that may not move, from where it is not, to a node that does not
            take it; an order that is no permutation or not free; a node overfilled; over ``max_moves``.
    """
    world = read(snapshot)
    moves = {(move["job"], move["group"], move["rank"]): move for move in plan.get("moves", [])}
    orders = {(ring["job"], ring["group"]): ring["order"] for ring in plan.get("rings", [])}
    _require(len(moves) == len(plan.get("moves", [])), "a rank moves twice")
    _require(world.max_moves is None or len(moves) <= world.max_moves, f"{len(moves)} moves")
    used: Counter[str] = Counter()
    loads: Counter[Any] = Counter()
    undrained = jobs_paused = seen_moves = seen_rings = 0
    gpu_seconds = 0.0
    for job in world.jobs:
        states: list[float] = []
        reordered = False
        for group in job.groups:
            own = {
                rank: moves[key]
                for rank in range(len(group.workers))
                if (key := (job.id, group.id, rank)) in moves
            }
            after = _apply(world, job, group, own)
            order = orders.get((job.id, group.id), group.order)
            reordered |= _reordered(group, order)
            states += [group.state_gb] * bool(own)
            seen_moves, seen_rings = seen_moves + len(own), seen_rings + ((job.id, group.id) in orders)
            used.update({node: count * group.slots for node, count in Counter(after).items()})
            undrained += sum(world.places[node].draining for node in after)
            loads += world.loads(group, *walk(world, [after[rank] for rank in order]))
        if states or reordered:
            jobs_paused += 1
            gpu_seconds += world.gpu_seconds(job, max(states, default=None))
    _require(seen_moves == len(moves), "a move of an unknown rank")
    _require(seen_rings == len(plan.get("rings", [])), "a ring of an unknown group, or twice")
    for node, slots in used.items():
        _require(slots <= world.places[node].room, f"{slots} slots used on {node}")
    cost = gpu_seconds if world.by_gpu_seconds else None
    return Score(undrained, world.excess(loads), cost, len(moves), jobs_paused, world.summed_f(loads))


def _apply(world: World, job: Job, group: Group, moves: Mapping[int, Document]) -> list[str]:
    """The node of each rank after ``moves`` (by rank)."""
    after = list(group.workers)
    for rank, move in moves.items():
        _require(rank in group.movable, f"rank may not move: {move}")
        _require(move["from"] == after[rank] != move["to"], f"wrong source: {move}")
        _require(move["to"] in world.places, f"unknown node: {move}")
        target = world.places[move["to"]]
        _require(target.accepts and target.node_class in job.classes, f"not received there: {move}")
        after[rank] = move["to"]
    return after


def _reordered(group: Group, order: Sequence[int]) -> bool:
    """Whether ``order`` is another cyclic order than the present one."""
    _require(sorted(order) == sorted(group.order), f"no permutation: {order} of group {group.id}")
    start = list(order).index(group.order[0])
    changed = (*order[start:], *order[:start]) != group.order
    _require(group.free_order or not changed, f"order is not free: {order} of group {group.id}")
    return changed


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise IllegalPlan(fault)
