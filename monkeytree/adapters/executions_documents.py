"""Executions, their dry runs, agents and reservations as the service tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from monkeytree.wire.agents import dump

from .agents_store import AgentRow
from .documents import failure_of, life_of, time_text, utc_text
from .executions_calls import Ask, Scene, acknowledgements, unit_script
from .executions_rows import ExecutionRow, Step
from .reservations import Reservation

#: What stands in a dry run's bodies for what only the agents can tell.
TOLD_BY_DESTINATION = "as the destination's agent answers"
UNSEEN = "its worker ended before it; the agents of its nodes know how it ended"
TOLD_BY_SOURCE = "as GET /v1/workers of the source's agent answers"


def execution_summary(row: ExecutionRow) -> dict[str, Any]:
    """An execution as lists show it: without its steps."""
    return {
        "id": row.id,
        "plan_id": row.plan_id,
        "snapshot_id": row.snapshot_id,
        "cluster": row.cluster,
        "expected_sequence": row.expected_sequence,
        "on_failure": row.on_failure,
        "created_at": utc_text(row.created_at),
        "state": row.state,
        "stage": row.stage,
        "cancel_requested": row.cancel_requested,
        "waves": row.waves,
        "failure": failure_of(row),
        **life_of(row),
    }


def execution_document(row: ExecutionRow, steps: Sequence[Step]) -> dict[str, Any]:
    """An execution with its steps and, where the cluster had changed, how."""
    told = [step_document(step, live=row.live) for step in steps]
    return {
        **execution_summary(row),
        "waves_done": _waves_done(steps),
        "steps_done": sum(step.state == "done" for step in steps),
        "steps": told,
        "difference": list(row.difference),
        "oversubscribed": oversubscribed_nodes(row),
    }


def oversubscribed_nodes(row: ExecutionRow) -> list[str]:
    """Nodes that hold more than their slots at its end, until somebody moves a worker."""
    if row.failure_code != "oversubscribed":
        return []
    return [one["subject"].removeprefix("node ") for one in row.difference]


def step_document(step: Step, *, live: bool) -> dict[str, Any]:
    """A step; what still waits at the end of its execution was skipped, what ran nobody saw end."""
    state, error = step.state, step.error
    if not live and state in ("waiting", "running"):
        state, error = ("skipped", error) if state == "waiting" else ("failed", UNSEEN)
    return {
        "number": step.number,
        "kind": step.kind,
        "job": step.job,
        "group": step.group,
        "rank": step.rank,
        "from": step.source,
        "to": step.target,
        "wave": step.wave,
        "staged": step.staged,
        "state": state,
        "error": error,
        "phases": step.phases,
        "started_at": time_text(step.started_at),
        "finished_at": time_text(step.finished_at),
    }


def dry_run_calls(
    routes: Iterable[Ask], scenes: Iterable[tuple[int, int, Scene]], urls: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Every call in order; ``urls`` by node, null where no agent of the node is known."""
    calls = [_call(0, 0, "routes", ask, urls) for ask in routes]
    for wave, number, scene in scenes:
        for batch in (*unit_script(scene), acknowledgements(scene)):
            calls += [_call(wave, number, batch.stage, ask, urls) for ask in batch.asks]
    return calls


def agent_document(row: AgentRow, *, gone: bool) -> dict[str, Any]:
    """An agent, and whether it still beats."""
    return {
        "cluster": row.cluster,
        "node": row.node,
        "url": row.url,
        "epoch": row.epoch,
        "capabilities": dict(row.capabilities),
        "announced_at": utc_text(row.announced_at),
        "beat_at": utc_text(row.beat_at),
        "alive": not gone,
    }


def reservation_document(one: Reservation) -> dict[str, Any]:
    """A reservation; ``filled`` where the worker has arrived."""
    return {
        "execution_id": one.execution_id,
        "cluster": one.cluster,
        "node": one.node,
        "slots": one.slots,
        "job": one.job,
        "group": one.group,
        "rank": one.rank,
        "filled": one.state == "done",
    }


def _call(wave: int, number: int, stage: str, ask: Ask, urls: Mapping[str, str]) -> dict[str, Any]:
    body = None if ask.body is None else dump(ask.body)
    if body is not None and ask.fills == "descriptor":
        body["descriptor"] = TOLD_BY_DESTINATION
    if body is not None and ask.fills == "standby":
        body |= dict.fromkeys(("state_bytes", "standby_command", "standby_env"), TOLD_BY_SOURCE)
    url = urls.get(ask.node)
    return {
        "wave": wave,
        "round": number,
        "stage": stage,
        "step": ask.step,
        "node": ask.node,
        "method": ask.method,
        "url": None if url is None else url + ask.path,
        "body": body,
        "until": ask.until,
    }


def _waves_done(steps: Sequence[Step]) -> int:
    """Waves none of whose steps is to be done any more, from the first on."""
    open_waves = [step.wave for step in steps if not step.over]
    return min(open_waves) if open_waves else max((step.wave for step in steps), default=-1) + 1
