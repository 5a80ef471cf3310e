"""A replay as a document (docs/contract.md, section 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monkeytree.identity import snapshot_id

from .network import Leaf
from .profiles import resolve
from .replay import Replay
from .traffic import Knobs
from .verdict import SLOWDOWN_LIMIT, FlowVerdict, Run, quantile

Document = dict[str, Any]


def report(found: Replay, params: Mapping[str, Any]) -> Document:
    """The document of a replay, format 1; times in nanoseconds, slowdowns against the job alone."""
    snapshot, meter = found.snapshot, found.meter
    return {
        "format": 1,
        "snapshot_id": snapshot_id(snapshot),
        "plan_id": None if found.plan is None else found.plan.id,
        "cluster": snapshot.cluster,
        "isolated": found.subject.isolated,
        "claims_hold": found.subject.claims_hold,
        "reasons": found.subject.reasons,
        "slowdown_limit": SLOWDOWN_LIMIT,
        "params": dict(params),
        "traffic": _knobs(found.knobs),
        "runs": {run.name: _run(found, run) for run in (found.subject, *found.controls)},
        "flows": [_flow(verdict) for verdict in found.subject.crossing],
        "cost": {
            "events": meter.events,
            "cpu_s": round(meter.cpu_s, 3),
            "processes": meter.processes,
            "parts_reused": meter.reused,
            **({"skips": meter.skips, "skipped_ns": meter.skipped_ns} if _fast(params) else {}),
        },
    }


def _fast(params: Mapping[str, Any]) -> bool:
    return bool(resolve(params)["fast_forward"])


def _knobs(knobs: Knobs) -> Document:
    return {
        "flow_bytes": knobs.flow_bytes,
        "scale": knobs.scale,
        "ecmp_share": knobs.ecmp_share,
        "background": knobs.background,
        "failed_uplinks": [{"rack": rack, "uplink": spine} for rack, spine in knobs.dead],
        "steps": knobs.steps,
        "seed": knobs.seed,
        **({"routing": "hash", "ports": knobs.ports} if knobs.routing == "hash" else {}),
    }


def _run(found: Replay, run: Run) -> Document:
    crossing = run.crossing
    slowdowns = [v.slowdown for v in crossing if v.slowdown is not None]
    errors = [abs(v.error) for v in crossing if v.error is not None]
    ports = run.outcome.ports.values()
    return {
        "isolated": run.isolated,
        "claims_hold": run.claims_hold,
        "reasons": run.reasons,
        "finished": run.outcome.finished,
        "flows": len(run.flows),
        "cross_rack_flows": len(crossing),
        "isolated_flows": sum(v.isolated for v in crossing),
        "slowdown": {
            "mean": sum(slowdowns) / len(slowdowns) if slowdowns else None,
            "p99": quantile(slowdowns, 0.99),
            "max": max(slowdowns, default=None),
        },
        "flow_model_error": {
            "mean": sum(errors) / len(errors) if errors else None,
            "max": max(errors, default=None),
        },
        "ecn_marks": sum(port.ecn_marks for port in ports),
        "pauses": sum(port.pauses_received for port in ports),
        "drops": run.outcome.drops,
        "max_queue_bytes": max((port.max_queue_bytes for port in ports), default=0),
        **({"off_their_uplinks": _off(crossing)} if found.knobs.routing == "hash" else {}),
        **_unknown(run),
        "parts": run.outcome.parts,
        "parts_rerun_together": run.outcome.rerun,
        "racks": _racks(found, run),
    }


def _off(crossing: Iterable[FlowVerdict]) -> int:
    """Flows that hashes sent by another uplink than planned."""
    flows = (verdict.flow for verdict in crossing)
    return sum(flow.planned is not None and flow.planned != flow.label and bool(flow.path) for flow in flows)


def _unknown(run: Run) -> Document:
    """Under a learned table: flows whose way it does not know."""
    hashing = run.traffic.hashing
    if hashing is None or not hashing.learned:
        return {}
    return {"unknown_ways": sum(bool(verdict.flow.unknown) for verdict in run.crossing)}


def _racks(found: Replay, run: Run) -> list[Document]:
    """Leaves with cross-rack flows: how many leave, of how many they can carry, and how many are slowed."""
    leaving: dict[Leaf, list[FlowVerdict]] = {}
    entering: dict[Leaf, list[FlowVerdict]] = {}
    for verdict in run.crossing:
        leaving.setdefault(verdict.flow.source, []).append(verdict)
        entering.setdefault(verdict.flow.target, []).append(verdict)
    k = found.snapshot.fabric.flows_per_uplink
    return [
        {
            "rack": rack.id,
            "rail": rail,
            "bound": len(run.traffic.network.spines[rack.id]) * k,
            "flows": len(leaving.get((rack.id, rail), ())),
            "slowed_out": sum(not v.isolated for v in leaving.get((rack.id, rail), ())),
            "slowed_in": sum(not v.isolated for v in entering.get((rack.id, rail), ())),
        }
        for rack in found.snapshot.racks
        for rail in range(found.snapshot.fabric.rails)
        if (rack.id, rail) in leaving or (rack.id, rail) in entering
    ]


def _flow(verdict: FlowVerdict) -> Document:
    flow = verdict.flow
    return {
        "job": flow.job,
        "group": flow.group,
        "ring": flow.ring,
        "from_rank": flow.from_rank,
        "to_rank": flow.to_rank,
        "from_rack": flow.source[0],
        "to_rack": flow.target[0],
        "rail": flow.source[1],
        "uplink": flow.label,
        **({"udp_source_port": flow.hashed.packet.sport} if flow.hashed is not None else {}),
        **({"unknown": flow.unknown} if flow.unknown else {}),
        "steered": flow.steered,
        "claimed": flow.claimed,
        "bytes": flow.size,
        "fct_ns": verdict.fct_ns,
        "alone_ns": verdict.alone_ns,
        "slowdown": verdict.slowdown,
        "predicted_slowdown": verdict.predicted,
        "flow_model_error": verdict.error,
        "paused": verdict.paused,
        "retransmits": verdict.retransmits,
        "cnps": verdict.cnps,
        "isolated": verdict.isolated,
    }
