"""The CI workflow of docs/validation-ci.md does what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import EXAMPLES, SEED_C, write
from tests.integration.test_validations import needs_ns3

ROOT = Path(__file__).parent.parent.parent


def steps() -> list[dict[str, Any]]:
    """The steps of the workflow in the page."""
    page = (ROOT / "docs" / "validation-ci.md").read_text("utf-8")
    found = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert found is not None
    workflow: list[dict[str, Any]] = yaml.safe_load(found[1])["jobs"]["isolation"]["steps"]
    return workflow


def gate(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the gate's script as the runner does, in ``folder``."""
    (script,) = [step["run"] for step in steps() if step.get("id") == "gate"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_version_is_this_one() -> None:
    import monkeytree

    text = "\n".join(step.get("run", "") for step in steps())
    assert f"monkeytree[validation]=={monkeytree.__version__}" in text


@needs_ns3
@pytest.mark.slow
def test_the_gate_passes_what_is_isolated(tmp_path: Path) -> None:
    (tmp_path / "placements").mkdir()
    for example in (SEED_C, EXAMPLES / "hand-05-full-swap.json"):
        shutil.copy(example, tmp_path / "placements")
    done = gate(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    reports = {file.name for file in (tmp_path / "reports").iterdir()}
    assert {"hand-02-seed-C.xml", "hand-05-full-swap.json"} <= reports


def test_the_gate_holds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "placements").mkdir()
    write(tmp_path / "placements" / "bad.json", {"format": 1})
    done = gate(tmp_path)
    assert done.returncode == 1
    assert "::error file=placements/bad.json::exit code 2" in done.stdout
