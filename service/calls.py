"""All calls of the service in one table: URL, roles, and the problems each may answer with.

The guard, the routes, the OpenAPI document and the role test all read it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from .problems import PROBLEMS

#: Any valid token will do.
ANY = frozenset({"scheduler", "researcher", "operator", "agent"})
#: No token is needed.
NONE: frozenset[str] = frozenset()

_GUARDED = ("unauthenticated", "forbidden", "rate_limited", "invalid_header")
_BODY = (
    "malformed_body", "body_too_large", "unsupported_media_type", "unsupported_encoding",
    "idempotency_in_progress", "idempotency_key_reused", "server_busy",
)  # fmt: skip
_VALIDATES = frozenset({"scheduler", "researcher"})
_ASKS = (
    "invalid_query", "forbidden_cluster", "invalid_snapshot", "unsupported_member", "unknown_solver", *_BODY,
)  # fmt: skip
_READS = ("forbidden_cluster",)
_OPERATES = frozenset({"operator"})
_NOT_CARRIED_OUT = (
    "plan_not_ready", "executions_disabled", "nothing_to_execute", "not_worthwhile", "not_executable",
    "job_opted_out", "sequence_mismatch", "cluster_changed", "agent_missing", "outside_window",
    "execution_overlaps", "move_limit", "job_cooling_down",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """One call; ``id`` is its operationId, ``roles`` who may make it (none: everybody)."""

    id: str
    method: str
    path: str
    roles: frozenset[str]
    codes: tuple[str, ...] = ()

    @property
    def problems(self) -> Mapping[int, list[str]]:
        """Codes of the problems it may answer with, by HTTP status."""
        found: defaultdict[int, list[str]] = defaultdict(list)
        for code in (*self.codes, *(_GUARDED if self.roles else ()), "internal", "store_unavailable"):
            found[PROBLEMS[code].status].append(code)
        return dict(sorted(found.items()))


_CALLS = (
    Call("submitSnapshot", "POST", "/v1/snapshots", frozenset({"scheduler"}), ("stale_snapshot", *_ASKS)),
    Call("listSnapshots", "GET", "/v1/snapshots", ANY, ("invalid_query", "invalid_cursor", *_READS)),
    Call("getSnapshot", "GET", "/v1/snapshots/<string:snapshot_id>", ANY,
         ("unknown_snapshot", "precondition_failed", *_READS)),
    Call("submitPlan", "POST", "/v1/plans", frozenset({"scheduler", "researcher"}),
         ("unknown_snapshot", "invalid_request", *_ASKS)),
    Call("listPlans", "GET", "/v1/plans", ANY, ("invalid_query", "invalid_cursor", *_READS)),
    Call("getPlan", "GET", "/v1/plans/<string:plan_id>", ANY,
         ("invalid_query", "unknown_plan", "precondition_failed", *_READS)),
    Call("cancelPlan", "DELETE", "/v1/plans/<string:plan_id>", frozenset({"scheduler"}),
         ("unknown_plan", "not_cancellable", *_READS)),
    Call("submitValidation", "POST", "/v1/validations", _VALIDATES,
         ("invalid_query", "invalid_request", "unknown_plan", "unknown_snapshot", "plan_not_ready",
          "validation_unavailable", *_READS, *_BODY)),
    Call("listValidations", "GET", "/v1/validations", _VALIDATES,
         ("invalid_query", "invalid_cursor", *_READS)),
    Call("getValidation", "GET", "/v1/validations/<string:validation_id>", _VALIDATES,
         ("invalid_query", "unknown_validation", "precondition_failed", *_READS)),
    Call("cancelValidation", "DELETE", "/v1/validations/<string:validation_id>", _VALIDATES,
         ("unknown_validation", "not_cancellable", *_READS)),
    Call("submitExecution", "POST", "/v1/executions", _OPERATES,
         ("invalid_request", "unknown_plan", *_NOT_CARRIED_OUT, *_READS, *_BODY)),
    Call("listExecutions", "GET", "/v1/executions", ANY, ("invalid_query", "invalid_cursor", *_READS)),
    Call("getExecution", "GET", "/v1/executions/<string:execution_id>", ANY,
         ("invalid_query", "unknown_execution", "precondition_failed", *_READS)),
    Call("cancelExecution", "POST", "/v1/executions/<string:execution_id>/cancel", _OPERATES,
         ("unknown_execution", "not_cancellable", "idempotency_in_progress", "idempotency_key_reused",
          *_READS)),
    Call("announceAgent", "POST", "/v1/agents", frozenset({"agent"}),
         ("invalid_request", "unknown_node", "stale_agent", *_READS, *_BODY)),
    Call("listAgents", "GET", "/v1/agents", ANY, ("invalid_query", *_READS)),
    Call("listReservations", "GET", "/v1/reservations", ANY, ("invalid_query", *_READS)),
    Call("getHealth", "GET", "/healthz", NONE),
    Call("getReadiness", "GET", "/readyz", NONE),
    Call("getMetrics", "GET", "/metrics", NONE),
)  # fmt: skip

CALLS: Mapping[str, Call] = {call.id: call for call in _CALLS}
#: Pages outside the API; they need no token either.
PAGES = frozenset({"openapi_json", "showDocs", "getDocsFile", "showProblem"})
