"""The schemas describe themselves to apispec, with the limits that are enforced."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin

from monkeytree import limits
from monkeytree.wire.openapi import describe
from monkeytree.wire.plan import PlanSchema, dump_plan
from monkeytree.wire.snapshot import SnapshotSchema
from tests.wire.samples import sample_plan


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    plugin = MarshmallowPlugin()
    spec = APISpec("t", "1", "3.1.0", plugins=[plugin])
    assert plugin.converter is not None
    plugin.converter.add_attribute_function(describe)  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec.components.schema("Snapshot", schema=SnapshotSchema)
        spec.components.schema("Plan", schema=PlanSchema)
    described: dict[str, Any] = spec.to_dict()["components"]["schemas"]
    return described


def test_parts_have_names_of_their_own(schemas: dict[str, Any]) -> None:
    assert {
        "Snapshot", "Fabric", "Rack", "Node", "Pod", "Job", "ReplicaGroup", "Planning", "Plan", "Move",
        "Ring", "Flow", "Load", "PodLoad", "Failure", "Objective", "SolverReport",
        "SharedUplink", "Undrained",
    } <= schemas.keys()  # fmt: skip


def test_snapshots_are_closed_and_plans_open(schemas: dict[str, Any]) -> None:
    for name in ("Snapshot", "Fabric", "Rack", "Node", "Pod", "Job", "ReplicaGroup", "Planning"):
        assert schemas[name]["additionalProperties"] is False
    assert "additionalProperties" not in schemas["Plan"]
    assert "additionalProperties" not in schemas["Move"]


def test_limits_and_defaults_are_those_enforced(schemas: dict[str, Any]) -> None:
    group = schemas["ReplicaGroup"]["properties"]
    assert (group["rings"]["maximum"], group["rings"]["default"]) == (limits.RINGS.high, 1)
    assert group["state_gb"]["default"] == 12.0
    assert schemas["Planning"]["properties"]["time_limit_s"]["exclusiveMinimum"] == 0
    assert schemas["Planning"]["properties"]["max_moves"]["type"] == ["integer", "null"]
    rack = schemas["Rack"]["properties"]
    assert rack["uplinks"]["anyOf"][0]["maximum"] == limits.UPLINKS.high
    assert rack["nodes"]["additionalProperties"]["anyOf"][1] == {"$ref": "#/components/schemas/Node"}
    assert rack["nodes"]["propertyNames"]["maxLength"] == limits.MAX_NAME


def test_a_plan_always_has_all_members(schemas: dict[str, Any]) -> None:
    assert set(schemas["Plan"]["required"]) == dump_plan(sample_plan()).keys()
    assert None in schemas["Plan"]["properties"]["status"]["enum"]
