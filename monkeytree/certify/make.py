"""The story: the half-moves, the racks in trouble, all racks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from monkeytree.errors import SolverFailed
from monkeytree.snapshot import Snapshot
from monkeytree.solvers.highs import explored

from .halves import halves_bound
from .refute import Branch, Leaf, Refuter, as_program
from .standing import Standing, racks_in_trouble, standings
from .statement import Statement, state

MOST_COLUMNS = 30_000
MOST_BYTES = 200_000

Certificate = dict[str, Any]


def certify(snapshot: Snapshot, moves_needed: int, *, deadline: float) -> Certificate | None:
    """A certificate that every plan which meets all bounds and drains has ``moves_needed`` moves or more.

    Args:
        deadline: of ``time.monotonic``; the solver is stopped then.

    Returns:
        The ``certificate`` of the plan document (docs/solver-certificate.md); None where none was
        found, which says nothing about the plan.
    """
    budget = moves_needed - 1
    if budget < 0:
        return None
    groups = standings(snapshot)
    trouble = racks_in_trouble(snapshot, groups)
    if halves_bound(snapshot, groups, budget, trouble) > budget:
        return {"kind": "rack_halves", "bound": moves_needed, "racks": trouble}
    for racks, landing in _relaxations(snapshot, groups, trouble):
        statement = state(snapshot, groups, budget, racks, landing)
        tree = _refutation(statement, deadline)
        if tree is not None:
            certificate = {
                "kind": "relaxation",
                "bound": moves_needed,
                "racks": list(racks),
                "landing": sorted(landing),
                "tree": _written(tree)[0],
            }
            if len(json.dumps(certificate, separators=(",", ":"))) <= MOST_BYTES:
                return certificate
    return None


def _relaxations(
    snapshot: Snapshot, groups: list[Standing], trouble: Sequence[str]
) -> Iterator[tuple[Sequence[str], frozenset[int]]]:
    """Racks told apart and groups whose landing is followed, the smaller program first."""
    yield trouble, frozenset()
    near = frozenset(
        group.number for group in groups if group.spread and any(rack in group.count for rack in trouble)
    )
    everything = [rack.id for rack in snapshot.racks]
    for followed in (near, frozenset(group.number for group in groups if not group.frozen)):
        if 3 * len(followed) * len(everything) <= MOST_COLUMNS:
            yield everything, followed


def _refutation(statement: Statement, deadline: float) -> Leaf | Branch | None:
    left = deadline - time.monotonic()
    if left <= 0 or not statement.names:
        return None
    try:
        return explored(as_program(statement), lambda linear: Refuter(statement, linear).tree(), left)
    except (ImportError, SolverFailed):
        return None


def _written(tree: Leaf | Branch) -> tuple[dict[str, Any], dict[str, int]]:
    """A tree as plain data, and the multipliers that its root may leave to what is above it.

    Multipliers are added up along a path, so what both sides of a branch share is written once.
    """
    if isinstance(tree, Leaf):
        node: dict[str, Any] = {"multipliers": tree.multipliers}
        return node, tree.multipliers
    most, most_own = _written(tree.most)
    more, more_own = _written(tree.more)
    shared = {name: times for name, times in most_own.items() if more_own.get(name) == times}
    for child, own in ((most, most_own), (more, more_own)):
        child["multipliers"] = {name: times for name, times in own.items() if name not in shared}
    branch = {"column": tree.column, "at": tree.at, "most": most, "more": more, "multipliers": shared}
    return branch, shared
