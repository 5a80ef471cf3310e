"""Steps of jobs: whether each worker is a step of its own, which alone can leave while the others go on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .errors import refuse_answer
from .hostlist import BadHostlist, expand
from .jobs import SlurmJob

Steps = Mapping[str, tuple[tuple[str, ...], ...]]
"""Nodes of each step, by the job's display id; the steps of batch and extern left out."""
HIDDEN = ("batch", "extern", "interactive")


def read_steps(text: str) -> Steps:
    """The steps in what ``squeue --steps --noheader --format=%i|%N`` prints.

    Raises:
        InvalidAnswer: naming the line.
    """
    steps: dict[str, list[tuple[str, ...]]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, bar, nodes = line.strip().partition("|")
        job, dot, step = name.rpartition(".")
        if not bar or not dot:
            raise refuse_answer(f"line {number}", "is no JOB.STEP|NODES", line)
        if step.lower() in HIDDEN:
            continue
        try:
            steps.setdefault(job, []).append(expand(nodes))
        except BadHostlist as error:
            raise refuse_answer(f"line {number}, nodes", str(error), nodes) from None
    return {job: tuple(listed) for job, listed in steps.items()}


def display_id(job: SlurmJob) -> str:
    """What Slurm's commands call a job: ``30``, ``123_7`` for array tasks, ``45+1`` for components."""
    if job.het is not None:
        return f"{job.het[0]}+{job.het[1]}"
    if job.array is not None:
        return f"{job.array[0]}_{job.array[1]}"
    return str(job.job_id)


def first_task(job: SlurmJob) -> str:
    """What commands must call the first of the tasks that wait in one entry: ``9_3`` for ``9_[3-10%2]``.

    By the number of the array a command would reach all of them, those that run already too.
    """
    if job.array is None:
        return display_id(job)
    found = re.match(r"\[?([0-9]+)", job.array[1])
    return f"{job.array[0]}_{found[1]}" if found else display_id(job)


def one_step_a_worker(job: SlurmJob, steps: Steps) -> bool:
    """Whether every node of ``job`` has a step, and no step spans nodes."""
    found = steps.get(display_id(job), ()) or steps.get(str(job.job_id), ())
    return all(len(nodes) == 1 for nodes in found) and {nodes[0] for nodes in found} == set(job.nodes)
