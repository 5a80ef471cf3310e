"""The whole story: from a snapshot and a plan to a verdict with its controls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from monkeytree.plan import Plan
from monkeytree.snapshot import Snapshot

from .scenario import traffic_after, traffic_before
from .simulate import Meter, Simulator
from .traffic import Knobs, Traffic, hashed, jobs_alone
from .verdict import Run, judge

SUBJECT_PLAN = "plan"
SUBJECT_PLACEMENT = "placement"
CONTROL_ECMP = "ecmp"
CONTROL_BEFORE = "before"


@dataclass(frozen=True)
class Replay:
    """What a replay found.

    Attributes:
        subject: the plan's flows, or the placement as it stands: what the verdict is about.
        controls: the same flows on hashed ECMP and, for a plan, the placement before its moves. That
            these are slowed shows that the subject's being clean means something.
        meter: what it cost.
    """

    snapshot: Snapshot
    plan: Plan | None
    knobs: Knobs
    subject: Run
    controls: tuple[Run, ...]
    meter: Meter


def replay(
    snapshot: Snapshot,
    plan: Plan | None,
    knobs: Knobs,
    simulator: Simulator,
    say: Callable[[str], None] = lambda text: None,
) -> Replay:
    """Replay the flows of ``plan``, or of the placement as it stands, packet by packet.

    Args:
        say: called with what is being done, in words.

    Raises:
        InvalidPlan: not a plan of this snapshot.
        SimulationFailed, SimulatorUnavailable: what the simulator raises.
    """
    k = snapshot.fabric.flows_per_uplink
    subject = traffic_before(snapshot, knobs) if plan is None else traffic_after(snapshot, plan, knobs)
    ours = jobs_alone(subject, k)
    asked = [
        _Asked(SUBJECT_PLACEMENT if plan is None else SUBJECT_PLAN, subject, ours),
        _Asked(CONTROL_ECMP, hashed(subject, knobs.seed), ours),
    ]
    if plan is not None:
        plain = replace(knobs, ecmp_share=0.0, background=0.0, dead=(), ports="plan")
        before = traffic_before(snapshot, plain)
        asked.append(_Asked(CONTROL_BEFORE, before, jobs_alone(before, k)))
    say(f"simulating {len(subject.flows)} flows, with their controls and each job alone")
    runs = _runs(simulator, asked)
    return Replay(snapshot, plan, knobs, runs[0], tuple(runs[1:]), simulator.meter)


def sample_interval_us(snapshot: Snapshot, knobs: Knobs) -> float:
    """An interval that gives about a hundred samples of the longest flow at line rate."""
    given = [group.traffic_gb * 1e9 for _, group in snapshot.groups if group.traffic_gb is not None]
    longest = max([*given, float(knobs.flow_bytes)]) * knobs.scale
    return max(1.0, round(longest * 8 / snapshot.fabric.nic_gbps / 1000 / 100, 1))


@dataclass(frozen=True)
class _Asked:
    name: str
    traffic: Traffic
    alone: dict[str, Traffic]


def _runs(simulator: Simulator, asked: list[_Asked]) -> list[Run]:
    """All traffics go to the simulator at once: it finds what is the same in them."""
    wanted = {id(traffic): traffic for each in asked for traffic in (each.traffic, *each.alone.values())}
    found = dict(zip(wanted, simulator.outcomes(list(wanted.values())), strict=True))
    return [
        judge(
            each.name,
            each.traffic,
            found[id(each.traffic)],
            {job: (traffic, found[id(traffic)]) for job, traffic in each.alone.items()},
        )
        for each in asked
    ]
