"""What a command is to write, looked at before its work."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from monkeytree.cli.outputs import OutputFile


@click.command()
@click.option("--output", type=OutputFile())
def write(output: str) -> None:
    Path(output).write_text("x")


def test_a_file_that_is_there_needs_no_folder_to_make_it_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with /dev/null, where only root may make files."""
    (tmp_path / "there").touch()
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(tmp_path) and real(path, mode))
    done = CliRunner().invoke(write, ["--output", str(tmp_path / "there")])
    assert (done.exit_code, (tmp_path / "there").read_text()) == (0, "x"), done.output
    refused = CliRunner().invoke(write, ["--output", str(tmp_path / "new")])
    assert refused.exit_code == 2
    assert "no file can be made in" in refused.output
