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
    ],
)
def test_wrong_use_is_told(arguments: list[str], words: str) -> None:
    done = monkeytree("simulate", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


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


def test_an_unknown_figure_is_told() -> None:
    done = monkeytree("reproduce", "7")
    assert done.returncode == 2
    assert "is none of 6, 8, 9" in done.stderr
