"""POST to ready on a running ``monkeytree serve``, beside an empty Celery round trip on its broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import psutil

import monkeytree
from monkeytree.planner import decide
from monkeytree.solvers.choose import Bench

from .churn import Shape, states
from .measure import quantile
from .table import heading, number, show

ROOT = Path(__file__).parent.parent
AIM = 3.0
WARM_UP = 10
PROCESSES = ("valkey", "gunicorn", "reaper", "celery", "warden")
SERVERS_OF_OTHERS = ("REDIS_URL", "DATABASE_URL")


@dataclass(frozen=True, slots=True)
class Served:
    """A running ``serve``: where it listens, a token for all roles, and its process."""

    url: str
    token: str
    process: psutil.Process

    def family(self) -> list[psutil.Process]:
        """It and all its descendants."""
        return [self.process, *self.process.children(recursive=True)]

    def broker(self) -> str:
        """Its embedded broker, as its worker was told."""
        for one in self.family():
            url = one.environ().get("REDIS_URL")
            if url:
                return url
        raise RuntimeError("no process of `serve` was told of a broker")


@contextmanager
def serving() -> Iterator[Served]:
    """``monkeytree serve`` on a free port, its data in a folder that is removed at the end."""
    environment = {key: value for key, value in os.environ.items() if key not in SERVERS_OF_OTHERS}
    with tempfile.TemporaryDirectory(prefix="monkeytree-bench-") as data:
        command = [sys.executable, "-m", "monkeytree.cli", "serve", "--port", "0", "--data", data]
        log = Path(data, "serve.log")
        with log.open("w") as errors:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert process.stdout is not None
        try:
            said = "".join(iter(process.stdout.readline, "Ctrl-C stops it\n"))
            url, token = re.search(r"http://\S+", said), re.search(r"mt_\S+", said)
            if url is None or token is None:
                raise RuntimeError(f"serve did not start: {said}{log.read_text()}")
            yield Served(url[0], token[0], psutil.Process(process.pid))
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


@contextmanager
def idle_worker(broker: str) -> Iterator[Any]:
    """A prefork worker of our own with nothing to do; gives the application to publish with."""
    environment = {**os.environ, "BENCH_REDIS_URL": broker}
    words = "celery --quiet --app bench.roundtrip worker --queues bench --pool prefork --concurrency 1"
    quiet = "--loglevel error --without-gossip --without-mingle"
    command = [sys.executable, "-W", "ignore", "-m", *words.split(), *quiet.split()]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    os.environ["BENCH_REDIS_URL"] = broker
    from . import roundtrip

    try:
        yield roundtrip.nothing
    finally:
        process.terminate()
        process.wait(30)
        roundtrip.app.close()


def documents(count: int, seed: int) -> list[bytes]:
    """Snapshots of a churned 1,024-GPU cluster as JSON, each with racks over their bound."""
    bodies = []
    for cluster, snapshot in states(Shape(16, 8), "seq", seed):
        bodies.append(orjson.dumps(monkeytree.dump_snapshot(snapshot)))
        cluster.apply(decide(snapshot, Bench("auto"), time.monotonic() + 10).moves)
        if len(bodies) == count:
            break
    return bodies


def posted(served: Served, bodies: Sequence[bytes]) -> tuple[list[float], list[float]]:
    """Milliseconds from POST to the plan in hand, and those the solver reports of each."""
    waits, solves = [], []
    head = {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json"}
    with httpx.Client(base_url=served.url, headers=head, timeout=60) as client:
        for body in bodies:
            start = time.perf_counter()
            answer = client.post("/v1/snapshots", params={"wait": 30}, content=body)
            waits.append(1e3 * (time.perf_counter() - start))
            if answer.status_code != 201:
                raise RuntimeError(f"POST was answered {answer.status_code}: {answer.text[:300]}")
            solves.append(1e3 * float(answer.json()["solver"]["seconds"]))
    return waits[WARM_UP:], solves[WARM_UP:]


def round_trips(task: Any, count: int) -> list[float]:
    """Milliseconds from publishing an empty task to its result in hand."""
    waits = []
    for _ in range(count + WARM_UP):
        start = time.perf_counter()
        task.apply_async(queue="bench").get(timeout=60, interval=0.001)
        waits.append(1e3 * (time.perf_counter() - start))
    return waits[WARM_UP:]


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    """CPU seconds of all of them so far."""
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def resident_mb(processes: Sequence[psutil.Process]) -> list[tuple[str, float, float]]:
    """Resident and proportional (shared pages divided) memory of each, in MB, under a short name."""
    found = []
    for one in processes:
        words = " ".join(one.cmdline())
        name = next((name for name in PROCESSES if name in words), "serve")
        full = one.memory_full_info()
        found.append((name, full.rss / 1e6, full.pss / 1e6))
    return found


def report(seed: int, count: int) -> None:
    """Print latency and memory of the service."""
    heading("The service: POST to ready at 1,024 GPUs")
    bodies = documents(count + WARM_UP, seed)
    with serving() as served:
        with idle_worker(served.broker()) as task:
            empty = round_trips(task, count // 2)
            before = cpu_s(served.family())
            waits, solves = posted(served, bodies)
            cost = 1e3 * (cpu_s(served.family()) - before) / len(bodies)
            empty += round_trips(task, count // 2)
        memory = resident_mb(served.family())
    rows = [
        [name, str(len(values)), *(number(quantile(values, part)) for part in (0.5, 0.9, 0.99))]
        for name, values in (
            ("POST /v1/snapshots?wait= until the plan is in hand", waits),
            ("of which the solve, as the plan reports it", solves),
            ("an empty Celery task until its result is in hand", empty),
        )
    ]
    show(["wall ms, one at a time", "times", "p50", "p90", "p99"], rows)
    ratio = quantile(waits, 0.5) / quantile(empty, 0.5)
    tail = quantile(waits, 0.99) / quantile(empty, 0.99)
    print(f"POST to ready is {ratio:.1f} times an empty round trip at p50, {tail:.1f} at p99", end=" ")
    print(f"(aim: at most {AIM:.0f})")
    print(f"CPU of all processes of `serve` for each POST, the idle ones included: {cost:.1f} ms")
    heading("Resident memory of `serve` after that")
    memory.append(("all together", sum(rss for _, rss, _ in memory), sum(pss for _, _, pss in memory)))
    lines = [[name, number(rss), number(pss)] for name, rss, pss in memory]
    show(["process", "MB", "MB, shared pages divided"], lines)
