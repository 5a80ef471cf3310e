"""``monkeytree simulate`` and ``monkeytree reproduce`` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .running import monkeytree

SMALL = ("--gpus", "256", "--jobs", "40", "--compress", "20", "--seed", "7")
REPEATS = ("system", "load", "gpus", "jobs", "seed", "mean", "p90", "p99", "migrations")


def test_the_summary_has_its_members_and_repeats(tmp_path: Path) -> None:
    one = monkeytree("simulate", *SMALL, "--system", "ecmp", "--json", "-")
    assert one.returncode == 0, one.stderr
    summary = json.loads(one.stdout)
    assert set(REPEATS) | {"solve_ms_mean", "cpu_s"} <= set(summary)
    assert (summary["system"], summary["gpus"], summary["jobs"], summary["seed"]) == ("ecmp", 256, 40, 7)
    files = []
    for processes in ("1", "2"):
        target, rows = tmp_path / f"{processes}.json", tmp_path / f"{processes}.jsonl"
        done = monkeytree(
            "simulate", *SMALL, "--system", "ecmp", "--repetitions", "2", "--processes", processes,
            "--json", target, "--rows", rows,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "all" in done.stdout
        pooled = json.loads(target.read_text())
        files.append(([pooled[name] for name in REPEATS], rows.read_text()))
        assert {name: pooled["repetitions"][0][name] for name in REPEATS} == {
            name: summary[name] for name in REPEATS
        }
    assert files[0] == files[1]
    assert len(files[0][1].splitlines()) == 80


def test_rows_as_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "rows.parquet"
    done = monkeytree("simulate", *SMALL, "--rows", target)
    assert done.returncode == 0, done.stderr
    table = parquet.read_table(target)
    assert table.num_rows == 40
    assert {"id", "type", "gpus", "arrival_us", "start_us", "end_us", "slowdown"} <= set(table.column_names)


def test_a_trace_written_is_a_trace_read(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.txt"
    drawn = monkeytree("simulate", *SMALL, "--write-trace", trace, "--json", "-")
    again = monkeytree("simulate", *SMALL, "--trace", trace, "--json", "-")
    assert trace.read_text().splitlines()[0] == "40"
    one, other = json.loads(drawn.stdout), json.loads(again.stdout)
    assert [one[name] for name in REPEATS] == [other[name] for name in REPEATS]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--system", "ether"], "no system 'ether'"),
        (["--mix", "none"], "no job mix 'none'"),
        (["--gpus", "100"], "do not fill racks"),
        (["--fail-link", "1"], "is not RACK:SPINE"),
        (["--fail-link", "99:0"], "no uplink 99:0 can fail"),
        (["--load", "nan"], "load must be a finite number above 0, not nan"),
        (["--state-gb", "inf"], "state_gb must be from 0"),
        (["--rows", "-", "--json", "-"], "cannot both be standard output"),
    ],
)
def test_wrong_use_is_told(arguments: list[str], words: str) -> None:
    done = monkeytree("simulate", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_one_thing_alone_on_standard_output(tmp_path: Path) -> None:
    rows = monkeytree("simulate", *SMALL, "--rows", "-", "--system", "ecmp")
    assert [json.loads(line)["id"] for line in rows.stdout.splitlines()] == list(range(40))
    assert "256 GPUs" in rows.stderr
    trace = monkeytree("simulate", *SMALL, "--write-trace", "-", "--system", "ecmp")
    assert trace.stdout.splitlines()[0] == "40"
    again = monkeytree(
        "simulate", *SMALL, "--trace", "-", "--rows", "-", "--system", "ecmp", stdin=trace.stdout
    )
    assert again.stdout == rows.stdout


def test_a_trace_without_jobs_is_not_made_up_for(tmp_path: Path) -> None:
    for name, text in (
        ("jobs.txt", "0\n"),
        ("jobs.json", "[]"),
        ("jobs.csv", "arrival_us,type,gpus,iterations\n"),
    ):
        (tmp_path / name).write_text(text)
        done = monkeytree("simulate", "--trace", tmp_path / name, "--json", "-")
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{name}: the trace has no job" in done.stderr


def test_a_bad_trace_is_told(tmp_path: Path) -> None:
    bad = tmp_path / "jobs.txt"
    bad.write_text("1\n0 no_such_type 16 100\n")
    done = monkeytree("simulate", "--trace", bad)
    assert done.returncode == 2
    assert "unknown type 'no_such_type'" in done.stderr


def test_a_figure_is_run_once_and_drawn_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    wanted = ("reproduce", "13", "--scale", "quick", "--jobs", "5", "--into", tmp_path)
    done = monkeytree(*wanted)
    assert done.returncode == 0, done.stderr
    assert "Figure 13" in done.stdout
    picture = (tmp_path / "fig13.svg").read_bytes()
    again = monkeytree(*wanted, "--redraw")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "fig13.svg").read_bytes() == picture
    assert "not run" not in (tmp_path / "fig13.md").read_text()


def without(folder: Path, *modules: str) -> str:
    """A PYTHONPATH on which these modules are not installed."""
    for module in modules:
        (folder / f"{module}.py").write_text("raise ImportError(__name__)\n")
    return str(folder)


def test_a_library_that_is_missing_is_told_before_anything_is_simulated(tmp_path: Path) -> None:
    lacking = without(tmp_path, "pyarrow", "matplotlib")
    endless = ("--gpus", "1024", "--jobs", "1000000")
    done = monkeytree("simulate", *endless, "--rows", tmp_path / "r.parquet", PYTHONPATH=lacking)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Parquet needs pyarrow: pip install 'monkeytree[figures]'" in done.stderr
    done = monkeytree("reproduce", "13", "--jobs", "1000000", "--into", tmp_path / "out", PYTHONPATH=lacking)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pictures need matplotlib: pip install 'monkeytree[figures]'" in done.stderr
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "r.parquet").exists()


@pytest.mark.parametrize("option", ["--rows", "--json", "--write-trace"])
def test_a_file_that_cannot_be_made_is_told_before_anything_is_simulated(tmp_path: Path, option: str) -> None:
    done = monkeytree("simulate", "--jobs", "1000000", option, tmp_path / "no" / "file")
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written: there is no folder" in done.stderr


def test_a_disk_that_is_full_takes_no_summary_along(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    done = monkeytree("simulate", *SMALL, "--rows", "/dev/full", "--json", summary)
    assert done.returncode == 2
    assert "cannot use /dev/full: No space left" in done.stderr
    assert "256 GPUs" in done.stdout
    assert json.loads(summary.read_text())["jobs"] == 40
    assert "256 GPUs" in monkeytree("simulate", *SMALL, "--json", "/dev/full").stdout


def test_only_what_the_pages_state_is_written_over_them(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for more, folder in (
        ((), "docs/figures"),
        (("--scale", "quick"), "build/figures/quick"),
        (("--scale", "quick", "--jobs", "5"), "build/figures/own"),
        (("--repetitions", "1"), "build/figures/own"),
    ):
        done = monkeytree("reproduce", "13", "--redraw", *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"{folder}/fig13.svg, {folder}/fig13.md" in done.stdout
        assert (tmp_path / folder / "fig13.md").exists()


def test_an_unknown_figure_is_told() -> None:
    done = monkeytree("reproduce", "7")
    assert done.returncode == 2
    assert "is none of 6, 8, 9" in done.stderr
