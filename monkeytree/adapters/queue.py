"""The queue: Celery on Valkey or Redis, as a wake-up only.

A message is the id of a plan, a validation or an execution; the row in the store is the truth. A message
that comes twice finds nothing to claim, one that is lost is sent again by the reaper. The settings and why
they stand so: docs/adr/0003-queue-as-wake-up.md.
"""

from __future__ import annotations

import time
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from monkeytree import limits

from .leased import Work
from .redis import TIMEOUT_S, connect, for_celery
from .settings import Settings

SOLVE = "solve"
VALIDATE = "validate"
EXECUTE = "execute"
#: All queues workers must be told to listen to; docker-compose.yml names the same (tested equal).
QUEUES = (SOLVE, VALIDATE, EXECUTE)
SOLVE_TASK = "monkeytree.solve"
VALIDATE_TASK = "monkeytree.validate"
EXECUTE_TASK = "monkeytree.execute"
PRIORITY_STEPS = 10
#: After a failed publish the broker is left alone for this long: each try costs up to its timeout.
PAUSE_S = 1.0
#: A task's last resort, above any `planning.time_limit_s` with its grace: the worker ends a solve itself and
#: says why in the plan, Celery would only kill it.
HARD_LIMIT_S = int(limits.TIME_LIMIT_S.high) + 7200
#: A message that nobody acknowledged comes back after this; the reaper has sent another long before.
VISIBILITY_TIMEOUT_S = HARD_LIMIT_S + 300
#: The outermost fence stands this far behind the worker's own, which says why in the plan.
FENCE_MARGIN_S = 15
#: A publisher tries once, at once; a worker, which has nothing else to do, keeps trying.
_ONE_TRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
_UNREACHABLE = (OperationalError, RedisError, OSError)


def make_celery(settings: Settings) -> Celery:
    """The Celery application of publishers and workers."""
    app = Celery("monkeytree", broker=for_celery(settings.redis_url), set_as_current=False)
    app.conf.update(
        task_default_queue=SOLVE,
        task_acks_late=True,
        # a task that kills its worker would come back for ever; the reaper counts attempts instead
        task_reject_on_worker_lost=False,
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        result_backend=None,
        task_serializer="json",
        accept_content=["json"],
        task_time_limit=HARD_LIMIT_S,
        worker_pool="prefork",  # the only pool where time limits and cancelling work
        worker_concurrency=settings.worker_concurrency,
        worker_prefetch_multiplier=1,
        worker_max_tasks_per_child=100,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        worker_send_task_events=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "priority_steps": list(range(PRIORITY_STEPS)),
            "queue_order_strategy": "priority",
            "socket_timeout": 10,
            "socket_connect_timeout": TIMEOUT_S,
            "socket_keepalive": True,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
        },
    )
    return app


def queue_keys(queue: str) -> tuple[str, ...]:
    """Kombu keeps a list for each priority; 0 is served first."""
    return (queue, *(f"{queue}\x06\x16{step}" for step in range(1, PRIORITY_STEPS)))


class TaskQueue:
    """Wakes workers; every method returns within about a second, also with the broker down."""

    name: str
    task: str

    def __init__(self, settings: Settings) -> None:
        self._celery = make_celery(settings)
        quick = {"connect_retries_timeout": TIMEOUT_S, "socket_timeout": TIMEOUT_S}
        self._celery.conf.broker_transport_options |= _ONE_TRY | quick
        self._redis = connect(settings.redis_url)
        self._grace_s = settings.solve_grace_s
        self._paused_until = 0.0

    def publish(self, work: Work, *, priority: int = 0) -> bool:
        """Send the id of a row to the workers; False when the broker cannot be reached.

        A failure loses nothing: the row is stored and the reaper publishes it later.
        """
        limit_s = work.limit_s + self._grace_s + FENCE_MARGIN_S
        return self._attempt(
            lambda: self._celery.send_task(
                self.task,
                args=[work.id],
                task_id=work.id,
                queue=self.name,
                priority=priority,
                headers={"monkeytree_request_id": work.request_id or ""},
                time_limit=min(HARD_LIMIT_S, int(limit_s)),
                ignore_result=True,
                retry=False,
            )
        )

    def revoke(self, its_id: str) -> bool:
        """Kill the process that works on it; False when the broker cannot be reached.

        A failure is no harm: the worker looks at the row itself and stops within a second or two.
        """
        return self._attempt(lambda: self._broadcast_revoke(its_id))

    def depth(self) -> int | None:
        """Messages that wait; None when the broker cannot be reached."""
        try:
            pipeline = self._redis.pipeline(transaction=False)
            for key in queue_keys(self.name):
                pipeline.llen(key)
            return sum(int(length) for length in pipeline.execute())
        except RedisError:
            return None

    def ping(self) -> bool:
        """Whether the broker answers."""
        try:
            return bool(self._redis.ping())
        except RedisError:
            return False

    def _attempt(self, send: Any) -> bool:
        if time.monotonic() < self._paused_until:
            return False
        try:
            send()
        except _UNREACHABLE:
            self._paused_until = time.monotonic() + PAUSE_S
            return False
        return True

    def _broadcast_revoke(self, its_id: str) -> None:
        with self._celery.connection_for_write() as connection:
            # a broadcast retries for ever on a dead broker: make sure of the broker first
            connection.ensure_connection(**_ONE_TRY, timeout=TIMEOUT_S)
            self._celery.control.revoke(its_id, terminate=True, signal="SIGKILL", connection=connection)


class SolveQueue(TaskQueue):
    """Plans to solve."""

    name = SOLVE
    task = SOLVE_TASK


class ValidateQueue(TaskQueue):
    """Validations to run."""

    name = VALIDATE
    task = VALIDATE_TASK


class ExecuteQueue(TaskQueue):
    """Executions to carry out."""

    name = EXECUTE
    task = EXECUTE_TASK
