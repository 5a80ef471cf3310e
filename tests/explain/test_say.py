"""What people read."""

from __future__ import annotations

import doctest

from monkeytree.explain import Conflict, say, say_because, say_conflict
from monkeytree.plan import Move


def said(*because: str) -> str:
    return say_because(Move("A", "0", 0, "n1", "n2", 0, because=because))


def test_the_examples_hold() -> None:
    assert doctest.testmod(say).failed == 0


def test_reasons() -> None:
    assert said() == ""
    assert said("r1") == "without this move rack r1 would be over its bound"
    assert said("r1", "r2", "pod:p") == "without this move racks r1, r2 and pod p would be over their bounds"
    assert said("move:0", "move:2") == "it frees the slot for moves 0 or 2"
    assert said("row:7") == "without this move rack row:7 would be over its bound"


def test_conflicts() -> None:
    every = "Without any one of these it could be done."
    one = say_conflict(Conflict(("A",), ("r1",)))
    assert one == f"Job A cannot be placed so that rack r1 keeps within its bound. {every}"
    more = say_conflict(Conflict(("A", "B", "C"), ("r1", "r2"), ("p",), ("n", "m")))
    demands = "racks r1, r2 and pod p keep within their bounds and n and m are drained"
    assert more == f"Jobs A, B and C cannot be placed so that {demands}. {every}"


def test_long_lists_are_cut() -> None:
    racks = tuple(f"r{number}" for number in range(63))
    assert "racks r0, r1, r2, r3, r4, r5, r6 and 56 more keep" in say_conflict(Conflict(("A",), racks))
    eight = say_conflict(Conflict(("A",), racks[:8]))
    assert "racks r0, r1, r2, r3, r4, r5, r6 and r7 keep" in eight
