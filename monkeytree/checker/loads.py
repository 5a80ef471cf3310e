"""Fragmentation degrees f_t of leaves and pods, their bounds and the excess (paper, section 4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .fault import Fault, pointer_to
from .placement import Group, Key, Placement

Leaf = tuple[str, int]
"""(rack id, rail)."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Flows that leave each leaf and each pod; absent means none."""

    leaves: dict[Leaf, int] = field(default_factory=lambda: defaultdict(int))
    pods: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(
        self, group: Group, workers: Sequence[str], order: Sequence[int], placement: Placement, sign: int = 1
    ) -> set[Leaf]:
        """Add (or with ``sign`` -1 take away) the flows of ``group``; the leaves that changed."""
        if not group.sends:
            return set()
        racks = [placement.rack_of[workers[rank]] for rank in order]
        departures: dict[str, int] = defaultdict(int)
        previous = racks[-1]
        for rack in racks:
            if rack != previous:
                departures[previous] += 1
                pod = placement.racks[previous].pod
                if pod is not None and placement.racks[rack].pod != pod:
                    self.pods[pod] += sign * group.rings
            previous = rack
        touched = set()
        for rail in range(min(placement.rails, group.rings)):
            rings = sign * placement.rings_on_rail(group, rail)
            for rack, hops in departures.items():
                self.leaves[rack, rail] += hops * rings
                touched.add((rack, rail))
        return touched

    def copy(self) -> Loads:
        copied = Loads()
        copied.leaves.update(self.leaves)
        copied.pods.update(self.pods)
        return copied


def loads_of(
    workers: Mapping[Key, Sequence[str]], orders: Mapping[Key, Sequence[int]], placement: Placement
) -> Loads:
    """The loads of a whole placement."""
    loads = Loads()
    for key, group in placement.groups.items():
        loads.add(group, workers[key], orders[key], placement)
    return loads


def excess_of(loads: Loads, placement: Placement) -> int:
    """Sum of f - bound over the leaves and pods that are over."""
    leaves = sum(max(0, f - placement.bound(rack)) for (rack, _), f in loads.leaves.items())
    return leaves + sum(max(0, f - placement.pod_bound(pod)) for pod, f in loads.pods.items())


def load_faults(
    plan: Mapping[str, Any], before: Loads, after: Loads, placement: Placement
) -> Iterator[Fault]:
    """Wrong entries of the plan's ``racks`` and ``pods``, and those that must be there and are not.

    Racks and pods that comply all along may be left out.
    """
    rails = range(placement.rails)
    for rack in placement.racks:
        figures = {
            "bound": [placement.bound(rack) for _ in rails],
            "before": [before.leaves.get((rack, rail), 0) for rail in rails],
            "after": [after.leaves.get((rack, rail), 0) for rail in rails],
        }
        yield from _entry_faults("racks", rack, plan["racks"].get(rack), figures, placement.rails > 1)
    for pod in placement.pods:
        figures = {
            "bound": [placement.pod_bound(pod)],
            "before": [before.pods.get(pod, 0)],
            "after": [after.pods.get(pod, 0)],
        }
        yield from _entry_faults("pods", pod, plan["pods"].get(pod), figures, False)
    for tier, known in (("racks", placement.racks), ("pods", placement.pods)):
        for name in plan[tier]:
            if name not in known:
                message = f"{name!r} is not in the snapshot"
                yield Fault("load_of_unknown", pointer_to(tier, name), message)


def _entry_faults(
    tier: str, name: str, entry: Mapping[str, Any] | None, figures: Mapping[str, list[int]], listed: bool
) -> Iterator[Fault]:
    bound, before, after = figures["bound"], figures["before"], figures["after"]
    if entry is None:
        over = any(max(b, a) > limit for limit, b, a in zip(bound, before, after, strict=True))
        if over or before != after:
            message = f"{name!r} is not listed: bound {bound}, before {before}, after {after}"
            yield Fault("load_missing", pointer_to(tier), message)
        return
    for member, figure in figures.items():
        right: int | list[int] = figure if listed else figure[0]
        said = entry[member]
        said = list(said) if isinstance(said, list | tuple) else said
        if said != right:
            where = pointer_to(tier, name, member)
            yield Fault(f"wrong_{member}", where, f"{member} of {name!r} is {right}, not {said}")


def excess_faults(plan: Mapping[str, Any], after: Loads, placement: Placement) -> Iterator[Fault]:
    """A wrong ``excess``."""
    excess = excess_of(after, placement)
    if plan["excess"] != excess:
        yield Fault("wrong_excess", "/excess", f"the excess after the plan is {excess}, not {plan['excess']}")
