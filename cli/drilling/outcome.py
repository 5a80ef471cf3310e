"""What the ranks' logs say, and whether two runs are the same to the last bit."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_DIFFERENCES = 10


@dataclass(slots=True)
class Outcome:
    """A run of the job.

    Attributes:
        losses: (rank, step) -> mean loss of all ranks and the rank's own, in hexadecimal.
        finals: rank -> step and digest it ended with.
        digests: (rank, step) -> digest after that step, where the job logs it.
        doubled: (rank, step) that two processes finished.
        events: in the order of each log.
        iterations: (rank, step) -> the whole line.
    """

    losses: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    finals: dict[int, tuple[int, str]] = field(default_factory=dict)
    digests: dict[tuple[int, int], str] = field(default_factory=dict)
    doubled: list[tuple[int, int]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    iterations: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The last step that any rank finished."""
        return max((step for _, step in self.losses), default=0)

    def step_of(self, rank: int) -> int:
        """The last step that this rank finished."""
        return max((step for one, step in self.losses if one == rank), default=0)

    def mean_losses(self) -> list[float]:
        """By step, as rank 0 saw them."""
        return [float.fromhex(self.losses[0, step][0]) for step in range(1, self.step_of(0) + 1)]


def read_outcome(folder: Path) -> Outcome:
    """From the logs of every process that was a rank; a line that a kill cut short is left out."""
    outcome = Outcome()
    for file in sorted(folder.glob("rank-*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            try:
                _take(json.loads(line), outcome)
            except json.JSONDecodeError:
                continue
    return outcome


def _take(found: dict[str, Any], outcome: Outcome) -> None:
    rank = found["rank"]
    if "final" in found:
        if rank in outcome.finals:
            outcome.doubled.append((rank, found["final"]))
        outcome.finals[rank] = (found["final"], found["digest"])
        outcome.digests[rank, found["final"]] = found["digest"]
    elif "step" in found and "loss" in found:
        place = rank, found["step"]
        if place in outcome.losses:
            outcome.doubled.append(place)
        outcome.losses[place] = found["loss"], found["own"]
        outcome.iterations[place] = found
        if "digest" in found:
            outcome.digests[place] = found["digest"]
    else:
        outcome.events.append(found)


def differences(run: Outcome, reference: Outcome, ranks: int) -> list[str]:
    """How ``run`` differs from ``reference`` as far as ``run`` went; [] when every loss and the digest at its
    end are the same, and no rank is lost or doubled."""
    steps = run.steps
    found = [f"rank {rank}, step {step}: finished twice" for rank, step in run.doubled]
    for rank in range(ranks):
        for step in range(1, steps + 1):
            mine, theirs = run.losses.get((rank, step)), reference.losses.get((rank, step))
            if mine is None or mine != theirs:
                found.append(f"rank {rank}, step {step}: losses {mine}, unmigrated {theirs}")
        final, expected = run.finals.get(rank), (steps, reference.digests.get((rank, steps), "none"))
        if final != expected:
            found.append(f"rank {rank}: ended with {final}, unmigrated {expected}")
    more = len(found) - MOST_DIFFERENCES
    return found if more <= 0 else [*found[:MOST_DIFFERENCES], f"and {more} more"]
