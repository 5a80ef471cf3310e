"""Plans of random snapshots with every member there is: they hold, and what is changed in them is caught."""

from __future__ import annotations

import copy
import json
import os
from random import Random
from typing import Any

import pytest

import monkeytree
from monkeytree.errors import InvalidSnapshot, Offence
from monkeytree.snapshot import Snapshot
from monkeytree.wire.snapshot import parse_snapshot
from tests.fuzz.members import broken, with_members
from tests.oracle.generate import small_snapshot, tiny_snapshot

TIMES = int(os.environ.get("MONKEYTREE_FUZZ", "1"))
BLOCK = 6
JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 10**400, 1.5, float("nan"), float("inf"), "", "é\u202e", "\ud800", "\x00",
    "10.0.0.1", "010.0.0.1", "fe80::1%eth0", "٣", [], [[]], [None], [1] * 10, {}, {"": 1},
    {"r0/" + "9" * 5000: 1}, {"r0/٣": 1}, {"01": [49152], "1": [49153]}, {"1": [49152], "2": [49152]},
    {"9" * 5000: [1]}, {"1": [70_000]},
)  # fmt: skip
NEW = {"hash", "addresses", "pending", "remaining_s", "iteration_s", "traffic_gb", "trigger"}


def drawn(seed: int) -> dict[str, Any]:
    rng = Random(seed)
    return with_members(tiny_snapshot(rng) if seed % 2 else small_snapshot(rng), rng)


@pytest.mark.parametrize("block", range(10 * TIMES))
def test_a_plan_holds_and_its_members_are_checked(block: int) -> None:
    for seed in range(300_000 + block * BLOCK, 300_000 + (block + 1) * BLOCK):
        document = drawn(seed)
        snapshot = monkeytree.load_snapshot(document)
        again = monkeytree.load_snapshot(json.loads(json.dumps(monkeytree.dump_snapshot(snapshot))))
        assert again == snapshot, seed
        assert monkeytree.snapshot_id(again) == monkeytree.snapshot_id(snapshot), seed
        plan = json.loads(json.dumps(monkeytree.dump_plan(monkeytree.make_plan(snapshot, time_limit_s=5))))
        assert monkeytree.check(document, plan) == [], seed
        assert monkeytree.dump_plan(monkeytree.load_plan(plan)) == plan, seed
        for name, wrong in broken(plan, Random(seed)):
            assert monkeytree.check(document, wrong), (seed, name)


@pytest.mark.parametrize("block", range(10 * TIMES))
def test_junk_in_a_member_is_read_or_refused_by_pointer(block: int) -> None:
    for seed in range(400_000 + block * BLOCK * 2, 400_000 + (block + 1) * BLOCK * 2):
        rng, document = Random(seed), drawn(seed)
        for _ in range(rng.randint(1, 3)):
            spoil(document, rng)
        snapshot, offences = read(json.dumps(document))
        assert all(one.pointer == "" or one.pointer.startswith("/") for one in offences), seed
        json.dumps([one.value for one in offences], allow_nan=False)
        if snapshot is None:
            assert offences, seed
        else:
            assert monkeytree.load_snapshot(monkeytree.dump_snapshot(snapshot)) == snapshot, seed


def read(text: str) -> tuple[Snapshot | None, tuple[Offence, ...]]:
    """The snapshot in ``text``, or what is wrong with it."""
    try:
        return parse_snapshot(text), ()
    except InvalidSnapshot as error:
        return None, tuple(error.offences)


def spoil(document: dict[str, Any], rng: Random) -> None:
    """Replace one of the new members, or a part of one."""
    path = rng.choice([path for path in paths(document) if NEW & set(path)])
    target: Any = document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = copy.deepcopy(rng.choice(JUNK))


def paths(part: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = []
    for step, value in part.items() if isinstance(part, dict) else enumerate(part):
        found.append((*path, step))
        if isinstance(value, dict | list):
            found += paths(value, (*path, step))
    return found
