"""Iteration times of the authors' simulator, job for job (tests/data/flows, from its original engine)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from monkeytree.simulation.execution import Execution
from monkeytree.simulation.fabrics import Fabric, LeafSpine
from monkeytree.simulation.fabrics import Path as Links
from monkeytree.simulation.mix import GPUS_PER_BLOCK, PAPER_MIX
from monkeytree.simulation.running import Running, fresh_orders

DATA = Path(__file__).parents[1] / "data" / "flows"
CASES: list[dict[str, Any]] = json.loads((DATA / "golden_jobs.json").read_text())


class Given:
    """The spines that the authors' routing chose."""

    def __init__(self, routes: Sequence[Sequence[int]]) -> None:
        self.spines = {(job, source, target): spine for job, source, target, spine in routes}

    def route(self, jobs: Sequence[Running], fabric: Fabric) -> list[tuple[Links, ...]]:
        return [
            tuple(
                # Flows that the cut list of the pipeline case does not reach take the only spine.
                fabric.choices(d.source_leaf, d.target_leaf)[
                    self.spines.get((job.number, d.source, d.target), 0)
                ]
                for d in job.wiring.demands
            )
            for job in jobs
        ]


def iteration_ends(case: dict[str, Any]) -> dict[int, list[int]]:
    """When each iteration of each job ends."""
    fabric = LeafSpine(case["racks"], case["gpus_per_tor"] // GPUS_PER_BLOCK, case["spines"], 400)
    execution = Execution(fabric, 400, Given(case["routes"]))
    jobs = []
    for spec in case["jobs"]:
        kind = PAPER_MIX[spec["type"]]
        job = Running(spec["id"], kind, len(spec["hosts"]), spec["iterations"])
        blocks = [host // GPUS_PER_BLOCK for host in spec["hosts"][::GPUS_PER_BLOCK]]
        job.place(blocks, fresh_orders(kind, len(blocks)), fabric, 400)
        jobs.append(job)
    execution.rewire(jobs, 0)
    for job in jobs:
        execution.proceed(job, 0)
    execution.net.settle(0)
    running, ends = list(jobs), {job.number: [0] * job.iterations for job in jobs}
    while running:
        before = {job.number: (job.done, job.skips_from, job.lone_us) for job in running}
        now = int(execution.next_time())
        execution.step(now)
        for job in running:
            done, skips_from, lone_us = before[job.number]
            for number in range(done, job.done):
                leapt = skips_from is not None
                ends[job.number][number] = skips_from + (number + 1 - done) * lone_us if leapt else now
        running = [job for job in running if job not in execution.finished]
        if execution.finished:
            execution.finished.clear()
            execution.rewire(running, now)
            execution.net.settle(now)
    return ends


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_iterations_end_when_the_authors_do(case: dict[str, Any]) -> None:
    ends = iteration_ends(case)
    for job in case["jobs"]:
        for ours, theirs in zip(ends[job["id"]], job["iteration_end_us"], strict=True):
            # Theirs also rounds what is left down to whole bytes at each change of rates.
            assert abs(ours - theirs) <= 2, job["type"]
