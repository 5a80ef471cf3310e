"""The moves one by one: they refer to what exists, and nothing moves that may not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .fault import Fault, pointer_to
from .placement import Group, Key, Placement


@dataclass(frozen=True, slots=True)
class Step:
    """A move that can be carried out: ``rank`` of ``group`` goes to node ``target``.

    ``index`` is its place in the plan's ``moves``; the source is where the snapshot has the rank.
    """

    index: int
    group: Group
    rank: int
    target: str
    wave: int
    staged: bool

    @property
    def source(self) -> str:
        return self.group.workers[self.rank]


def read_moves(
    moves: Sequence[Mapping[str, Any]], placement: Placement
) -> tuple[tuple[Step, ...], list[Fault]]:
    """The moves as steps, and the faults for which there is no placement after the plan."""
    steps: list[Step] = []
    faults: list[Fault] = []
    first: dict[tuple[Key, int], int] = {}
    for index, move in enumerate(moves):
        name = f"rank {move['rank']} of group {move['group']!r} of job {move['job']!r}"
        group = placement.groups.get((move["job"], move["group"]))
        if group is None or not 0 <= move["rank"] < len(group.workers):
            faults.append(_fault("move_of_unknown_rank", index, f"{name} is not in the snapshot", "rank"))
            continue
        earlier = first.setdefault((group.key, move["rank"]), index)
        if earlier != index:
            faults.append(_fault("rank_moved_twice", index, f"{name} already moves in /moves/{earlier}"))
        elif move["to"] not in placement.nodes:
            message = f"node {move['to']!r} is not in the snapshot"
            faults.append(_fault("move_to_unknown_node", index, message, "to"))
        else:
            steps.append(Step(index, group, move["rank"], move["to"], move["wave"], move["staged"]))
    return tuple(steps), faults


def move_faults(
    steps: Sequence[Step], moves: Sequence[Mapping[str, Any]], placement: Placement
) -> list[Fault]:
    """The moves that start elsewhere than they say, or break a rule of their node, job or group."""
    faults: list[Fault] = []
    for step in steps:
        said = moves[step.index]["from"]
        if said != step.source:
            message = f"says {said!r}, the rank is on {step.source!r}"
            faults.append(_fault("move_from_wrong_node", step.index, message, "from"))
        if step.target == step.source:
            message = f"the rank is on {step.target!r} already"
            faults.append(_fault("move_nowhere", step.index, message, "to"))
        faults += _target_faults(step, placement)
        faults += _mobility_faults(step, placement)
    return faults


def _target_faults(step: Step, placement: Placement) -> Iterator[Fault]:
    node = placement.nodes[step.target]
    if node.cordoned:
        yield _fault("move_to_cordoned_node", step.index, f"node {step.target!r} is cordoned", "to")
    if node.drain:
        yield _fault("move_to_draining_node", step.index, f"node {step.target!r} is draining", "to")
    classes = placement.jobs[step.group.job].classes
    if node.node_class not in classes:
        message = (
            f"node {step.target!r} is of class {node.node_class!r}, "
            f"job {step.group.job!r} accepts {sorted(classes)}"
        )
        yield _fault("class_not_allowed", step.index, message, "to")


def _mobility_faults(step: Step, placement: Placement) -> Iterator[Fault]:
    group = step.group
    if step.rank in group.pinned:
        yield _fault("pinned_rank_moved", step.index, f"rank {step.rank} is pinned", "rank")
    if placement.jobs[group.job].mobility == "none":
        yield _fault("immobile_job_moved", step.index, f"job {group.job!r} has mobility none", "job")
    if group.order_fixed:
        yield _fault("fixed_group_moved", step.index, f"group {group.id!r} has order_fixed", "group")


def _fault(code: str, index: int, message: str, *member: str) -> Fault:
    return Fault(code, pointer_to("moves", index, *member), message)
