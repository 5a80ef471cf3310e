"""Prometheus figures. Solves end in other processes, so what is told of plans is read from the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from time import perf_counter

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from monkeytree.adapters.solving import SOLVE_BUCKETS_S

from .desk import Desk
from .execution_schemas import EXECUTION_STATES
from .schemas import STATES
from .validation_schemas import VALIDATION_STATES

#: Callers make methods up; each label costs memory for ever.
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


class StoreCollector(Collector):
    """Reads the store and the queue at each scrape."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def describe(self) -> list[Metric]:
        """Nothing: asking would read the store before it is there."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Figures of the queue, the plans and the solves."""
        figures = self._desk.store.queue_figures()
        depth = self._desk.queue.depth()
        yield _gauge("queue_depth", "Plans that wait for a worker.", figures.by_state.get("queued", 0))
        yield _gauge("queue_oldest_seconds", "Age of the oldest queued plan.", figures.oldest_queued_s)
        yield _gauge("broker_up", "Whether Valkey or Redis answers.", float(depth is not None))
        yield _gauge("broker_messages", "Messages that wait in the broker.", float(depth or 0))
        age = self._desk.store.beat_age_s("worker")
        if age is not None:
            yield _gauge("worker_beat_age_seconds", "Age of the newest worker heartbeat.", age)
        yield _by_state("plans", "Plans by state.", STATES, figures.by_state)
        yield self._solves()
        yield from self._validations()
        yield from self._executions()

    def _validations(self) -> Iterator[Metric]:
        figures = self._desk.store.validations.queue_figures()
        waiting = figures.by_state.get("queued", 0)
        yield _gauge("validation_queue_depth", "Validations that wait for a validator.", waiting)
        yield _gauge(
            "validation_queue_oldest_seconds", "Age of the oldest queued validation.", figures.oldest_queued_s
        )
        depth = self._desk.validate_queue.depth()
        yield _gauge(
            "validation_broker_messages", "Messages of validations in the broker.", float(depth or 0)
        )
        age = self._desk.store.beat_age_s("validator")
        if age is not None:
            yield _gauge("validator_beat_age_seconds", "Age of the newest validator heartbeat.", age)
        yield _by_state("validations", "Validations by state.", VALIDATION_STATES, figures.by_state)

    def _executions(self) -> Iterator[Metric]:
        figures = self._desk.store.executions.queue_figures()
        waiting = figures.by_state.get("queued", 0)
        yield _gauge("execution_queue_depth", "Executions that wait for an executor.", waiting)
        yield _gauge(
            "execution_queue_oldest_seconds", "Age of the oldest queued execution.", figures.oldest_queued_s
        )
        age = self._desk.store.beat_age_s("executor")
        if age is not None:
            yield _gauge("executor_beat_age_seconds", "Age of the newest executor heartbeat.", age)
        yield _by_state("executions", "Executions by state.", EXECUTION_STATES, figures.by_state)
        gone = self._desk.store.now() - self._desk.settings.agent_gone_s
        beating = sum(agent.beat_at > gone for agent in self._desk.store.agents.list_agents())
        yield _gauge("agents_beating", "Agents that beat of late.", beating)
        reserved = sum(one.slots for one in self._desk.store.reservations())
        yield _gauge("reserved_slots", "Slots promised to executions.", reserved)

    def _solves(self) -> Metric:
        family = HistogramMetricFamily(
            "monkeytree_solve_seconds", "Solve seconds by solver and status.", labels=["solver", "status"]
        )
        rows = self._desk.store.solve_counts()
        bounds = [*map(str, SOLVE_BUCKETS_S), "+Inf"]
        for key, found in groupby(rows, key=lambda row: row[:2]):
            counts, seconds = [0] * len(bounds), 0.0
            for _, _, bucket, count, summed in found:
                counts[bucket] += count
                seconds += summed
            running = [sum(counts[: index + 1]) for index in range(len(bounds))]
            family.add_metric(list(key), list(zip(bounds, map(float, running), strict=True)), seconds)
        return family


def measure_requests(app: Flask, registry: CollectorRegistry) -> None:
    """Count the requests of ``app`` and time them, waiting included."""
    requests = Counter(
        "monkeytree_http_requests", "Requests.", ["call", "method", "status"], registry=registry
    )
    seconds = Histogram(
        "monkeytree_http_request_seconds", "Seconds until the answer, waiting included.", ["call"],
        registry=registry,
    )  # fmt: skip

    def count(response: Response) -> Response:
        call = (request.endpoint or "none").rpartition(".")[2]
        method = request.method if request.method in _METHODS else "other"
        requests.labels(call, method, str(response.status_code)).inc()
        seconds.labels(call).observe(perf_counter() - g.started)
        return response

    app.after_request(count)


def _by_state(name: str, text: str, states: Iterable[str], counted: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"monkeytree_{name}", text, labels=["state"])
    for state in states:
        family.add_metric([state], counted.get(state, 0))
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"monkeytree_{name}", text, value=value)
