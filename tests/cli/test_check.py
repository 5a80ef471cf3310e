"""``monkeytree check``: exit codes and outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .running import SEED_C, monkeytree, write


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(monkeytree("plan", SEED_C, "--format", "json").stdout)
    return document


def test_a_plan_that_holds(plan: dict[str, Any], tmp_path: Path) -> None:
    done = monkeytree("check", SEED_C, write(tmp_path / "plan.json", plan))
    assert (done.returncode, done.stdout) == (0, "the plan holds\n")


def test_a_plan_from_standard_input_as_json(plan: dict[str, Any]) -> None:
    done = monkeytree("check", SEED_C, "-", "--format", "json", stdin=json.dumps(plan))
    assert (done.returncode, json.loads(done.stdout)) == (0, {"holds": True, "faults": []})


def test_faults_are_listed(plan: dict[str, Any], tmp_path: Path) -> None:
    broken = {**plan, "moves_needed": 7, "excess": 9}
    done = monkeytree("check", SEED_C, write(tmp_path / "plan.json", broken))
    assert done.returncode == 5
    assert "[wrong_moves_needed]" in done.stdout
    assert "[wrong_excess]" in done.stdout


def test_a_plan_of_another_shape_has_faults(tmp_path: Path) -> None:
    done = monkeytree("check", SEED_C, write(tmp_path / "plan.json", [1, 2]), "--format", "json")
    assert done.returncode == 5
    assert json.loads(done.stdout)["faults"][0]["code"] == "malformed"


@pytest.mark.parametrize("text", ["", "{", '{"a": 1, "a": 2}'])
def test_a_plan_that_is_no_json_is_bad_input(text: str) -> None:
    done = monkeytree("check", SEED_C, "-", stdin=text)
    assert (done.returncode, done.stdout) == (2, "")
    assert "invalid_plan" in done.stderr


def test_a_bad_snapshot_is_bad_input(tmp_path: Path) -> None:
    done = monkeytree("check", write(tmp_path / "snapshot.json", {}), SEED_C)
    assert (done.returncode, done.stdout) == (2, "")


def test_only_one_of_them_is_standard_input() -> None:
    assert monkeytree("check", "-", "-", stdin="{}").returncode == 2
