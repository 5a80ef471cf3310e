"""Traces: drawn, written, read, and refused with what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monkeytree.simulation import (
    BadTrace,
    Setup,
    TraceJob,
    draw_trace,
    read_trace,
    simulate,
    write_trace,
)
from monkeytree.simulation.mix import PAPER_MIX
from monkeytree.simulation.program import ideal_iteration_us

HEADER = "arrival_us,type,gpus,iterations\n"
OWN = {"arrival_us": 0, "type": "ours", "gpus": 16, "iterations": 10, "compute_s": 0.5, "sync_gb": 14}


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


def test_a_spreadsheets_csv_is_read(tmp_path: Path) -> None:
    lines = ("\ufeffarrival_us, type,gpus,iterations,team", "0.0,gpt_7b_dp,16.0,3,blue")
    (tmp_path / "jobs.csv").write_bytes("\r\n".join(lines).encode())
    assert read_trace(tmp_path / "jobs.csv", PAPER_MIX) == (TraceJob(0, "gpt_7b_dp", 16, 3),)


def test_the_artifacts_names_are_understood(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("arrival_us,job_type,num_workers,num_iterations\n5,gpt_7b_dp,16,3\n")
    assert read_trace(tmp_path / "jobs.csv", PAPER_MIX) == (TraceJob(5, "gpt_7b_dp", 16, 3),)


def test_what_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_bytes(b"1\n0 gpt_7b_dp 16 \xff3\n")
    with pytest.raises(BadTrace, match="UTF-8 text, and this is not at byte 17"):
        read_trace(tmp_path / "jobs.txt", PAPER_MIX)


def test_many_bad_jobs_are_counted(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text("12\n" + "0 nonesuch 16 3\n" * 12)
    with pytest.raises(BadTrace, match=r"(?s)job 10: .*and 2 more jobs"):
        read_trace(tmp_path / "jobs.txt", PAPER_MIX)


def test_jobs_of_a_type_of_their_own(tmp_path: Path) -> None:
    """0.5 s, then 14 GB over a ring of 16 GPUs at 50 GB/s; or over 8 rings of 4, one for each rank."""
    tensor = {**OWN, "type": "theirs", "gpus": 32, "rings": 8, "arrival_us": 10**8}
    (tmp_path / "jobs.json").write_text(json.dumps([OWN, tensor]))
    trace = read_trace(tmp_path / "jobs.json", PAPER_MIX)
    ours, theirs = simulate(Setup(system="ecmp", trace=trace)).jobs
    assert (ours.type, ours.end_us) == ("ours", 10 * (500_000 + 2 * 15 / 16 * 14e9 / 50e3))
    assert (theirs.type, theirs.end_us - theirs.start_us) == (
        "theirs",
        10 * (500_000 + 2 * 3 / 4 * 14e9 / 50e3),
    )
    with pytest.raises(BadTrace, match="type 'ours'"):
        write_trace(tmp_path / "jobs.txt", trace)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("t.txt", "2\n0 gpt_7b_dp 16 3\n", "says 2 jobs, but 1 lines follow"),
        ("t.txt", "0 gpt_7b_dp 16 3\n", "first line must be the number of jobs"),
        ("t.txt", "1\n0 gpt_7b_dp 16\n", "line 2: expected"),
        ("t.txt", "1\n0 gpt_9000 16 3\n", "unknown type 'gpt_9000'"),
        ("t.txt", "1\n0 gpt_7b_dp 12 3\n", "multiples of 8 GPUs"),
        ("t.txt", "1\n0 llama2_70b_tp_dp_pp_4 32 3\n", "multiples of 32 GPUs from 64"),
        ("t.txt", "1\n0 gpt_7b_dp 16 0\n", "`iterations` must be a number from 1"),
        ("t.txt", "1\n-1 gpt_7b_dp 16 3\n", "`arrival_us` must be a number from 0"),
        ("t.txt", "1\n0 gpt_7b_dp 16 2.5\n", "`iterations` must be a whole number, not '2.5'"),
        ("t.txt", "1\n0 gpt_7b_dp 1 3\n", "multiples of 8 GPUs from 8, not on 1"),
        ("t.txt", "0\n", "no job"),
        ("t.txt", "", "first line must be the number of jobs"),
        ("t.csv", "type,gpus,iterations\ngpt_7b_dp,16,3\n", "lacks arrival_us"),
        ("t.csv", HEADER, "no job"),
        ("t.csv", HEADER + "0,gpt_7b_dp,16\n", "job 1: `iterations` is missing"),
        ("t.csv", HEADER + "0,gpt_7b_dp,16,3,9\n", "job 1: more values than columns"),
        ("t.csv", HEADER + "inf,gpt_7b_dp,16,3\n", "`arrival_us` must be a number"),
        (
            "t.csv",
            HEADER + "0,gpt_7b_dp,16,3\n0,x,8,1\nnan,gpt_7b_dp,8,1\n",
            "(?s)job 2: unknown.*job 3: `arr",
        ),
        ("t.json", json.dumps([{**OWN, "gpus": 16.7}]), "`gpus` must be a whole number, not 16.7"),
        ("t.json", json.dumps([{**OWN, "gpus": True}]), "`gpus` must be a number"),
        ("t.json", json.dumps([{**OWN, "iterations": 1e300}]), "`iterations` must be a number"),
        ("t.json", json.dumps([{**OWN, "type": ["x"]}]), "`type` must be the name"),
        ("t.json", json.dumps([{**OWN, "arrival_us": None}]), "`arrival_us` is missing"),
        ("t.json", json.dumps([{**OWN, "sync_gb": None}]), "`sync_gb` is missing"),
        ("t.json", json.dumps([{**OWN, "rings": 2}]), "`rings` must be 1 or 8, not 2"),
        ("t.json", json.dumps([{**OWN, "rings": 8, "gpus": 8}]), "multiples of 8 GPUs from 16, not on 8"),
        ("t.json", "[1]", "a job is an object"),
        ("t.json", "[" * 100_000, "not JSON"),
        ("t.json", "{}", "a list of jobs"),
        ("t.json", "[", "not JSON"),
    ],
)
def test_what_cannot_be_simulated_is_named(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadTrace, match=says):
        read_trace(tmp_path / name, PAPER_MIX)
