"""Plans to documents and back."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from monkeytree.errors import InvalidPlan
from monkeytree.wire.plan import PlanSchema, dump_plan, dump_plan_in_work, load_plan, parse_plan
from tests.wire.samples import sample_plan


@pytest.mark.parametrize("rails", [1, 3])
def test_a_plan_reads_back_from_its_document(rails: int, tmp_path: Path) -> None:
    plan = sample_plan(rails)
    document = dump_plan(plan)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    assert load_plan(document) == load_plan(path) == load_plan(io.StringIO(json.dumps(document))) == plan
    assert dump_plan(load_plan(path)) == document


def test_the_document_is_the_contracts() -> None:
    document = dump_plan(sample_plan())
    assert document["moves"] == [
        {
            "job": "C", "group": "0", "rank": 3, "from": "r3n1", "to": "r4n5", "wave": 0, "staged": True,
            "because": ["r3", "move:0"],
        }
    ]  # fmt: skip
    assert document["racks"] == {"r1": {"bound": 2, "before": 3, "after": 2}}
    assert document["pods"] == {"p1": {"bound": 8, "before": 1, "after": 1}}
    assert [flow.get("pod_uplink", "none") for flow in document["flows"]] == ["none", None, 4]
    assert document["shared_uplinks"] == [
        {"rack": "r1", "rail": 0, "uplink": 1, "direction": "up", "flows": [0, 2]},
        {"pod": "p1", "uplink": 3, "direction": "down", "flows": [1]},
    ]
    assert document["objective"] == {
        "name": "gpu_seconds", "value": 1.5, "ties_proved": True, "lower_bound": 1.25
    }  # fmt: skip
    assert dump_plan(sample_plan(2))["racks"] == {"r1": {"bound": [2, 2], "before": [3, 3], "after": [2, 2]}}


def test_readers_pass_over_what_they_do_not_know() -> None:
    document = {**dump_plan(sample_plan()), "colour": "red"}
    document["moves"][0]["speed"] = 1
    for member in ("transients", "shared_uplinks", "unguaranteed", "certificate", "failure"):
        del document[member]
    del document["moves"][0]["because"]
    plan = load_plan(document)
    assert plan.moves[0].because == ()
    assert plan.transients == ()


@pytest.mark.parametrize("state", ["queued", "solving", "failed", "cancelled", "superseded"])
def test_only_a_ready_plan_is_read(state: Any) -> None:
    document = dump_plan_in_work("p", "s", "c", "2026-11-29T18:00:00Z", state)
    with pytest.raises(InvalidPlan) as caught:
        load_plan(document)
    assert [(offence.pointer, offence.value) for offence in caught.value.offences] == [("/state", state)]


def test_every_state_has_the_same_members() -> None:
    failed = dump_plan_in_work(
        "p", "s", "c", "2026-11-29T18:00:00Z", "failed", {"code": "solver_failed", "message": "m"}
    )
    assert failed.keys() == dump_plan(sample_plan()).keys()
    assert failed["failure"] == {"code": "solver_failed", "message": "m"}
    assert PlanSchema().dump(failed) == failed
    assert PlanSchema().dump(sample_plan()) == dump_plan(sample_plan())


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("format", 2, ["/format"]),
        ("id", None, ["/id"]),
        ("state", "done", ["/state"]),
        ("status", None, ["/status"]),
        ("status", "perfect", ["/status"]),
        ("moves_needed", -1, ["/moves_needed"]),
        ("excess_proved", 1, ["/excess_proved"]),
        ("limited_by", "money", ["/limited_by"]),
        ("pause_s", float("nan"), ["/pause_s"]),
        ("solver", {}, ["/solver/name", "/solver/seconds", "/solver/version"]),
        ("objective", {"name": "moves", "value": "1", "ties_proved": True}, ["/objective/value"]),
        ("undrained", [{"job": "A", "group": "0", "rank": 0}], ["/undrained/0/node"]),
        ("racks", {"a/b": {"bound": 1, "before": [1, 2], "after": 1}}, ["/racks/a~1b"]),
        ("racks", {"r": {"bound": 1, "before": [], "after": 1}}, ["/racks/r/before"]),
        ("racks", [], ["/racks"]),
        ("pods", {"p": {"bound": [1], "before": 1, "after": 1}}, ["/pods/p/bound"]),
        ("moves", [{"job": "A"}, 3],
         [f"/moves/{m}" for m in ("0/from", "0/group", "0/rank", "0/to", "0/wave", "1")]),
        ("rings", [{"job": "A", "group": "0", "order": [0, "1"], "changed": False}], ["/rings/0/order/1"]),
        ("flows", None, ["/flows"]),
        ("flows", [{}], [f"/flows/0/{m}" for m in (
            "from_rack", "from_rank", "group", "job", "rail", "ring", "to_rack", "to_rank", "uplink")]),
        ("shared_uplinks", [{"uplink": 0, "direction": "up", "flows": []}], ["/shared_uplinks/0"]),
        ("certificate", "proof", ["/certificate"]),
        ("failure", {"code": "x"}, ["/failure/message"]),
    ],
)  # fmt: skip
def test_the_place_of_an_offence(member: str, value: Any, expected: list[str]) -> None:
    with pytest.raises(InvalidPlan) as caught:
        load_plan({**dump_plan(sample_plan()), member: value})
    assert [offence.pointer for offence in caught.value.offences] == expected


def test_text_is_read_strictly() -> None:
    text = json.dumps(dump_plan(sample_plan()))
    for old, new, pointer in [
        ('"excess": 2', '"excess": 2, "excess": 2', "/excess"),
        ('"kind": "dual"', '"kind": NaN', "/certificate/kind"),
        ('"pause_s": 9.26', '"pause_s": Infinity', "/pause_s"),
        (text, "{", ""),
        (text, "[]", ""),
    ]:
        with pytest.raises(InvalidPlan) as caught:
            parse_plan(text.replace(old, new))
        assert [offence.pointer for offence in caught.value.offences] == [pointer]
