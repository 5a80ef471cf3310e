"""An empty Celery round trip: what a task costs that does nothing, on the broker named by BENCH_REDIS_URL.

celery --app bench.roundtrip worker --queues bench --pool prefork --concurrency 1
"""

from __future__ import annotations

import os

from celery import Celery

URL = os.environ.get("BENCH_REDIS_URL", "redis://127.0.0.1:6379/0")
QUEUE = "bench"

app = Celery("bench", broker=URL, backend=URL, set_as_current=False)
app.conf.update(task_default_queue=QUEUE, worker_prefetch_multiplier=1, result_expires=60)


@app.task(name="bench.nothing")  # type: ignore[untyped-decorator]  # Celery has no types
def nothing() -> None:
    """Do nothing."""
