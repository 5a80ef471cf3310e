"""Is every flow isolated? Each is compared with its job alone in the same fabric.

Not with bytes / rate: the ACKs of a ring share the NICs with its data, so even a job alone does not reach
the line rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from monkeytree.flowmodel import Transfer, completion_times

from .network import undirected
from .simulate import FlowResult, Outcome
from .traffic import RingFlow, Traffic

SLOWDOWN_LIMIT: Final = 1.05
"""A flow within this factor of its job alone counts as isolated."""


@dataclass(frozen=True, slots=True)
class FlowVerdict:
    """One flow, measured and judged.

    Attributes:
        alone_ns: its completion time with its job alone.
        slowdown: measured, ``fct_ns / alone_ns``; None where it did not end or has no way.
        predicted: the slowdown that max-min fair sharing predicts.
        paused: PFC paused a port on its way, for whatever reason.
    """

    flow: RingFlow
    fct_ns: float | None
    alone_ns: float | None
    slowdown: float | None
    predicted: float | None
    paused: bool
    retransmits: int
    cnps: int

    @property
    def isolated(self) -> bool:
        """Not slowed, not paused, nothing of it lost."""
        slowed = self.slowdown is None or self.slowdown > SLOWDOWN_LIMIT
        return not slowed and not self.paused and not self.retransmits

    @property
    def error(self) -> float | None:
        """How far the predicted slowdown is off the measured one, relative: -0.1 is 10 % too low."""
        if self.slowdown is None or self.predicted is None:
            return None
        return self.predicted / self.slowdown - 1


@dataclass(frozen=True)
class Run:
    """One traffic, measured and judged."""

    name: str
    traffic: Traffic
    outcome: Outcome
    flows: tuple[FlowVerdict, ...]

    @property
    def crossing(self) -> tuple[FlowVerdict, ...]:
        """The flows that are judged: those of jobs that leave their rack."""
        return tuple(verdict for verdict in self.flows if verdict.flow.crosses_racks)

    @property
    def isolated(self) -> bool:
        """Every cross-rack flow is, and nothing was lost anywhere."""
        return self.outcome.finished and not self.outcome.drops and all(v.isolated for v in self.crossing)

    @property
    def claims_hold(self) -> bool:
        """The same of the flows that the plan claims: those it lists as sharing may be slow."""
        return not self.outcome.drops and all(v.isolated for v in self.crossing if v.flow.claimed)

    @property
    def reasons(self) -> list[str]:
        """Why it is not isolated, in words; empty where it is."""
        said = [] if self.outcome.finished else ["the simulation did not run to its end"]
        if self.outcome.drops:
            said.append(f"{self.outcome.drops} packets were dropped")
        unknown = [v for v in self.crossing if v.flow.unknown]
        lost = [v for v in self.crossing if not v.flow.path and not v.flow.unknown]
        slow = [v for v in self.crossing if v.slowdown is not None and v.slowdown > SLOWDOWN_LIMIT]
        paused = [v for v in self.crossing if v.paused]
        if lost:
            said.append(f"{len(lost)} cross-rack flows have no live way")
        if unknown:
            first = unknown[0].flow
            said.append(
                f"the learned table does not know the way of {len(unknown)} cross-rack flows, which were "
                f"left out ({first.name}: {first.unknown})"
            )
        if slow:
            worst = max(slow, key=lambda v: v.slowdown or 0.0)
            said.append(f"{len(slow)} cross-rack flows are slowed, {worst.flow.name} by {worst.slowdown:.2f}")
        if paused:
            said.append(f"PFC paused ports on the way of {len(paused)} cross-rack flows")
        return said


def judge(
    name: str,
    traffic: Traffic,
    outcome: Outcome,
    alone: Mapping[str, tuple[Traffic, Outcome]],
) -> Run:
    """Judge each flow of ``traffic`` against its job alone.

    Args:
        alone: traffic and outcome of each job by itself, whose flows are those of ``traffic``.
    """
    alone_ns, alone_predicted = _by_name(alone)
    predicted = predict(traffic)
    verdicts = []
    for flow, result, foreseen in zip(traffic.flows, outcome.flows, predicted, strict=True):
        best = alone_ns.get(flow.name)
        fct_ns = None if result is None else result.fct_ns
        verdicts.append(
            FlowVerdict(
                flow=flow,
                fct_ns=fct_ns,
                alone_ns=best,
                slowdown=None if fct_ns is None or not best else fct_ns / best,
                predicted=_ratio(foreseen, alone_predicted.get(flow.name)),
                paused=any(_pauses(outcome, hop) for hop in flow.hops),
                retransmits=0 if result is None else result.retransmits,
                cnps=0 if result is None else result.cnps,
            )
        )
    return Run(name, traffic, outcome, tuple(verdicts))


def predict(traffic: Traffic) -> list[float | None]:
    """Completion times of the flows, ns, if rates are max-min fair and nothing but data is sent."""
    routed = [flow for flow in traffic.flows if flow.path]
    rates = traffic.network.by_ends
    capacity = {hop: rates[undirected(hop)].gbps for flow in routed for hop in flow.hops}  # Gb/s = bits/ns
    members = [index for index, flow in enumerate(traffic.flows) if flow.path]
    feeders = traffic.feeders(members)
    transfers = []
    for step in range(traffic.steps):
        before = (step - 1) * len(routed)
        for at, flow in enumerate(routed):
            earlier = {before + other for other in (at, feeders[at]) if step and other is not None}
            transfers.append(Transfer(flow.hops, flow.size * 8 / traffic.steps, 0.0, sorted(earlier)))
    ends = iter(completion_times(transfers, capacity)[len(transfers) - len(routed) :])
    return [float(next(ends)) if flow.path else None for flow in traffic.flows]


def _by_name(
    alone: Mapping[str, tuple[Traffic, Outcome]],
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    measured: dict[str, float | None] = {}
    predicted: dict[str, float | None] = {}
    for traffic, outcome in alone.values():
        for flow, result, foreseen in zip(traffic.flows, outcome.flows, predict(traffic), strict=True):
            measured[flow.name] = _fct(result)
            predicted[flow.name] = foreseen
    return measured, predicted


def _fct(result: FlowResult | None) -> float | None:
    return None if result is None else result.fct_ns


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def _pauses(outcome: Outcome, hop: tuple[int, int]) -> int:
    port = outcome.ports.get(hop)
    return 0 if port is None else port.pauses_received


def slowed_racks(verdicts: Iterable[FlowVerdict]) -> set[tuple[str, int]]:
    """Leaves (rack id, rail) that a flow which is not isolated leaves or enters by an uplink."""
    bad = [v.flow for v in verdicts if v.flow.crosses_racks and not v.isolated]
    return {leaf for flow in bad for leaf in (flow.source, flow.target)}


def quantile(values: Sequence[float], part: float) -> float | None:
    """The smallest of ``values`` that at least ``part`` of them do not exceed; None of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None
