"""The reaper sends again what was lost, and only that."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from monkeytree.adapters.holder import this_holder
from monkeytree.adapters.notify import Announcer
from monkeytree.adapters.queue import SolveQueue
from monkeytree.adapters.rows import Receipt, SnapshotRow
from monkeytree.snapshot import Planning
from monkeytree.workers.reaper import Reaper
from tests.integration.rig import Rig, rig


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path / "rig", requeue_after_s=0.01, max_attempts=1) as made:
        yield made


@pytest.fixture
def queue(parts: Rig) -> SolveQueue:
    return SolveQueue(parts.settings)


@pytest.fixture
def reaper(parts: Rig) -> Reaper:
    return Reaper(parts.settings, parts.store, Announcer(parts.settings.redis_url))


def submit(parts: Rig, name: str) -> Receipt:
    arrival = SnapshotRow(name * 64, f"c-{name}", 0.0, None, time.time())
    return parts.store.submit(arrival, b"{}", Planning())


def test_while_messages_wait_none_is_sent_again(parts: Rig, queue: SolveQueue, reaper: Reaper) -> None:
    for name in "ab":
        queue.publish(submit(parts, name).plan)
    time.sleep(0.05)
    reaper.reap()
    assert queue.depth() == 2


def test_lost_messages_are_sent_again_once(parts: Rig, queue: SolveQueue, reaper: Reaper) -> None:
    for name in "ab":
        queue.publish(submit(parts, name).plan)
    parts.valkey.client().flushall()
    time.sleep(0.05)
    for _ in range(3):
        reaper.reap()
    assert queue.depth() == 2


def test_without_a_broker_a_round_does_no_harm(parts: Rig, queue: SolveQueue, reaper: Reaper) -> None:
    plan = submit(parts, "a").plan
    time.sleep(0.05)
    parts.valkey.kill()
    reaper.reap()
    parts.valkey.start()
    time.sleep(1.1)  # the queue leaves a broker that failed alone for a second
    reaper.reap()
    assert queue.depth() == 1
    assert parts.store.plan(plan.id).state == "queued"


def test_spent_plans_fail_with_their_reason(parts: Rig, reaper: Reaper) -> None:
    plan = submit(parts, "a").plan
    parts.store.claim(plan.id, 0.01, 1)
    time.sleep(0.05)
    reaper.reap()
    row = parts.store.plan(plan.id)
    assert (row.state, row.failure_code) == ("failed", "solver_crashed")
    assert "1 times of 1" in (row.failure_message or "")


def test_a_process_that_died_here_is_seen_before_its_lease_ends(parts: Rig, reaper: Reaper) -> None:
    dead = subprocess.run(
        [sys.executable, "-c", "from monkeytree.adapters.holder import this_holder; print(this_holder())"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    held, elsewhere, ours = (submit(parts, name).plan.id for name in "abc")
    for plan_id, holder in ((held, dead), (elsewhere, f"other-{dead}"), (ours, this_holder())):
        assert parts.store.claim(plan_id, 3600.0, 1, holder)
    reaper.reap()
    states = [parts.store.plan(plan_id).state for plan_id in (held, elsewhere, ours)]
    assert states == ["failed", "solving", "solving"]
