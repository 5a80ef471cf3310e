"""A snapshot built in Python is checked whole, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from monkeytree.errors import InvalidDocument, InvalidSnapshot
from monkeytree.offence_log import pointer_to, show
from monkeytree.snapshot import Fabric, Job, Node, Planning, Pod, Rack, ReplicaGroup, Snapshot
from monkeytree.wire.reading import parse_json
from monkeytree.wire.snapshot import load_snapshot

GROUP = ReplicaGroup("0", ("n1", "n2"))
GOOD = Snapshot(
    cluster="c",
    taken_at="2026-11-29T18:00:00.25Z",
    racks=(Rack("r1", (0, 1), (Node("n1", 2), Node("n2", 1))), Rack("r2", (0, 3), (Node("n3", 8),))),
    jobs=(Job("A", (GROUP,)),),
)


def group(**changes: Any) -> dict[str, Any]:
    return {"jobs": (Job("A", (replace(GROUP, **changes),)),)}


def nodes(*listed: Node) -> dict[str, Any]:
    return {"racks": (Rack("r1", (0, 1), (*GOOD.racks[0].nodes, *listed)),)}


AT = "/jobs/0/replica_groups/0"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cluster": ""}, ["/cluster"]),
        ({"taken_at": "now"}, ["/taken_at"]),
        ({"sequence": -1}, ["/sequence"]),
        ({"labels": {"k": "x" * 5_000}}, ["/labels/k"]),
        ({"fabric": Fabric(nic_gbps=0)}, ["/fabric/nic_gbps"]),
        ({"fabric": Fabric(uplink_gbps=float("nan"), rails=0)}, ["/fabric/uplink_gbps", "/fabric/rails"]),
        (
            {"planning": Planning(time_limit_s=0, max_moves=-1)},
            ["/planning/time_limit_s", "/planning/max_moves"],
        ),
        ({"planning": Planning(restart_s=-1.0)}, ["/planning/restart_s"]),
        ({"racks": (), "jobs": ()}, ["/racks"]),
        ({"racks": (*GOOD.racks, Rack("r1", (), ()))}, ["/racks/2/id"]),
        ({"racks": (*GOOD.racks, Rack("r3", (1, 1, 0), ()))}, ["/racks/2/uplinks/1", "/racks/2/uplinks/2"]),
        ({"racks": (*GOOD.racks, Rack("r3", (-1,), ()))}, ["/racks/2/uplinks/0"]),
        ({"racks": (*GOOD.racks, Rack("r3", (), (), pod="p"))}, ["/racks/2/pod"]),
        ({"pods": (Pod("p", 1),)}, ["/racks/0/pod", "/racks/1/pod"]),
        ({"pods": (Pod("p", -1),)}, ["/pods/0/uplinks", "/racks/0/pod", "/racks/1/pod"]),
        (nodes(Node("n1", 2)), ["/racks/0/nodes/n1"]),
        (nodes(Node("a/b", 2, held=3)), ["/racks/0/nodes/a~1b/held"]),
        (nodes(Node("x", -1)), ["/racks/0/nodes/x/slots"]),
        (nodes(Node("x", 1, node_class="\t")), ["/racks/0/nodes/x/class"]),
        (group(workers=("n1", "n4")), [f"{AT}/workers/1"]),
        (group(workers=("n2", "n2")), ["/racks/0/nodes/n2/slots"]),
        (group(workers=()), [f"{AT}/workers"]),
        (group(order=(1, 1)), [f"{AT}/order"]),
        (group(pinned=frozenset({2})), [f"{AT}/pinned"]),
        (group(rings=-1, slots_per_worker=0), [f"{AT}/rings", f"{AT}/slots_per_worker"]),
        (group(state_gb=float("nan")), [f"{AT}/state_gb"]),
        (group(kind="star"), [f"{AT}/kind"]),
        ({"jobs": (Job("A", ()), Job("A", (), mobility="x"))}, ["/jobs/1/id", "/jobs/1/mobility"]),  # type: ignore[arg-type]
        ({"jobs": (Job("A", (replace(GROUP, workers=("n1",)),) * 2),)}, ["/jobs/0/replica_groups/1/id"]),
        ({"jobs": (Job("A", (), classes=frozenset({"x" * 200})),)}, ["/jobs/0/classes"]),
    ],
)
def test_construction_refuses(changes: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(InvalidSnapshot) as caught:
        replace(GOOD, **changes)
    assert [offence.pointer for offence in caught.value.offences] == expected


def test_groups_may_ask_for_only_so_many_flows() -> None:
    many = tuple(replace(GROUP, id=str(index), workers=("n3",) * 3_000, rings=4_000) for index in range(1))
    with pytest.raises(InvalidSnapshot, match="workers x rings"):
        replace(GOOD, racks=(Rack("r", (), (Node("n3", 3_000),)),), jobs=(Job("A", many),))


def test_pointers_escape_and_values_stay_small() -> None:
    assert pointer_to(("a/b~c", 3, "\ud800")) == "/a~1b~0c/3/\\ud800"
    assert show(float("-inf")) == "-Infinity"
    assert show(10**5_000) == "an integer of 16,610 bits"
    assert show([1, [2, [3]]]) == [1, [2, "an array of 1 items"]]
    assert show({"a": list(range(99))}) == {"a": "an array of 99 items"}
    assert len(show("x" * 10**6)) < 200
    assert isinstance(show(object()), str)


@pytest.mark.parametrize(
    ("document", "count"),
    [
        ({"jobs": [1] * 5_000 + [{}] * 5_000}, 5_000 + 2 * 5_000 + 4),
        (
            {"jobs": [], "racks": [{"id": "r", "uplinks": 1, "nodes": {str(at): -1 for at in range(5_000)}}]},
            5_003,
        ),
        ({"fabric": {str(at): 1 for at in range(5_000)}}, 5_000 + 5),
        ({str(at): 1 for at in range(5_000)}, 5_000 + 5),
        ({"labels": {str(at): 1 for at in range(5_000)}, "pending": [0] * 20_000}, 5_000 + 1 + 5),
    ],
    ids=["jobs", "nodes", "nested", "top", "too-long"],
)
def test_very_many_offences_are_counted_to_the_last(document: dict[str, Any], count: int) -> None:
    with pytest.raises(InvalidSnapshot) as refused:
        load_snapshot(document)
    *listed, last = refused.value.offences
    assert len(listed) == 1_000
    assert last.message == f"has {count - 1_000:,} more offences than the 1,000 listed"


def test_members_that_stand_twice_are_counted_to_the_last() -> None:
    with pytest.raises(InvalidDocument) as refused:
        parse_json("{" + ",".join(f'"a": {at}' for at in range(5_000)) + "}")
    *listed, last = refused.value.offences
    assert (len(listed), last.message) == (1_000, "has 3,999 more offences than the 1,000 listed")
