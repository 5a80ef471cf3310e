"""The prediction: GPU-seconds saved and lost, and whether the plan is worthwhile (contract, section 2).

Every flow of the fabric is written down and looked at from its own uplinks; the sums of chances are
taken by recurrence from the likeliest term. The planner counts by group and takes logarithms.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import fsum, inf, isclose, prod
from typing import Any

from .fault import Fault
from .outcome import Outcome
from .placement import Group, Key, Placement
from .rings import Orders
from .totals import pause_by_job

ROUNDS = 3
"""How often lateness is taken: who waits sends for a larger part of its iteration (docs/savings.md)."""
TOLERANCE = 1e-6
"""Relative difference up to which two predictions are the same; absolute below one GPU-second."""

Tier = tuple[str, int]
"""(rack id, rail), or (pod id, -1)."""


@dataclass(frozen=True, slots=True)
class _Crowd:
    """The flows that leave a leaf or a pod: how many each group has there, and over how many uplinks."""

    uplinks: int
    flows: Mapping[Key, int]


def prediction_faults(plan: Mapping[str, Any], outcome: Outcome, placement: Placement) -> Iterator[Fault]:
    """A wrong ``predicted`` or ``worthwhile``; a plan without ``predicted`` claims nothing."""
    said = plan.get("predicted")
    if said is None:
        if plan.get("worthwhile") is not None:
            message = f"must be null without `predicted`, not {plan['worthwhile']}"
            yield Fault("wrong_worthwhile", "/worthwhile", message)
        return
    pauses = pause_by_job(outcome, placement, one_wave=False)
    lost = sum(placement.jobs[job].slots * seconds for job, seconds in pauses.items())
    saved = _saved(outcome, placement)
    for member, right in (("saved_gpu_s", saved), ("lost_gpu_s", lost)):
        if not _same(said[member], right):
            message = f"{member} is {right}, not {said[member]}"
            yield Fault("wrong_prediction", f"/predicted/{member}", message)
    if not _same(said["saved_gpu_s"], saved):
        return
    drains = any(placement.nodes[step.group.workers[step.rank]].drain for step in outcome.steps)
    word = True if drains else None if saved is None else said["saved_gpu_s"] > said["lost_gpu_s"]
    if plan.get("worthwhile") is not word:
        yield Fault("wrong_worthwhile", "/worthwhile", f"must be {word}, not {plan.get('worthwhile')}")


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _saved(outcome: Outcome, placement: Placement) -> float | None:
    """Slots x remaining time x slowdown given back, over jobs; None where it cannot be told."""
    then = {key: group.workers for key, group in placement.groups.items()}
    orders = {key: group.order for key, group in placement.groups.items()}
    if not outcome.steps and not outcome.changed:
        return 0.0
    before = _slowdowns(then, orders, placement)
    after = _slowdowns(outcome.workers, outcome.orders, placement)
    if before is None or after is None:
        return None
    saved = 0.0
    for name in before.keys() | after.keys():
        job = placement.jobs[name]
        if job.remaining_s is None:
            return None
        saved += job.slots * job.remaining_s * (before.get(name, 1.0) - after.get(name, 1.0))
    return saved


def _slowdowns(
    workers: Mapping[Key, Sequence[str]], orders: Orders | Mapping[Key, Sequence[int]], placement: Placement
) -> dict[str, float] | None:
    """Slowdown of every job with flows where flows may meet; None where a member is missing."""
    met = []
    for crowd in _crowds(workers, orders, placement):
        ways = min(1, crowd.uplinks) if placement.routing == "ecmp" else crowd.uplinks
        if sum(crowd.flows.values()) <= placement.per_uplink * ways:
            continue
        groups = [placement.groups[key] for key in crowd.flows]
        if not crowd.uplinks or any(None in (g.traffic_gb, g.iteration_s) for g in groups):
            return None
        met.append(crowd)
    late: dict[Key, float] = {}
    for _ in range(ROUNDS):
        late = _late(met, late, placement)
    slowdowns: dict[str, float] = {}
    for key, most in late.items():
        group = placement.groups[key]
        slowdown = 1 + _seconds(group, placement) * most / _period(group)
        slowdowns[group.job] = max(slowdowns.get(group.job, 1.0), slowdown)
    return slowdowns


def _late(crowds: Sequence[_Crowd], known: Mapping[Key, float], placement: Placement) -> dict[Key, float]:
    """The lateness of each group where it is worst, if each sends for longer by the lateness ``known``."""
    worst: dict[Key, float] = defaultdict(float)
    for crowd in crowds:
        everyone = [key for key, times in crowd.flows.items() for _ in range(times)]
        share = {key: _share(placement.groups[key], known.get(key, 0.0), placement) for key in crowd.flows}
        for key, times in crowd.flows.items():
            others = list(everyone)
            others.remove(key)
            chances = [1.0 if other[0] == key[0] else share[other] for other in others]
            busy = sum(chances) / len(chances) if chances else 0.0
            worst[key] = max(worst[key], _lateness(crowd, times, len(everyone), busy, placement))
    return worst


def _share(group: Group, late: float, placement: Placement) -> float:
    """Of its iteration, slowed, the part in which a group sends."""
    waits = _seconds(group, placement) * late
    return min(1.0, (_seconds(group, placement) + waits) / (_period(group) + waits))


def _seconds(group: Group, placement: Placement) -> float:
    return (group.traffic_gb or 0.0) * 8 / placement.nic_gbps


def _period(group: Group) -> float:
    return group.iteration_s or inf  # zero is refused as a snapshot; here it only must not divide


def _crowds(
    workers: Mapping[Key, Sequence[str]], orders: Orders | Mapping[Key, Sequence[int]], placement: Placement
) -> Iterator[_Crowd]:
    leaving: dict[Tier, Counter[Key]] = defaultdict(Counter)
    for key, group in placement.groups.items():
        if not group.sends:
            continue
        homes = [placement.rack_of[workers[key][rank]] for rank in orders[key]]
        for here, there in zip(homes, homes[1:] + homes[:1], strict=True):
            if here == there:
                continue
            for ring in range(group.rings):
                leaving[here, ring % placement.rails][key] += 1
            pod = placement.racks[here].pod
            if pod is not None and pod != placement.racks[there].pod:
                leaving[pod, -1][key] += group.rings
    for (name, rail), flows in leaving.items():
        yield _Crowd(placement.pods[name] if rail < 0 else len(placement.racks[name].spines), flows)


def _lateness(crowd: _Crowd, own: int, flows: int, busy: float, placement: Placement) -> float:
    """Expected lateness of the last of ``own`` flows, in units of the time one takes alone."""
    rates = placement.per_uplink
    if placement.routing == "adaptive":
        return _wait(flows - 1, crowd.uplinks * rates, busy)
    if placement.routing == "ecmp":
        expected, reached, below = 0.0, 0.0, 0.0
        for near, chance in enumerate(_binomial(flows - 1, 1 / crowd.uplinks)):
            reached = min(1.0, reached + chance)
            if reached**own > below:
                expected += (reached**own - below) * _wait(near, rates, busy)
            below = reached**own
        return expected
    loads = [len(range(uplink, flows, crowd.uplinks)) for uplink in range(crowd.uplinks)]
    most, least = max(loads), min(load for load in loads if load)
    easy = sum(load for load in loads if load < most)
    luck = prod(max(0, easy - drawn) / (flows - drawn) for drawn in range(own))
    return luck * _wait(least - 1, rates, busy) + (1 - luck) * _wait(most - 1, rates, busy)


def _wait(near: int, rates: int, busy: float) -> float:
    """E[max(0, (1 + senders) / rates - 1)] over the senders among ``near`` flows."""
    if rates == 1:
        return near * busy
    return sum(
        chance * max(0.0, (1 + senders) / rates - 1) for senders, chance in enumerate(_binomial(near, busy))
    )


@lru_cache(maxsize=4096)
def _binomial(trials: int, chance: float) -> tuple[float, ...]:
    """Chances of 0 to ``trials`` successes: from the likeliest number outwards, then to the sum one."""
    if chance in (0.0, 1.0):
        certain = round(trials * chance)
        return tuple(float(successes == certain) for successes in range(trials + 1))
    top = min(trials, int((trials + 1) * chance))
    odds = chance / (1 - chance)
    weights = [0.0] * (trials + 1)
    weights[top] = 1.0
    for successes in range(top, trials):
        weights[successes + 1] = weights[successes] * odds * (trials - successes) / (successes + 1)
    for successes in range(top, 0, -1):
        weights[successes - 1] = weights[successes] / odds * successes / (trials - successes + 1)
    total = fsum(weights)
    return tuple(weight / total for weight in weights)
