"""What became of a unit, from what its agents said last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from monkeytree.adapters.executions_calls import MOST_LANDINGS, Scene
from monkeytree.adapters.executions_rows import Step
from monkeytree.wire.agents import MoveStatus, PauseStatus

Statuses: TypeAlias = Mapping[tuple[str, str], MoveStatus | PauseStatus]
Cause: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one job's steps of a wave.

    ``unknown``: its agents could not be asked; the job has decided by itself, one way or the other.
    ``phases`` is by step number.
    """

    state: Literal["done", "failed", "unknown"]
    error: str | None
    phases: Mapping[int, dict[str, Any]]


def judge(scene: Scene, seen: Statuses, cause: Cause | None, started: bool) -> dict[str, Outcome]:
    """The outcome of every job of the unit.

    Args:
        seen: last status by node and id.
        cause: why the unit was given up, code and message.
        started: whether any pause was started: before that no job has noticed anything.
    """
    return {job: _of_job(scene, job, seen, cause, started) for job in scene.unit.jobs}


def _of_job(scene: Scene, job: str, seen: Statuses, cause: Cause | None, started: bool) -> Outcome:
    pauses = [
        status
        for host in scene.hosts(job)
        if isinstance(status := seen.get((host, scene.pause_id(job))), PauseStatus)
    ]
    steps = [step for step in scene.steps.values() if step.job == job]
    phases = {step.number: _phases(scene, step, seen, pauses) for step in steps}
    aborted = next((status for status in pauses if status.state == "ABORTED"), None)
    words = None if cause is None else ": ".join(cause)
    if aborted is not None:
        return Outcome("failed", words or _said(aborted.error), phases)
    if any(status.state == "RELEASED" for status in pauses):
        return Outcome("done", None, phases)
    if started:
        return Outcome("unknown", words or "no agent told how it ended", phases)
    return Outcome("failed", words, phases)


def _said(error: Mapping[str, str] | None) -> str:
    error = error or {}
    return f"{error.get('code', 'aborted')}: {error.get('message', 'no reason told')}"


def _phases(scene: Scene, step: Step, seen: Statuses, pauses: list[PauseStatus]) -> dict[str, Any]:
    """What people ask of a move afterwards: the job's pause, and each side's phases and figures."""
    told = [status.pause_s for status in pauses if status.pause_s is not None]
    found: dict[str, Any] = {"pause_s": max(told) if told else None}
    if step.kind != "move":
        return found
    for role, node in (("source", step.source), ("destination", step.target)):
        ids = [scene.landing_id(step.number, landing) for landing in reversed(range(MOST_LANDINGS))]
        status = next((seen[node or "", its_id] for its_id in ids if (node or "", its_id) in seen), None)
        if isinstance(status, MoveStatus):
            found[role] = {
                "state": status.state,
                "phases": [asdict(phase) for phase in status.phases],
                "bytes_sent": status.bytes_sent,
                "wire_s": status.wire_s,
                "figures": dict(status.figures),
            }
    return found
