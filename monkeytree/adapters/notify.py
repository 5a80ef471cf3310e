"""Wakes requests that wait for a plan: one pub/sub thread for all of them.

A worker publishes the id of a plan at its end. Waiters look at the store when they are woken, and now
and then anyway, so that a lost message, or no Redis at all, only makes them a little slower.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic

from redis.exceptions import RedisError

from .redis import connect

CHANNEL = "monkeytree:plan-ended"
#: How often a waiter looks by itself, with and without the pub/sub connection.
LOOK_CONNECTED_S, LOOK_ALONE_S = 5.0, 0.5
RETRY_S = 1.0


class Announcer:
    """The worker's side: tells that a plan is at its end."""

    def __init__(self, redis_url: str) -> None:
        self._redis = connect(redis_url)
        self._paused_until = 0.0

    def announce(self, plan_id: str) -> None:
        """Wake the waiters of a plan; silent when Redis is down, they will look by themselves."""
        if monotonic() < self._paused_until:
            return
        try:
            self._redis.publish(CHANNEL, plan_id)
        except RedisError:
            self._paused_until = monotonic() + RETRY_S


class Notifier:
    """The waiters' side; at most ``max_waiters`` wait at once."""

    def __init__(self, redis_url: str, max_waiters: int) -> None:
        self._redis_url = redis_url
        self._seats = threading.BoundedSemaphore(max_waiters)
        self._lock = threading.Lock()
        self._events: dict[str, set[threading.Event]] = {}
        self._connected = False
        self._thread: threading.Thread | None = None

    @contextmanager
    def seat(self) -> Iterator[bool]:
        """A place to wait; False when all are taken."""
        taken = self._seats.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._seats.release()

    def wait(self, plan_id: str, wait_s: float, is_over: Callable[[], bool]) -> bool:
        """Return as soon as ``is_over()`` holds, or after ``wait_s`` with what it says then."""
        self._listen()
        event = threading.Event()
        with self._lock:
            self._events.setdefault(plan_id, set()).add(event)
        deadline = monotonic() + wait_s
        try:
            while not is_over():
                left = deadline - monotonic()
                if left <= 0:
                    return False
                event.wait(min(left, LOOK_CONNECTED_S if self._connected else LOOK_ALONE_S))
                event.clear()
            return True
        finally:
            with self._lock:
                self._events[plan_id].discard(event)
                if not self._events[plan_id]:
                    del self._events[plan_id]

    def wake(self, plan_id: str | None = None) -> None:
        """Make the waiters of one plan, or all of them, look again."""
        with self._lock:
            woken = self._events.values() if plan_id is None else [self._events.get(plan_id, set())]
            for events in woken:
                for event in events:
                    event.set()

    def _listen(self) -> None:
        """Start the thread at the first wait: a server may fork after it made the application."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="plan-notifier", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            with suppress(RedisError, OSError), connect(self._redis_url) as redis:
                pubsub = redis.pubsub(ignore_subscribe_messages=True)
                pubsub.subscribe(CHANNEL)
                pubsub.ping()
                self._connected = True
                self.wake()  # what was announced before the connection stood is in the store
                while True:
                    message = pubsub.get_message(timeout=0.5)
                    if message is not None and message["type"] == "message":
                        self.wake(str(message["data"]))
            self._connected = False
            self.wake()
            pause.wait(RETRY_S)
