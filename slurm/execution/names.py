"""Names of what an execution makes in Slurm: by them it finds its things again after a crash."""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[A-Za-z0-9-]{1,24}\Z")


def tag_of(plan_id: str) -> str:
    """A short form of a plan's id that may stand in any name: the id itself, or 12 digits of its SHA-256."""
    if _PLAIN.match(plan_id):
        return plan_id
    return hashlib.sha256(plan_id.encode()).hexdigest()[:12]


def donor_name(tag: str, move: int) -> str:
    """Name and comment of the job that brings a node, and name of the new worker's step."""
    return f"mt:{tag}:{move}"


def donor_prefix(tag: str) -> str:
    """What the names of all donors of a plan begin with."""
    return f"mt:{tag}:"


def reservation_name(tag: str, move: int) -> str:
    """Name of the reservation that holds the destination of a move (of a job's first move, when requeued)."""
    return f"mt_{tag}_{move}"


def reservation_prefix(tag: str) -> str:
    """What the names of all reservations of a plan begin with."""
    return f"mt_{tag}_"
