"""The bound in half-moves, rack by rack: the certificate that needs no numbers at all.

The same idea as :mod:`monkeytree.search.bound`, at the snapshot itself: a rack over its bound must see
groups go (a half-move here for each worker, and one more where it lands unless it may count as an
arrival there) or become whole (a half-move here for each worker that comes).
"""

from __future__ import annotations

from monkeytree.search.bound import IMPOSSIBLE, cheapest_removal
from monkeytree.snapshot import Snapshot

from .standing import Standing, lasting_load


def halves_bound(snapshot: Snapshot, groups: list[Standing], budget: int, racks: list[str]) -> int:
    """A lower bound on the moves of any compliant plan, or proof that ``budget`` is too few.

    Any value above ``budget`` says only that: ``budget`` moves are not enough.
    """
    lasting = lasting_load(snapshot, groups)
    bounds = {rack.id: snapshot.bound(rack) for rack in snapshot.racks}
    halves = 0
    for rack in racks:
        spread = [group for group in groups if group.spread and rack in group.count]
        worst = 0
        for rail in range(snapshot.fabric.rails):
            counting = [group for group in spread if group.rings[rail]]
            load = lasting[rack, rail] + sum(group.rings[rail] for group in counting)
            if load > bounds[rack]:
                options = [
                    (cost, group.rings[rail])
                    for group in counting
                    if (cost := _cheapest_way_out(group, rack, budget)) < IMPOSSIBLE
                ]
                worst = max(worst, cheapest_removal(options, load - bounds[rack]))
        if worst >= IMPOSSIBLE:
            return IMPOSSIBLE
        halves += worst
    return -(-halves // 2)


def _cheapest_way_out(group: Standing, rack: str, budget: int) -> int:
    """Fewest half-moves after which a group no longer counts on a rack."""
    here = group.count[rack]
    best = IMPOSSIBLE
    if here <= budget and rack not in group.stuck:
        gathers = any(_may_gather(group, other, budget) for other in group.count if other != rack)
        best = here if gathers else 2 * here
    if _may_gather(group, rack, budget):
        best = min(best, group.size - here)
    return best


def _may_gather(group: Standing, rack: str, budget: int) -> bool:
    """Whether a group might become whole on a rack it is on."""
    stuck_elsewhere = any(other != rack for other in group.stuck)
    return group.size - group.count[rack] <= budget and not stuck_elsewhere
