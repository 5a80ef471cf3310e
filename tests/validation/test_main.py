"""The command line of the replay: usage, bad input, exit codes. Most of it needs no simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monkeytree.validation.options import knobs, params, parse
from tests.cli.running import SEED_C, monkeytree, write


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either a SNAPSHOT"),
        (["a", "--scenario", "b"], "give either a SNAPSHOT"),
        (["--scenario", "b", "--junit", "c"], "--junit and --plot need a SNAPSHOT"),
        (["-", "-"], "only one of SNAPSHOT and PLAN can be -"),
        (["a", "--json", "-", "--plot", "-"], "only one of --json, --junit and --plot can be -"),
        (["a", "--ecmp-share", "1.5"], "'1.5' is no share from 0 to 1"),
        (["a", "--flow-mb", "nan"], "'nan' is no number"),
        (["a", "--scale", "0"], "'0' is not above 0"),
        (["a", "--fail-link", "r1"], "'r1' is no RACK:SPINE, such as r1:0"),
        (["a", "--seed", "-1"], "'-1' is no integer"),
        (["a", "--set", "seed=3"], "seed have their options"),
        (["a", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["a", "--plot", "v.png"], "--plot writes SVG: name a file that ends in .svg, not 'v.png'"),
        (["a", "--plot", "no/such/v.svg"], "--plot cannot be written to 'no/such/v.svg'"),
        (["a", "--json", "/"], "--json cannot be written to '/'"),
        (["--scenario", "a", "--json", "no/such.json"], "--json cannot be written to 'no/such.json'"),
    ],
)
def test_usage_errors_name_what_is_wrong(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_options_become_knobs_and_params() -> None:
    options = parse(
        ["s", "p", "--flow-mb", "1.5", "--fail-link", "a:b:2", "--set", "kmin_bytes=5", "--set", "x=y",
         "--profile", "paper", "--seed", "7"]
    )  # fmt: skip
    assert (knobs(options).flow_bytes, knobs(options).dead, knobs(options).seed) == (
        1_500_000,
        (("a:b", 2),),
        7,
    )
    assert params(options) == {"profile": "paper", "seed": 7, "kmin_bytes": 5, "x": "y"}


def test_help_lists_the_options() -> None:
    done = monkeytree("validate", "--help")
    assert done.returncode == 0
    assert "--ecmp-share" in done.stdout
    assert "SNAPSHOT" in done.stdout


def test_bad_input_is_told_apart_from_failures(tmp_path: Path) -> None:
    done = monkeytree("validate", tmp_path / "none.json")
    assert done.returncode == 2
    assert "none.json: No such file" in done.stderr
    done = monkeytree("validate", write(tmp_path / "bad.json", {"format": 1}))
    assert done.returncode == 2
    assert "/racks" in done.stderr
    done = monkeytree("validate", SEED_C, "-", stdin="{}")
    assert done.returncode == 2
    assert "Error (invalid_plan)" in done.stderr
    done = monkeytree("validate", SEED_C, "--fail-link", "R9:0")
    assert done.returncode == 2
    assert "the snapshot has 1 offence:\n" in done.stderr
    assert "has no live uplink R9:0 to fail" in done.stderr
    assert done.stdout == ""


def test_a_scenario_that_is_no_json_is_bad_input() -> None:
    done = monkeytree("validate", "--scenario", "-", stdin="{")
    assert done.returncode == 2
    assert json.dumps("") not in done.stdout
