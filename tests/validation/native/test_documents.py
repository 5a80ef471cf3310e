"""Scenario documents: what is refused, and that everything wrong is said at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from monkeytree.validation.errors import InvalidScenario
from monkeytree.validation.profiles import PARAMETERS, PROFILES, parameter_table, profile_table, resolve
from monkeytree.validation.runner import run_scenario
from monkeytree.validation.scenario_document import read_scenario

from .fabrics import flow, star

GOOD = star(2, [flow("a", 0, 1, 1000)])


def _changed(**members: Any) -> dict[str, Any]:
    return {**GOOD, **members}


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ([], ""),
        (_changed(format=2), "/format"),
        (_changed(hosts=0), "/hosts"),
        (_changed(hosts="2"), "/hosts"),
        (_changed(switches=[1]), "/switches/0"),
        (_changed(switches=None), "/switches"),
        (_changed(links=[[0, 2, 100]]), "/links/0"),
        (_changed(links=[[0, 9, 100, 10]]), "/links/0/1"),
        (_changed(links=[[0, 2, 0, 10]]), "/links/0/2"),
        (_changed(links=[[0, 2, float("nan"), 10]]), "/links/0/2"),
        (_changed(links=[[0, 2, 100, -1]]), "/links/0/3"),
        (_changed(links=[[2, 2, 100, 1]]), "/links/0"),
        (_changed(flows=[flow("a", 0, 0, 1)]), "/flows/0/dst"),
        (_changed(flows=[flow("a", 0, 5, 1)]), "/flows/0/dst"),
        (_changed(flows=[flow("a", 0, 1, 0)]), "/flows/0/bytes"),
        (_changed(flows=[flow("a", 0, 1, 1), flow("a", 1, 0, 1)]), "/flows/1/id"),
        (_changed(flows=[flow("a", 0, 1, 1, start_ns=-1)]), "/flows/0/start_ns"),
        (_changed(flows=[flow("a", 0, 1, 1, path=[0, 1])]), "/flows/0/path/1"),
        (_changed(flows=[flow("a", 0, 1, 1, path=[0, 2])]), "/flows/0/path"),
        (_changed(flows=[flow("a", 0, 1, 1, ack_path=[0, 2, 1])]), "/flows/0/ack_path"),
        (_changed(flows=[flow("a", 0, 1, 1, after=["a"])]), "/flows/0/after"),
        (_changed(flows=[flow("a", 0, 1, 1, priority=0)]), "/flows/0/priority"),
        (_changed(flows=[flow("a", 0, 1, 1, colour=3)]), "/flows/0/colour"),
        (_changed(params={"profile": "swift"}), "/params/profile"),
        (_changed(params={"speed": 1}), "/params/speed"),
        (_changed(params={"pmax": 2}), "/params/pmax"),
        (_changed(params={"payload_bytes": True}), "/params/payload_bytes"),
        (_changed(params={"kmin_bytes": 2e6}), "/params/kmin_bytes"),
        (_changed(more=1), "/more"),
    ],
)
def test_what_is_refused(document: Any, pointer: str) -> None:
    with pytest.raises(InvalidScenario) as refusal:
        run_scenario(document, timeout_s=1)
    assert [offence.pointer for offence in refusal.value.offences] == [pointer]


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidScenario) as refusal:
        read_scenario(_changed(links=[7, [0, 9, -1, 0]], params={"g": -1, "pmax": 2}, size=3))
    pointers = [offence.pointer for offence in refusal.value.offences]
    assert sorted(pointers) == ["/links/0", "/links/1/1", "/links/1/2", "/params/g", "/params/pmax", "/size"]


def test_the_profiles_of_the_reference_are_there() -> None:
    names = [
        "hpcc",
        "paper",
        "paper_f5",
        "hpcc_win",
        "paper_lowk",
        "small",
        "paper_small",
        "pfconly",
        "pfconly_small",
        "hpcc_p1000",
    ]
    wanted = {name + suffix for name in names for suffix in ("", "_clamp", "_mtu4000", "_clamp_mtu4000")}
    assert wanted | {"dcqcn", "pfc_only"} == set(PROFILES)
    known = {parameter.name for parameter in PARAMETERS}
    assert all(set(values) <= known for values in PROFILES.values())


def test_members_override_the_profile() -> None:
    values = resolve({"profile": "paper_f5_clamp_mtu4000", "g": 0.5, "pfc": False})
    assert (values["clamp"], values["payload_bytes"], values["stages"]) == (1, 4003, 5)
    assert (values["g"], values["pfc"]) == (0.5, 0)


def test_the_page_lists_every_parameter_and_profile() -> None:
    page = (Path(__file__).parents[3] / "docs" / "validation.md").read_text("utf-8")
    assert parameter_table() in page
    assert profile_table() in page
