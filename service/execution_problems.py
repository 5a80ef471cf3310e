"""Why the service does not have a plan carried out: part of the table of :mod:`.problems`."""

from __future__ import annotations

from collections.abc import Mapping

from .problem import Problem

EXECUTION_PROBLEMS: Mapping[str, Problem] = {
    "execution_refused": Problem(409, "The plan is not carried out", "The detail says why."),
    "executions_disabled": Problem(
        403, "The service only recommends", "Name the cluster in MONKEYTREE_EXECUTIONS (docs/executions.md)."
    ),
    "nothing_to_execute": Problem(409, "The plan changes nothing", "There is nothing to do."),
    "not_worthwhile": Problem(
        409,
        "The plan costs more than it gains",
        "Plan with `planning.trigger` always to carry it out all the same.",
    ),
    "not_executable": Problem(
        409,
        "Agents cannot carry the plan out",
        "They move live jobs only; move the others by your scheduler.",
    ),
    "job_opted_out": Problem(
        409,
        "A job has opted out",
        "Give it mobility none, so that plans leave it alone, or take the label off.",
    ),
    "sequence_mismatch": Problem(
        409, "Another snapshot is the newest", "Read the newest plan, and send its snapshot's sequence."
    ),
    "cluster_changed": Problem(
        409, "The cluster is not as the plan expects", "`errors` lists the differences; take the newest plan."
    ),
    "agent_missing": Problem(
        409, "A node has no agent that beats", "Start `monkeytree agent` there; GET /v1/agents lists all."
    ),
    "outside_window": Problem(
        409, "No maintenance window is open", "Try again when one opens (MONKEYTREE_EXECUTION_WINDOWS)."
    ),
    "execution_overlaps": Problem(
        409, "Another execution holds a job, node or rack of it", "Wait for that one, or cancel it."
    ),
    "move_limit": Problem(
        409, "The limit of moves per hour would be passed", "Wait, or plan with a lower `max_moves`."
    ),
    "job_cooling_down": Problem(409, "A job was paused a short while ago", "Try again when the detail says."),
    "stale_agent": Problem(
        409, "A newer agent runs the node", "Stop the older one; an agent's epoch grows at each start."
    ),
}
