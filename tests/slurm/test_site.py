"""Site files: read whole, refused whole, each offence by its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from monkeytree.slurm.errors import InvalidSite
from monkeytree.slurm.layouts import LayoutError, layout_of_comment, layout_of_words
from monkeytree.slurm.site import Layout, Site
from monkeytree.slurm.site_reading import read_site, read_site_file

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "slurm-site.yaml"


def test_the_example_is_a_site() -> None:
    site: Site = read_site_file(EXAMPLE)
    assert site.cluster == "prod-east"
    assert site.racks.of("rack07") == (0, 1, 2, 4, 5, 6, 7)
    assert site.topology.levels == ("level1", "level0")
    assert site.pods is not None
    assert site.jobs.rules[0].layout == Layout(tp=8, pp=4, state_gb=40.0, traffic_gb=6.5, iteration_s=2.1)
    assert site.jobs.rules[1].ignore


def test_the_example_names_every_member() -> None:
    """A member that the example does not show is one that nobody finds."""
    from dataclasses import fields

    text = EXAMPLE.read_text("utf-8")
    site = read_site_file(EXAMPLE)
    for section in (site, site.topology, site.nodes, site.jobs, site.slurm, site.watch):
        for member in fields(section):
            assert f"{member.name}:" in text, f"{type(section).__name__}.{member.name}"


def test_no_file_is_a_site_too() -> None:
    assert read_site({}) == Site()
    assert Site().racks.of("any") == 8


def test_files_are_relative_to_the_site_file(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("topology: {file: topology.conf}\n")
    assert read_site_file(tmp_path / "site.yaml").topology.file == str(tmp_path / "topology.conf")
    (tmp_path / "site.yaml").write_text("topology: {file: /etc/slurm/topology.conf}\n")
    assert read_site_file(tmp_path / "site.yaml").topology.file == "/etc/slurm/topology.conf"


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        ([], ["/"]),
        ({"speed": 1}, ["/speed"]),
        ({"cluster": ""}, ["/cluster"]),
        ({"racks": {}}, ["/racks"]),
        ({"racks": {"uplinks": -1}}, ["/racks/uplinks"]),
        ({"racks": {"uplinks": [1, 1]}}, ["/racks/uplinks"]),
        ({"racks": {"uplinks": 8, "exceptions": {"r1": "two"}}}, ["/racks/exceptions/r1"]),
        ({"racks": {"uplinks": 8, "exceptions": [1]}}, ["/racks/exceptions"]),
        ({"pods": {"uplinks": [0, 1]}}, ["/pods/uplinks"]),
        ({"fabric": {"nic_gbps": 0, "routing": "magic"}}, ["/fabric/nic_gbps", "/fabric/routing"]),
        ({"fabric": 7, "labels": [1]}, ["/fabric", "/labels"]),
        ({"topology": {"kind": "token-ring", "levels": "level0"}}, ["/topology/kind", "/topology/levels"]),
        (
            {"nodes": {"slots": 8, "ignore": "login[", "classes": ["color"]}},
            ["/nodes/slots", "/nodes/ignore", "/nodes/classes"],
        ),
        ({"jobs": {"profile": "warp"}}, ["/jobs/profile"]),
        ({"jobs": {"layout": {"tp": 0}}}, ["/jobs/layout"]),
        ({"jobs": {"layout": {"speed": 0}}}, ["/jobs/layout"]),
        ({"jobs": {"layout": {"groups": [[0, 1], [1]]}}}, ["/jobs/layout"]),
        ({"jobs": {"rules": {}}}, ["/jobs/rules"]),
        ({"jobs": {"rules": [{"match": {"colour": "red"}}]}}, ["/jobs/rules/0/match/colour"]),
        ({"jobs": {"rules": [{}, {"layout": 7}]}}, ["/jobs/rules/1/layout"]),
        ({"jobs": {"environment": {"qp": "X"}}}, ["/jobs/environment/qp"]),
        ({"watch": {"floor_s": 60}}, ["/watch"]),
        ({"watch": {"interval_s": "soon"}}, ["/watch/interval_s"]),
        ({"slurm": {"timeout_s": 0}}, ["/slurm/timeout_s"]),
        ({"planning": {"max_moves": 1.5, "solver": 3}}, ["/planning/max_moves", "/planning/solver"]),
        ({"pending": "yes"}, ["/pending"]),
    ],
)
def test_every_offence_has_its_path(document: Any, paths: list[str]) -> None:
    with pytest.raises(InvalidSite) as caught:
        read_site(document)
    assert [one.pointer for one in caught.value.offences] == paths


def test_what_is_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("racks: [")
    with pytest.raises(InvalidSite, match=r"site\.yaml: is no YAML"):
        read_site_file(tmp_path / "site.yaml")
    (tmp_path / "site.yaml").write_text("")
    assert read_site_file(tmp_path / "site.yaml") == Site()


def test_the_example_is_plain_yaml() -> None:
    assert set(yaml.safe_load(EXAMPLE.read_text("utf-8"))) >= {"racks", "nodes", "jobs", "topology"}


def test_layouts_of_words() -> None:
    assert layout_of_comment("x") == Layout()
    assert layout_of_comment("a;monkeytree:tp=8,iteration_s=1.5,kind=tree;b") == Layout(
        tp=8, iteration_s=1.5, kind="tree"
    )
    assert layout_of_words({"mobility": "none", "traffic_gb": "26"}) == Layout(
        mobility="none", traffic_gb=26.0
    )
    with pytest.raises(LayoutError, match="traffic_gb"):
        layout_of_words({"traffic_gb": "-1"})
    assert Layout(tp=4).over(Layout(tp=8, pp=2)) == Layout(tp=4, pp=2)
