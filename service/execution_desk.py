"""Executions behind the handlers: judge, file, rehearse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import time
from typing import Any

import orjson

from monkeytree.adapters.executions import Order, Standing
from monkeytree.adapters.executions_documents import dry_run_calls
from monkeytree.adapters.executions_limits import Case, check_ready, refusals, standing_refusals
from monkeytree.adapters.executions_order import make_steps, ring_orders, time_limit_s
from monkeytree.adapters.executions_routes import flow_routes, route_asks, transfer_ports
from monkeytree.adapters.executions_rows import ExecutionRow, OnFailure
from monkeytree.adapters.executions_waves import Script, rehearse
from monkeytree.wire.snapshot import parse_snapshot

from .desk import Allow, Desk

#: Under this id a dry run shows its calls.
NOBODY = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller asks for."""

    plan_id: str
    expected_sequence: int | None
    on_failure: OnFailure


def order(desk: Desk, request: Request, allow: Allow, request_id: str) -> ExecutionRow:
    """Queue an execution.

    Raises:
        UnknownPlan: no such plan.
        PlanNotReady: it has no moves yet, or never will.
        ExecutionRefused: the first reason against it, by name.
    """
    case, now = _case(desk, request, allow), time()
    for refusal in refusals(case, desk.settings, now):
        raise refusal

    def judge(standing: Standing) -> None:
        for refusal in standing_refusals(case, standing, desk.settings, now):
            raise refusal

    limit_s = time_limit_s(case.steps, desk.settings.move_pause_s)
    wanted = Order(case.plan, request.expected_sequence, request.on_failure, limit_s, request_id)
    row = desk.store.executions.file(wanted, case.steps, judge)
    desk.execute_queue.publish(row)
    return row


def dry_run(desk: Desk, request: Request, allow: Allow) -> dict[str, Any]:
    """What would be called, and every reason against it; nothing is stored or called.

    Raises:
        UnknownPlan, PlanNotReady: as :func:`order`.
    """
    case, now, settings = _case(desk, request, allow), time(), desk.settings
    standing = desk.store.executions.standing(case.plan.cluster, case.jobs)
    found = [
        *refusals(case, settings, now),
        *standing_refusals(case, standing, settings, now),
    ]
    steers = settings.agent_transport == "verbs"
    script = Script(
        NOBODY, case.plan.id, case.snapshot, ring_orders(case.document), settings.move_pause_s,
        settings.agent_transport, transfer_ports(case.document, case.snapshot, case.steps) if steers else {},
    )  # fmt: skip
    tables = [step for step in case.steps if step.kind == "routes"]
    asks = route_asks(flow_routes(case.document, case.snapshot), tables, 1) if tables else []
    urls = {node: agent.url for node, agent in case.agents.items()}
    return {
        "dry_run": True,
        "plan_id": case.plan.id,
        "snapshot_id": case.plan.snapshot_id,
        "cluster": case.plan.cluster,
        "refusals": [{"code": refusal.code, "detail": str(refusal)} for refusal in found],
        "calls": dry_run_calls(asks, rehearse(script, case.steps), urls),
    }


def _case(desk: Desk, request: Request, allow: Allow) -> Case:
    plan = desk.store.plan(request.plan_id)
    allow(plan.cluster)
    check_ready(plan)
    document: Mapping[str, Any] = orjson.loads(desk.store.plan_body(plan.id) or b"{}")
    snapshot = parse_snapshot(desk.store.snapshot_body(plan.snapshot_id))
    newest = desk.store.newest_snapshot(plan.cluster)
    assert newest is not None  # the plan's own is there
    same = newest.id == plan.snapshot_id
    gone = time() - desk.settings.agent_gone_s
    return Case(
        plan=plan,
        document=document,
        snapshot=snapshot,
        newest_row=newest,
        newest=snapshot if same else parse_snapshot(desk.store.snapshot_body(newest.id)),
        steps=make_steps(document, snapshot),
        agents={
            agent.node: agent
            for agent in desk.store.agents.list_agents({plan.cluster})
            if agent.beat_at > gone
        },
        expected_sequence=request.expected_sequence,
    )
