"""The worker process: ``celery -A monkeytree.workers.main worker``, configured by the environment."""

from __future__ import annotations

import logging
import os
import socket
from time import monotonic
from typing import Any

from celery import Celery, Task, signals

from monkeytree.adapters.logs import bound, configure_logs, logger
from monkeytree.adapters.queue import (
    EXECUTE,
    EXECUTE_TASK,
    SOLVE,
    SOLVE_TASK,
    VALIDATE,
    VALIDATE_TASK,
    make_celery,
)
from monkeytree.adapters.settings import Settings
from monkeytree.adapters.simulator import why_not
from monkeytree.adapters.store import Store
from monkeytree.errors import MonkeyTreeError

from .execute import Crew
from .reaper import expire_dead
from .solve import Bench
from .validate import Track

#: Importing solvers in a fresh child may take this long on a busy machine.
CHILD_START_S = 60.0
#: What a worker is called in its heartbeats, by the queue it serves.
BEATS_AS = {SOLVE: "worker", VALIDATE: "validator", EXECUTE: "executor"}
#: What a validator lacks is looked for this often.
PROBE_EVERY_S = 10.0


def make_worker(settings: Settings) -> Celery:
    """The Celery application with its tasks; nothing is opened before the children have forked."""
    app = make_celery(settings)
    app.conf.worker_proc_alive_timeout = CHILD_START_S
    bench, track, crew = Bench(settings), Track(settings), Crew(settings)

    def solve(self: Task, plan_id: str) -> None:
        request_id = (self.request.headers or {}).get("monkeytree_request_id", "")
        with bound(request_id=request_id, plan_id=plan_id):
            bench.solve(plan_id)

    def validate(self: Task, validation_id: str) -> None:
        request_id = (self.request.headers or {}).get("monkeytree_request_id", "")
        with bound(request_id=request_id, validation_id=validation_id):
            track.validate(validation_id)

    def execute(self: Task, execution_id: str) -> None:
        request_id = (self.request.headers or {}).get("monkeytree_request_id", "")
        with bound(request_id=request_id, execution_id=execution_id):
            crew.execute(execution_id)

    app.task(solve, bind=True, name=SOLVE_TASK)
    app.task(validate, bind=True, name=VALIDATE_TASK)
    app.task(execute, bind=True, name=EXECUTE_TASK)

    def start_child(**_: Any) -> None:
        if SOLVE in app.amqp.queues.consume_from:
            bench.warm_up()

    def start_beating(sender: Any, **_: Any) -> None:
        _beat_from(sender.timer, settings, set(app.amqp.queues.consume_from))

    def set_up_logs(**_: Any) -> None:
        configure_logs(settings.log_level)
        for chatty in ("celery.worker.strategy", "celery.app.trace"):  # the task itself says more
            logging.getLogger(chatty).setLevel(logging.WARNING)

    signals.worker_process_init.connect(start_child, weak=False)
    signals.worker_ready.connect(start_beating, weak=False)
    signals.setup_logging.connect(set_up_logs, weak=False)
    return app


def _beat_from(timer: Any, settings: Settings, queues: set[str]) -> None:
    """Beat from the parent's event loop: it is alive when its loop is. It also looks for dead children.

    The loop also forks the children, so no connection may stay open between beats.
    """
    me = f"{socket.gethostname()}:{os.getpid()}"
    store = Store(settings.database_url, busy_s=1.0, pooled=False)
    probe = _Probe(settings.validation_python)

    def beat() -> None:
        try:
            for queue in queues:
                store.beat(f"{BEATS_AS[queue]}:{me}", probe.look() if queue == VALIDATE else None)
            expire_dead(store)
        except Exception as error:  # noqa: BLE001 - a missed beat must not end the worker; /readyz tells
            logger(__name__).warning("heartbeat_missed", error=repr(error))

    beat()
    timer.call_repeatedly(settings.heartbeat_s, beat)


class _Probe:
    """What replays lack here, looked for now and then."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._found: str | None = None
        self._next = 0.0

    def look(self) -> str | None:
        """The cure, or None where replays can run."""
        if monotonic() >= self._next:
            self._next = monotonic() + PROBE_EVERY_S
            self._found = why_not(self._python)
        return self._found


def _from_environment() -> Celery:
    try:
        settings = Settings.from_env(os.environ)
        Store(settings.database_url, pooled=False).create()
    except MonkeyTreeError as error:
        raise SystemExit(f"monkeytree worker: {error}") from None
    return make_worker(settings)


def __getattr__(name: str) -> Any:
    """``app``, made when Celery asks for it, so that importing this module needs no environment."""
    if name in ("app", "celery"):
        app = globals()["app"] = globals()["celery"] = _from_environment()
        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
