"""Answers of 22.05 rewritten in the shapes of newer Slurm (data_parser v0.0.40 and later)."""

from __future__ import annotations

from typing import Any

NUMBERS = (
    "node_count",
    "array_job_id",
    "array_task_id",
    "het_job_id",
    "het_job_offset",
    "priority",
    "submit_time",
    "start_time",
    "end_time",
)


def number(value: int | None) -> dict[str, Any]:
    """``{set, infinite, number}``."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


def newer_jobs(answer: Any) -> Any:
    """Numbers as objects, states as lists of base state and flags."""
    jobs = []
    for row in answer["jobs"]:
        row = {**row, **{member: number(row.get(member)) for member in NUMBERS}}
        row["job_state"] = row["job_state"].split()
        row["job_resources"] = {"nodes": {"count": 1, "list": row["nodes"]}}
        jobs.append(row)
    return {"jobs": jobs, "errors": [], "warnings": [], "meta": {"slurm": {"cluster": "lab"}}}


def newer_nodes(answer: Any) -> Any:
    """``/nodes`` and ``scontrol show nodes --json``: one list of states, in capitals."""
    rows = []
    for row in answer["nodes"]:
        states = [row["state"].upper(), *row["state_flags"]]
        rows.append({**{k: v for k, v in row.items() if k != "state_flags"}, "state": states, "features": []})
    return {"nodes": rows, "errors": []}


def newer_sinfo(answer: Any) -> Any:
    """``sinfo --json``: groups of like nodes, once in each of their partitions."""
    groups: dict[str, Any] = {}
    for row in answer["nodes"]:
        states = [row["state"].upper(), *row["state_flags"]]
        for partition in row["partitions"]:
            key = repr((states, row["gres"], row["gres_used"], partition))
            found = groups.setdefault(
                key,
                {
                    "node": {"state": states},
                    "nodes": {"nodes": [], "total": 0},
                    "partition": {"name": partition},
                    "gres": {"total": row["gres"], "used": row["gres_used"]},
                    "features": {"total": "", "active": ""},
                },
            )
            found["nodes"]["nodes"].append(row["name"])
    return {"sinfo": list(groups.values()), "errors": []}
