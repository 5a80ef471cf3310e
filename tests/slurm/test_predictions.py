"""What predictions need is read where a site asks for it."""

from __future__ import annotations

from dataclasses import replace

from monkeytree.slurm.build import build_snapshot

from .samples import reading, site


def test_time_limits_are_upper_bounds_of_what_remains() -> None:
    read = reading("live")
    assert {job.remaining_s for job in build_snapshot(read, site()).snapshot.jobs} == {None}
    jobs = tuple(replace(job, ends_at=1_795_978_920 + 3600) for job in read.jobs)
    where = site(jobs={"remaining": "time_limit"})
    found = build_snapshot(replace(read, jobs=jobs), where).snapshot.jobs
    assert {job.remaining_s for job in found} == {3600.0}
    late = build_snapshot(replace(read, jobs=jobs, taken_at="2026-11-30T19:02:00Z"), where).snapshot.jobs
    assert {job.remaining_s for job in late} == {0.0}


def test_rules_say_traffic_and_iterations() -> None:
    layout = {"traffic_gb": 6.5, "iteration_s": 2.0}
    built = build_snapshot(reading("live"), site(jobs={"layout": layout}))
    group = built.snapshot.jobs[0].replica_groups[0]
    assert (group.traffic_gb, group.iteration_s) == (6.5, 2.0)
