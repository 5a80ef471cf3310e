"""Queue and notifications on a real Valkey, and without one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from monkeytree.adapters import notify
from monkeytree.adapters.notify import Announcer, Notifier
from monkeytree.adapters.queue import SOLVE, SolveQueue, make_celery, queue_keys
from monkeytree.adapters.rows import PlanRow
from monkeytree.adapters.settings import Settings
from monkeytree.snapshot import Planning
from tests.integration.rig import Valkey, eventually

PLAN = PlanRow(
    id="p1", snapshot_id="s", cluster="c", planning=Planning(), state="queued", status=None,
    moves_needed=None, attempt=0, lease_until=None, created_at=0.0, started_at=None, finished_at=None,
    failure_code=None, failure_message=None, request_id="r1",
)  # fmt: skip


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    server = Valkey(tmp_path / "valkey").start()
    yield server
    server.kill()


def test_a_message_is_the_plan_id_and_waits_by_priority(valkey: Valkey) -> None:
    queue = SolveQueue(Settings(redis_url=valkey.url))
    assert queue.depth() == 0
    assert queue.publish(PLAN)
    assert queue.publish(replace(PLAN, id="p2"), priority=5)
    assert queue.depth() == 2
    client = valkey.client()
    keys = [key for key in queue_keys(SOLVE) if client.exists(key)]
    assert keys == ["solve", "solve\x06\x165"]
    assert '"id": "p1"' in str(client.lindex("solve", 0))


def test_without_a_broker_publishing_says_so_soon_and_recovers(valkey: Valkey) -> None:
    queue = SolveQueue(Settings(redis_url=valkey.url))
    valkey.kill()
    assert queue.publish(PLAN) is False
    assert queue.revoke("p1") is False
    assert queue.ping() is False
    assert queue.depth() is None
    valkey.start()
    eventually(lambda: queue.publish(PLAN), "it publishes again")
    assert queue.ping()


def test_the_settings_that_lose_nothing() -> None:
    conf = make_celery(Settings(redis_url="redis://localhost")).conf
    assert conf.task_acks_late is True
    assert conf.task_reject_on_worker_lost is False
    assert conf.task_ignore_result is True
    assert conf.worker_prefetch_multiplier == 1
    assert conf.worker_cancel_long_running_tasks_on_connection_loss is False
    assert conf.broker_transport_options["visibility_timeout"] > conf.task_time_limit
    assert conf.result_backend is None


def test_an_announcement_wakes_the_waiter(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "LOOK_CONNECTED_S", 3600.0)
    notifier, over, looks = Notifier(valkey.url, 4), threading.Event(), threading.Semaphore(0)

    def is_over() -> bool:
        looks.release()
        return over.is_set()

    found: list[bool] = []
    waiter = threading.Thread(target=lambda: found.append(notifier.wait("p1", 3600.0, is_over)), daemon=True)
    waiter.start()
    eventually(lambda: valkey.client().pubsub_numsub(notify.CHANNEL)[0][1], "it listens")
    assert looks.acquire(timeout=10)
    over.set()
    Announcer(valkey.url).announce("p1")
    eventually(lambda: not waiter.is_alive(), "it wakes", 10)
    assert found == [True]


def test_without_a_broker_the_waiter_looks_by_itself() -> None:
    notifier, looks = Notifier("redis://127.0.0.1:1", 4), iter([False, False, True])
    assert notifier.wait("p1", 60.0, lambda: next(looks)) is True


def test_seats_are_few() -> None:
    notifier = Notifier("redis://127.0.0.1:1", 1)
    with notifier.seat() as first, notifier.seat() as second:
        assert (first, second) == (True, False)
    with notifier.seat() as third:
        assert third is True
