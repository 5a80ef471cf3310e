"""Answers of Slurm as JSON: their errors first, then the rows asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .errors import SlurmFailed, refuse_answer


def parse(data: str | bytes, source: str) -> Any:
    """The JSON of an answer.

    Raises:
        InvalidAnswer: it is none, or is cut off.
    """
    # Slurm hands through what users name their jobs, UTF-8 or not: one name must not hide all jobs.
    text = data if isinstance(data, str) else data.decode("utf-8-sig", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refuse_answer(source, f"is not JSON: {error}", text[:40]) from None


def refuse_errors(answer: Any) -> None:
    """Slurm says errors in the body, with HTTP 200.

    Raises:
        SlurmFailed: there are some.
    """
    errors = answer.get("errors") if isinstance(answer, Mapping) else None
    if not errors:
        return
    said = []
    for error in errors if isinstance(errors, list) else [errors]:
        words = (
            [str(error.get(key)) for key in ("error", "description", "source") if error.get(key)]
            if isinstance(error, Mapping)
            else [str(error)]
        )
        code = error.get("error_number") if isinstance(error, Mapping) else None
        said.append(": ".join(words) + (f" ({code})" if code else ""))
    raise SlurmFailed(f"Slurm answers with an error: {'; '.join(said)}")


def rows_of(answer: Any, member: str) -> list[Mapping[str, Any]]:
    """The list of objects under ``member``.

    Raises:
        InvalidAnswer: there is none.
        SlurmFailed: the answer tells of errors.
    """
    refuse_errors(answer)
    rows = answer.get(member) if isinstance(answer, Mapping) else None
    if not isinstance(rows, list):
        have = sorted(map(str, answer))[:8] if isinstance(answer, Mapping) else answer
        raise refuse_answer(f"/{member}", "must be a list", have)
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise refuse_answer(f"/{member}/{at}", "must be an object", row)
    return rows


def cluster_of(answer: Any) -> str | None:
    """The name of the cluster, where an answer tells it: in its jobs or nodes, or in ``meta``."""
    if not isinstance(answer, Mapping):
        return None
    meta = answer.get("meta")
    slurm = meta.get("slurm") if isinstance(meta, Mapping) else None
    said = [slurm.get("cluster")] if isinstance(slurm, Mapping) else []
    for member in ("jobs", "nodes", "sinfo"):
        rows = answer.get(member)
        said += (
            [row.get("cluster") for row in rows[:1] if isinstance(row, Mapping)]
            if isinstance(rows, list)
            else []
        )
    return next((name for name in said if isinstance(name, str) and name), None)
