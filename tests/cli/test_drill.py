"""``monkeytree drill``: a training job whose rank moves is, to the last bit, the job whose rank does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from monkeytree.cli.drill import drill
from monkeytree.cli.drilling import launcher
from monkeytree.cli.drilling.outcome import differences, read_outcome
from monkeytree.cli.drilling.report import print_matrix, unfinished
from monkeytree.cli.drilling.scene import plan_scene
from monkeytree.cli.drilling.watch import ACTORS, STATES, Kill, matrix

from .running import monkeytree
from .serving import ROOT, environment

PATIENCE_S = 600.0  # a wait, not an expectation: a drill takes some 15 s on an idle machine
needs_torch = pytest.mark.skipif(
    find_spec("torch") is None and os.environ.get("MONKEYTREE_REQUIRE_TORCH") != "1",
    reason="PyTorch is not here; MONKEYTREE_REQUIRE_TORCH=1 makes this a failure",
)
ORDER = ["PREPARING", "PREPARED", "ARMED", "PAUSED", "SENDING", "VERIFIED", "DECIDED", "REFORMED", "RELEASED"]


def drilled(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """The report of a drill that must be identical."""
    command = [
        sys.executable,
        "-m",
        "monkeytree.cli",
        "drill",
        "--state-gb",
        "0.001",
        "--json",
        "-",
        *arguments,
    ]
    done = subprocess.run(
        [*command, "--keep", str(tmp_path / "d")], cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["identical"]
    assert report["losses_equal"]
    assert report["digest_equal"]
    assert f"training {report['steps']} steps unmigrated\n" in done.stderr  # and no others
    return report


@needs_torch
def test_a_warm_move_changes_no_bit(tmp_path: Path) -> None:
    report = drilled(tmp_path)
    assert (report["moved"], report["decision"], report["killed"]) == (True, "commit", None)
    assert report["errors"] == []
    assert 0 < report["wire_s"] < report["pause_s"]
    assert report["beyond_wire_s"] == pytest.approx(report["pause_s"] - report["wire_s"])
    assert report["state_gb"] == pytest.approx(0.001, rel=0.5)
    for side in ("source", "destination"):
        passed = [phase["name"] for phase in report["phases"] if phase["side"] == side]
        assert [name for name in ORDER if name in passed] == passed
        assert {"PREPARED", "PAUSED", "SENDING", "VERIFIED", "RELEASED"} <= set(passed)


@needs_torch
def test_a_destination_that_dies_after_the_commit_changes_no_bit_either(tmp_path: Path) -> None:
    report = drilled(tmp_path, "--kill", "destination@REFORMED")
    assert report["killed"]["who"] == "destination"
    assert report["killed"]["state"] == "REFORMED"
    # Killed in its first iteration the move is taken back; a late shot finds it finished and kept.
    assert report["decision"] in ("undo", "commit")
    assert report["moved"] == (report["decision"] == "commit")


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "find_spec", lambda name: None)
    done = CliRunner().invoke(drill, [])
    assert done.exit_code == 2
    assert "pip install 'monkeytree[torch]'" in done.output


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is asked for first")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kill", "everyone@SENDING"], "'everyone@SENDING' is not WHO@STATE"),
        (["--kill", "controller"], "'controller' is not WHO@STATE"),
        (["--matrix", "--cold"], "give it alone"),
        (["--ranks", "1"], "1 is not in the range"),
    ],
)
def test_bad_options_are_named(arguments: list[str], said: str) -> None:
    done = monkeytree("drill", *arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_a_drill_that_does_not_finish_is_a_line_of_the_matrix() -> None:
    console = Console(record=True, width=120)
    print_matrix(console, [unfinished("controller@ARMED", True, "the job did not go on")])
    said = console.export_text()
    assert "controller@ARMED" in said
    assert "not_finished" in said
    assert "0 of 1 drills are identical" in said


def test_the_matrix_has_every_actor_and_every_state() -> None:
    kills = matrix()
    assert len(set(kills)) == len(kills)
    assert {kill.who for kill in kills} == set(ACTORS)
    assert {kill.state for kill in kills} == set(STATES)
    assert all(Kill.read(str(kill)) == kill for kill in kills)
    assert Kill("destination", "NEW") not in kills  # it is not born yet


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_the_plan_of_a_drill_is_one_move_of_rank_0(ranks: int) -> None:
    scene = plan_scene(ranks)
    assert (scene.move.rank, scene.move.source, scene.move.target) == (0, "a0", "b1")
    assert scene.seats == ("a0", *["b0"] * (ranks - 1))


def log(folder: Path, name: str, *lines: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def step(rank: int, number: int, loss: str = "0x1p0") -> dict[str, Any]:
    return {"rank": rank, "step": number, "loss": loss, "own": "0x1p1", "boundary_s": 0.0, "train_s": 0.1}


def test_every_way_to_differ_is_found(tmp_path: Path) -> None:
    final = {"rank": 0, "final": 2, "digest": "aa"}
    log(tmp_path / "right", "rank-0-1.jsonl", step(0, 1), step(0, 2), final)
    right = read_outcome(tmp_path / "right")
    assert differences(right, right, 1) == []

    def told(**files: list[dict[str, Any]]) -> str:
        folder = tmp_path / "wrong"
        for old in folder.glob("*") if folder.exists() else ():
            old.unlink()
        for name, lines in files.items():
            log(folder, f"rank-0-{name}.jsonl", *lines)
        return "; ".join(differences(read_outcome(folder), right, 1))

    assert told(a=[step(0, 1)], b=[step(0, 2), final]) == ""  # moved between two processes
    assert "step 2: losses" in told(a=[step(0, 1), step(0, 2, "0x1.8p0"), final])
    assert "step 1: losses None" in told(a=[step(0, 2), final])
    assert "step 1: finished twice" in told(a=[step(0, 1)], b=[step(0, 1), step(0, 2), final])
    assert "ended with (2, 'ab')" in told(a=[step(0, 1), step(0, 2), {**final, "digest": "ab"}])
    assert "ended with None" in told(a=[step(0, 1), step(0, 2)])
