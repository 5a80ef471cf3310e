"""A plan as its document: plain dicts, built in one pass."""

from __future__ import annotations

from typing import Any

from monkeytree.plan import (
    Conflict,
    Flow,
    Load,
    Move,
    Objective,
    PendingPlacement,
    Plan,
    Predicted,
    SharedUplink,
    SolverReport,
)


def dump_plan(plan: Plan) -> dict[str, Any]:
    """The document of ``plan``, format 1 (docs/contract.md, section 2)."""
    return {
        "format": 1,
        "id": plan.id,
        "snapshot_id": plan.snapshot_id,
        "cluster": plan.cluster,
        "created_at": plan.created_at,
        "state": plan.state,
        "status": plan.status,
        "failure": None if plan.failure is None else dict(plan.failure),
        "solver": _solver(plan.solver),
        "moves_needed": plan.moves_needed,
        "lower_bound": plan.lower_bound,
        "undrained": [
            {"job": left.job, "group": left.group, "rank": left.rank, "node": left.node}
            for left in plan.undrained
        ],
        "excess": plan.excess,
        "excess_proved": plan.excess_proved,
        "limited_by": plan.limited_by,
        "jobs_paused": plan.jobs_paused,
        "pause_s": plan.pause_s,
        "objective": _objective(plan.objective),
        "racks": {name: _load(load) for name, load in plan.racks.items()},
        "pods": {name: _load(load) for name, load in plan.pods.items()},
        "moves": [_move(move) for move in plan.moves],
        "rings": [
            {"job": ring.job, "group": ring.group, "order": list(ring.order), "changed": ring.changed}
            for ring in plan.rings
        ],
        "flows": [_flow(flow) for flow in plan.flows],
        "transients": [
            {"rack": spike.rack, "rail": spike.rail, "wave": spike.wave, "f": spike.f}
            for spike in plan.transients
        ],
        "shared_uplinks": [_shared(shared) for shared in plan.shared_uplinks],
        "unguaranteed": [
            {"job": group.job, "group": group.group, "kind": group.kind} for group in plan.unguaranteed
        ],
        "certificate": None if plan.certificate is None else dict(plan.certificate),
        "conflict": None if plan.conflict is None else _conflict(plan.conflict),
        "predicted": None if plan.predicted is None else _predicted(plan.predicted),
        "worthwhile": plan.worthwhile,
        "unsteered": [{"reason": row.reason, "flows": list(row.flows)} for row in plan.unsteered],
        "placements": [_placement(placement) for placement in plan.placements],
    }


def _predicted(predicted: Predicted) -> dict[str, float | None]:
    return {"saved_gpu_s": predicted.saved_gpu_s, "lost_gpu_s": predicted.lost_gpu_s}


def _placement(placement: PendingPlacement) -> dict[str, Any]:
    return {
        "job": placement.job,
        "nodes": list(placement.nodes),
        "after": {rack: f[0] if len(f) == 1 else list(f) for rack, f in placement.after.items()},
        "within_bound": placement.within_bound,
        "proved": placement.proved,
        "because": list(placement.because),
    }


def _conflict(conflict: Conflict) -> dict[str, Any]:
    return {name: list(getattr(conflict, name)) for name in ("jobs", "racks", "pods", "drains")}


def _solver(report: SolverReport) -> dict[str, Any]:
    tried = [{"name": t.name, "seconds": t.seconds, "outcome": t.outcome} for t in report.tried]
    return {"name": report.name, "version": report.version, "seconds": report.seconds, "tried": tried}


def _objective(objective: Objective) -> dict[str, Any]:
    value = objective.value
    row: dict[str, Any] = {
        "name": objective.name,
        "value": int(value) if float(value).is_integer() else value,
        "ties_proved": objective.ties_proved,
    }
    if objective.name != "moves" or objective.lower_bound is not None:
        row["lower_bound"] = objective.lower_bound
    return row


def _load(load: Load) -> dict[str, Any]:
    if len(load.bound) == 1:
        return {"bound": load.bound[0], "before": load.before[0], "after": load.after[0]}
    return {"bound": list(load.bound), "before": list(load.before), "after": list(load.after)}


def _move(move: Move) -> dict[str, Any]:
    return {
        "job": move.job,
        "group": move.group,
        "rank": move.rank,
        "from": move.source,
        "to": move.target,
        "wave": move.wave,
        "staged": move.staged,
        "because": list(move.because),
    }


def _flow(flow: Flow) -> dict[str, Any]:
    row = {
        "job": flow.job,
        "group": flow.group,
        "ring": flow.ring,
        "rail": flow.rail,
        "from_rank": flow.from_rank,
        "to_rank": flow.to_rank,
        "from_rack": flow.from_rack,
        "to_rack": flow.to_rack,
        "uplink": flow.uplink,
    }
    if flow.leaves_pod:
        row["pod_uplink"] = flow.pod_uplink
    if flow.udp_source_port is not None:
        row["udp_source_port"] = flow.udp_source_port
        row["flow_label"] = flow.flow_label
    return row


def _shared(shared: SharedUplink) -> dict[str, Any]:
    where = {"rack": shared.rack, "rail": shared.rail} if shared.pod is None else {"pod": shared.pod}
    return {
        **where,
        "uplink": shared.uplink,
        "direction": shared.direction,
        "flows": list(shared.flows),
    }
