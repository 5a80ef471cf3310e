"""Traces: drawn, written, read, and refused with what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monkeytree.simulation import BadTrace, TraceJob, draw_trace, read_trace, write_trace
from monkeytree.simulation.mix import PAPER_MIX
from monkeytree.simulation.program import ideal_iteration_us


def offered(trace: tuple[TraceJob, ...], gpus: int) -> float:
    work: int = sum(j.iterations * j.gpus * ideal_iteration_us(PAPER_MIX[j.type], j.gpus, 400) for j in trace)
    return float(work / gpus / trace[-1].arrival_us)


@pytest.mark.parametrize(
    ("load", "seed", "first_600", "all_1000"), [(1.0, 6001, 0.90, 0.92), (0.8, 4001, 0.75, 0.76)]
)
def test_the_drawn_traces_are_the_artifacts(
    load: float, seed: int, first_600: float, all_1000: float
) -> None:
    """The loads that its traces of these seeds were measured to offer (with the bubble of pipelines)."""
    trace = draw_trace(PAPER_MIX, gpus=1024, load=load, jobs=1000, seed=seed)
    assert round(offered(trace[:600], 1024), 2) == first_600
    assert round(offered(trace, 1024), 2) == all_1000


def test_a_trace_survives_being_written_and_read(tmp_path: Path) -> None:
    trace = draw_trace(PAPER_MIX, gpus=256, load=0.7, jobs=50, seed=3)
    write_trace(tmp_path / "trace.txt", trace)
    assert (tmp_path / "trace.txt").read_text().splitlines()[0] == "50"
    assert read_trace(tmp_path / "trace.txt", PAPER_MIX) == trace


def test_own_jobs_as_csv_and_json(tmp_path: Path) -> None:
    wanted = (TraceJob(0, "gpt_7b_dp", 16, 3), TraceJob(1_500_000, "llama2_70b_tp_dp", 32, 7))
    (tmp_path / "jobs.csv").write_text(
        "arrival_s,type,gpus,iterations\n1.5,llama2_70b_tp_dp,32,7\n0,gpt_7b_dp,16,3\n"
    )
    (tmp_path / "jobs.json").write_text(
        json.dumps(
            [
                {"arrival_us": j.arrival_us, "type": j.type, "gpus": j.gpus, "iterations": j.iterations}
                for j in wanted
            ]
        )
    )
    assert read_trace(tmp_path / "jobs.csv", PAPER_MIX) == wanted
    assert read_trace(tmp_path / "jobs.json", PAPER_MIX) == wanted


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("t.txt", "2\n0 gpt_7b_dp 16 3\n", "says 2 jobs, but 1 lines follow"),
        ("t.txt", "0 gpt_7b_dp 16 3\n", "first line must be the number of jobs"),
        ("t.txt", "1\n0 gpt_7b_dp 16\n", "line 2: expected"),
        ("t.txt", "1\n0 gpt_9000 16 3\n", "unknown type 'gpt_9000'"),
        ("t.txt", "1\n0 gpt_7b_dp 12 3\n", "multiples of 8 GPUs"),
        ("t.txt", "1\n0 llama2_70b_tp_dp_pp_4 32 3\n", "multiples of 32 GPUs from 64"),
        ("t.txt", "1\n0 gpt_7b_dp 16 0\n", "iterations from 1"),
        ("t.csv", "type,gpus,iterations\ngpt_7b_dp,16,3\n", "job 1"),
        ("t.json", "{}", "a list of jobs"),
        ("t.json", "[", "not JSON"),
    ],
)
def test_what_cannot_be_simulated_is_named(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadTrace, match=says):
        read_trace(tmp_path / name, PAPER_MIX)
