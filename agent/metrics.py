"""Prometheus figures of an agent."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class Metrics:
    """One registry per agent, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.moves = Counter(
            "monkeytree_agent_moves", "Moves at their end", ["role", "state", "code"], registry=self.registry
        )
        self.pauses = Counter(
            "monkeytree_agent_pauses", "Pauses at their end", ["state", "code"], registry=self.registry
        )
        self.pause_seconds = Histogram(
            "monkeytree_agent_pause_seconds",
            "Longest pause of a rank here",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.wire_seconds = Histogram(
            "monkeytree_agent_wire_seconds",
            "Time a state was on the wire",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.bytes = Counter("monkeytree_agent_state_bytes", "State moved", ["role"], registry=self.registry)
        self.refusals = Counter(
            "monkeytree_agent_refusals", "Calls refused", ["code"], registry=self.registry
        )
        self.workers = Gauge("monkeytree_agent_workers", "Workers registered", registry=self.registry)
        self.starts = Gauge("monkeytree_agent_epoch", "Starts of this agent", registry=self.registry)

    def page(self) -> bytes:
        """The text of ``GET /metrics``."""
        return generate_latest(self.registry)
