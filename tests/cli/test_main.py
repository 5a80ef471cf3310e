"""The group of commands, and how errors end."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import monkeytree as library
from monkeytree.cli.errors import Exit, report
from monkeytree.errors import SolverFailed, UnknownSolver

from .running import SEED_C, monkeytree
from .serving import ROOT, environment


def test_help_names_every_command() -> None:
    done = monkeytree("--help")
    assert done.returncode == 0
    for command in ("plan", "check", "serve", "demo", "token"):
        assert f"  {command} " in done.stdout


def test_version() -> None:
    assert monkeytree("--version").stdout.strip().endswith(library.__version__)


@pytest.mark.parametrize("arguments", [["fly"], ["--bogus"], ["token", "lend"]])
def test_unknown_commands_are_usage_errors(arguments: list[str]) -> None:
    done = monkeytree(*arguments)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_bug_ends_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(KeyError("rack-7")) == Exit.INTERNAL
    said = capsys.readouterr().err
    assert "KeyError: 'rack-7'" in said
    assert "MONKEYTREE_DEBUG=1" in said
    assert "Traceback" not in said


def test_a_bug_shows_its_traceback_when_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONKEYTREE_DEBUG", "1")
    with pytest.raises(KeyError) as caught:
        raise KeyError("rack-7")
    assert report(caught.value) == Exit.INTERNAL
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["fly"], ["plan", "nowhere.json"], ["check", "/dev/null", "/dev/null"]]
)
def test_the_code_is_the_same_where_words_cannot_be_written(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "monkeytree.cli", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stderr=full, stdout=subprocess.DEVNULL, cwd=tmp_path, timeout=120)
    assert done.returncode == monkeytree(*arguments).returncode == 2


def test_ours_or_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(SolverFailed("cbc: segmentation fault")) == Exit.INTERNAL
    assert report(UnknownSolver("no solver 'x'")) == Exit.BAD_INPUT
    assert capsys.readouterr().err.splitlines() == [
        "Error (solver_failed): cbc: segmentation fault",
        "Error (unknown_solver): no solver 'x'",
    ]


def test_tokens_from_birth_to_death(tmp_path: Path) -> None:
    data = ("--data", tmp_path)
    made = monkeytree("token", "add", "night-shift", "--role", "scheduler", "--cluster", "east", *data)
    assert made.returncode == 0
    token = made.stdout.strip()
    assert token.startswith("mt_")

    (line,) = monkeytree("token", "list", *data).stdout.splitlines()
    assert line.startswith(token[:8])
    assert "night-shift  scheduler  east" in line
    assert token not in line

    again = monkeytree("token", "add", "night-shift", "--role", "researcher", *data)
    assert (again.returncode, again.stdout) == (2, "")
    assert "token_name_taken" in again.stderr

    assert monkeytree("token", "revoke", "night-shift", *data).stdout == "revoked night-shift\n"
    assert monkeytree("token", "list", *data).stdout == ""
    assert monkeytree("token", "revoke", "night-shift", *data).returncode == 2


def test_a_token_needs_a_known_role(tmp_path: Path) -> None:
    assert monkeytree("token", "add", "x", "--data", tmp_path).returncode == 2
    assert monkeytree("token", "add", "x", "--role", "king", "--data", tmp_path).returncode == 2


def test_a_store_that_cannot_be_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = monkeytree("token", "list", "--data", tmp_path / "file" / "deeper")
    assert done.returncode == 2
    assert str(tmp_path) in done.stderr
    wrong = monkeytree("token", "list", DATABASE_URL="mysql://x")
    assert wrong.returncode == 2
    assert "mysql://x" in wrong.stderr


def test_an_unbound_token_is_never_made_by_accident(tmp_path: Path) -> None:
    done = monkeytree("token", "add", "x", "--role", "agent", "--cluster", "", "--data", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "invalid_token_name" in done.stderr
    assert monkeytree("token", "list", "--data", tmp_path).stdout == ""


SHELL = f"{shlex.quote(sys.executable)} -m monkeytree.cli"


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (f"{SHELL} plan - <&-", 2, "standard input is closed"),
        (f"{SHELL} check - {SEED_C} <&-", 2, "standard input is closed"),
        (f"{SHELL} plan {SEED_C} >&-", 2, "standard output is closed"),
        (f"{SHELL} plan - --previous - </dev/null", 2, "only one of SNAPSHOT and --previous"),
    ],
)
def test_closed_streams_are_told_in_words(line: str, code: int, says: str) -> None:
    done = shell(line)
    assert (done.returncode, "Internal error" in done.stderr) == (code, False)
    assert says in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full, on Linux")
@pytest.mark.parametrize("arguments", [f"plan {SEED_C}", f"plan {SEED_C} --format json", "--help"])
def test_a_full_disk_is_no_bug(arguments: str) -> None:
    done = shell(f"{SHELL} {arguments} >/dev/full")
    assert done.returncode == 2
    assert "cannot use standard input or output: No space left on device" in done.stderr


def test_a_reader_that_left_hears_nothing(tmp_path: Path) -> None:
    monkeytree("token", "add", "x", "--role", "agent", "--data", tmp_path)
    done = shell(f"({SHELL} token list --data {tmp_path}; echo $? >{tmp_path}/code) | true")
    assert done.stderr == ""
    assert (tmp_path / "code").read_text() in ("0\n", "141\n")  # whoever is first


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line, shell=True, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "words",
    [
        "--version",
        "--help",
        f"check {SEED_C} PLAN",
        f"plan {SEED_C}",
        f"plan {SEED_C} --format json",
        "reproduce 13 --redraw --into TMP",
        "simulate --gpus 256 --jobs 5",
        "token list --data TMP",
    ],
)
def test_a_reader_that_has_left_ends_every_command_alike(tmp_path: Path, words: str) -> None:
    pytest.importorskip("matplotlib")
    plan = tmp_path / "plan.json"
    monkeytree("plan", SEED_C, "--format", "json", "--output", plan)
    monkeytree("token", "add", "x", "--role", "agent", "--data", tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    command = words.replace("PLAN", str(plan)).replace("TMP", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "monkeytree.cli", *shlex.split(command)], cwd=ROOT, env=environment(),
        stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.returncode in (141, -signal.SIGPIPE), done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_driver_that_is_missing_is_named_with_its_extra(tmp_path: Path) -> None:
    (tmp_path / "psycopg.py").write_text("raise ImportError('not here')\n")
    done = monkeytree("token", "list", PYTHONPATH=str(tmp_path), DATABASE_URL="postgresql://h/d")
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'monkeytree[postgresql]'" in done.stderr
