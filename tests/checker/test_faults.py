"""Each rule of the contract, broken once: the checker must name it.

A row is the code expected, the plan that holds, and what is done to it: edits of the plan as
(JSON pointer, value). A pointer that ends in "/-" appends to an array, the value DROP removes. A
pointer that starts with "snapshot:" edits the snapshot instead. Where one edit breaks more rules
than one, ``also`` names the others: no other fault may be reported.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest

from monkeytree.checker import CODES, check

from .cases import CASES, Document, flow, load, move, ring

DROP = object()


class Row(NamedTuple):
    code: str
    case: str
    edits: tuple[tuple[str, Any], ...]
    also: frozenset[str]


def row(code: str, case: str, *edits: tuple[str, Any], also: str = "") -> Row:
    return Row(code, case, edits, frozenset(also.split()))


SUMS = "wrong_moves_needed wrong_jobs_paused wrong_pause wrong_objective_value"
"""What a move added to a plan throws out, as the sums are left as they were."""
PINNED = SUMS + " pinned_rank_moved"
R2_UP = "/shared_uplinks/0"
STAYS = {"job": "A", "group": "0", "rank": 1, "node": "n2"}

ROWS = [
    # documents
    row("snapshot_unreadable", "moved", ("snapshot:/racks", DROP)),
    row("snapshot_unreadable", "moved", ("snapshot:/jobs/0/replica_groups/0/workers/0", "nowhere")),
    row("snapshot_unreadable", "moved", ("snapshot:/jobs/1/id", "A")),
    row("snapshot_unreadable", "moved", ("snapshot:/racks/0/uplinks", 10**400)),
    row("malformed", "moved", ("/moves", DROP)),
    row("malformed", "moved", ("/moves/0/staged", 0)),
    row("malformed", "moved", ("/moves/0/rank", True)),
    row("malformed", "moved", ("/pause_s", float("nan"))),
    row("malformed", "moved", ("/moves_needed", 10**5000)),
    row("malformed", "moved", ("/rings/0/order/0", "0")),
    row("malformed", "moved", ("/racks/r1/before", DROP)),
    row("malformed", "moved", ("/failure", {"code": "solver_failed"})),
    row("malformed", "folded", (R2_UP + "/rail", DROP), also="sharing_missing"),
    row("unsupported_format", "moved", ("/format", 2)),
    row("not_ready", "moved", ("/state", "solving")),
    row("wrong_cluster", "moved", ("/cluster", "other")),
    # moves
    row("move_of_unknown_rank", "moved", ("/moves/0/rank", 3)),
    row("move_of_unknown_rank", "moved", ("/moves/0/rank", -1)),
    row("move_of_unknown_rank", "moved", ("/moves/0/job", "Z")),
    row("move_of_unknown_rank", "moved", ("/moves/0/group", "1")),
    row("move_to_unknown_node", "moved", ("/moves/0/to", "n99")),
    row("rank_moved_twice", "moved", ("/moves/-", move("B", 2, "n2", "n3", 1))),
    row("move_from_wrong_node", "moved", ("/moves/0/from", "n4")),
    row("move_nowhere", "moved", ("/moves/-", move("A", 0, "n1", "n1", staged=True)), also=SUMS),
    row("move_to_cordoned_node", "moved", ("/moves/-", move("E", 0, "n5", "n6")), also=PINNED),
    row(
        "move_to_draining_node", "moved", ("/moves/-", move("E", 0, "n5", "n7")),
        also=PINNED + " wrong_undrained status_optimal",
    ),
    row("class_not_allowed", "moved", ("/moves/-", move("E", 0, "n5", "n8")), also=PINNED),
    row("class_not_allowed", "moved", ("snapshot:/jobs/1/classes", ["h200"])),
    row("pinned_rank_moved", "moved", ("snapshot:/jobs/1/replica_groups/0/pinned", [2])),
    row("immobile_job_moved", "moved", ("snapshot:/jobs/1/mobility", "none")),
    row("fixed_group_moved", "moved", ("snapshot:/jobs/1/replica_groups/0/order_fixed", True)),
    # waves
    row("wave_gap", "moved", ("/moves/0/wave", 1)),
    row("wave_gap", "drained", ("/moves/0/wave", -1)),
    row("restart_split", "drained", ("snapshot:/jobs/0/mobility", "restart"), ("/pause_s", 120)),
    row("move_to_full_node", "moved", ("snapshot:/racks/0/nodes/n2", 1), also="unstaged_without_slot"),
    row(
        "move_to_full_node", "moved", ("snapshot:/racks/0/nodes/n2", {"slots": 2, "held": 1}),
        also="unstaged_without_slot",
    ),
    row("move_to_full_node", "swapped", ("/moves/1/wave", 1), ("/moves/1/staged", False)),
    row("unstaged_without_slot", "swapped", ("/moves/0/staged", False)),
    row("staged_without_need", "moved", ("/moves/0/staged", True)),
    row("staged_without_need", "drained", ("/moves/1/staged", True)),
    # rings
    row("ring_missing", "moved", ("/rings/0", DROP)),
    row("ring_twice", "moved", ("/rings/-", ring("A", [0, 1]))),
    row("ring_unknown", "moved", ("/rings/-", ring("E", [0]))),
    row("ring_unknown", "moved", ("/rings/0/job", "Z"), also="ring_missing"),
    row("ring_not_permutation", "moved", ("/rings/0/order", [0, 0])),
    row("ring_not_permutation", "moved", ("/rings/1/order", [0, 1])),
    row("ring_changed_flag", "moved", ("/rings/0/changed", True)),
    row("ring_changed_flag", "reordered", ("/rings/0/changed", False)),
    row(
        "ring_changed_flag", "moved", ("snapshot:/jobs/1/replica_groups/0/order", [2, 1, 0]),
    ),
    row(
        "fixed_ring_changed", "moved", ("/rings/2", ring("C", [0, 2, 1], changed=True)),
        ("/jobs_paused", 2), ("/pause_s", 9.26 + 9.02),
    ),
    row(
        "fixed_ring_changed", "moved", ("/rings/3", ring("D", [2, 1, 0], changed=True)),
        ("/jobs_paused", 2), ("/pause_s", 9.26 + 9.02),
    ),
    # loads
    row("load_of_unknown", "moved", ("/racks/r9", load(1, 0, 0))),
    row("load_of_unknown", "moved", ("/pods/p9", load(1, 0, 0))),
    row("load_missing", "moved", ("/racks/r1", DROP)),
    row("load_missing", "crowded_pod", ("/pods/p1", DROP)),
    row("wrong_bound", "moved", ("/racks/r1/bound", 2)),
    row("wrong_bound", "podded", ("/racks/r2/bound", 3)),
    row("wrong_bound", "podded", ("/pods/p1/bound", 2)),
    row("wrong_bound", "railed", ("/racks/r1/bound", [2, 2])),
    row("wrong_before", "moved", ("/racks/r1/before", 1)),
    row("wrong_before", "railed", ("/racks/r1/before", [1, 2])),
    row("wrong_before", "podded", ("/pods/p2/before", 0)),
    row("wrong_after", "moved", ("/racks/r2/after", 0)),
    row("wrong_after", "reordered", ("/racks/r2/after", 2)),
    row("wrong_after", "podded", ("/pods/p1/after", 2)),
    row("wrong_after", "railed", ("/racks/r1/after", 2)),
    row("wrong_excess", "moved", ("/excess", 1)),
    row("wrong_excess", "overfull", ("/excess", 1)),
    row("wrong_excess", "crowded_pod", ("/excess", 0)),
    # sums
    row(
        "wrong_moves_needed", "moved", ("/moves_needed", 2), ("/lower_bound", 2),
    ),
    row("max_moves_exceeded", "moved", ("snapshot:/planning/max_moves", 0)),
    row("bound_above_value", "moved", ("/lower_bound", 2), ("/status", "feasible")),
    row("bound_above_value", "weighed", ("/objective/lower_bound", 200), ("/status", "feasible")),
    row("wrong_undrained", "undrained", ("/undrained", [])),
    row("wrong_undrained", "undrained", ("/undrained/0/node", "n2")),
    row("wrong_undrained", "undrained", ("/undrained/-", STAYS)),
    row("wrong_jobs_paused", "moved", ("/jobs_paused", 2)),
    row("wrong_jobs_paused", "reordered", ("/jobs_paused", 0)),
    row("wrong_prediction", "foretold", ("/predicted/saved_gpu_s", 196.0)),
    row("wrong_prediction", "foretold", ("/predicted/saved_gpu_s", None)),
    row("wrong_prediction", "foretold", ("/predicted/lost_gpu_s", 27.7)),
    row("wrong_prediction", "foretold", ("snapshot:/jobs/0/remaining_s", DROP)),
    row("wrong_prediction", "foretold", ("snapshot:/jobs/1/replica_groups/0/iteration_s", 3)),
    row("wrong_worthwhile", "foretold", ("/worthwhile", False)),
    row("wrong_worthwhile", "foretold", ("/worthwhile", None)),
    row("wrong_worthwhile", "foretold", ("/predicted", None)),
    row("malformed", "foretold", ("/predicted/lost_gpu_s", None)),
    row("malformed", "foretold", ("/worthwhile", 1)),
    row("wrong_pause", "moved", ("/pause_s", 9.02)),
    row("wrong_pause", "reordered", ("/pause_s", 0)),
    row("wrong_pause", "drained", ("/pause_s", 17.02)),
    row("wrong_pause", "swapped", ("/pause_s", 19.28)),
    row("wrong_objective", "moved", ("/objective/name", "gpu_seconds"), also="status_optimal"),
    row("wrong_objective_value", "moved", ("/objective/value", 2)),
    row("wrong_objective_value", "weighed", ("/objective/value", 168), ("/objective/lower_bound", 168)),
    # status
    row("unknown_status", "moved", ("/status", "done")),
    row("unknown_limit", "moved", ("/limited_by", "weather")),
    row("unknown_limit", "drained", ("/limited_by", "max_moves")),
    row("status_compliant", "moved", ("/status", "compliant")),
    row("status_compliant", "undrained", ("/status", "compliant")),
    row("status_compliant", "podded", ("/status", "optimal")),
    row(
        "status_compliant", "spread", ("snapshot:/jobs/0/replica_groups/0/workers", ["r1n", "r2n", "r1n"]),
        ("snapshot:/racks/0/nodes/r1n", 3), ("/rings/0", ring("A", [0, 2, 1], changed=True)),
        ("/flows/0/from_rank", 2), ("/jobs_paused", 1), ("/pause_s", 9.02),
    ),
    row("status_optimal", "moved", ("/lower_bound", 0)),
    row("status_optimal", "moved", ("/lower_bound", None)),
    row("status_optimal", "folded", ("/status", "optimal")),
    row("status_optimal", "weighed", ("/objective/lower_bound", 100)),
    row("status_feasible", "moved", ("/status", "feasible")),
    row("status_feasible", "folded", ("/status", "feasible")),
    row("status_best_effort", "moved", ("/status", "best_effort")),
    row("status_best_effort", "undrained", ("/status", "best_effort")),
    row("status_infeasible", "moved", ("/status", "infeasible")),
    # flows
    row("flow_unknown", "moved", ("/flows/-", flow("E", (0, 0), ("r3", "r3"), 0))),
    row("flow_unknown", "moved", ("/flows/-", flow("Z", (0, 1), ("r1", "r2"), 0))),
    row("flow_unknown", "moved", ("/flows/-", flow("A", (0, 1), ("r1", "r2"), 0, 1))),
    row("flow_not_departure", "moved", ("/flows/-", flow("B", (0, 1), ("r1", "r1"), 0))),
    row("flow_not_departure", "folded", ("/flows/0/to_rank", 4), also="flow_missing"),
    row("flow_wrong_rail", "railed", ("/flows/0/rail", 1)),
    row("flow_wrong_rack", "moved", ("/flows/0/from_rack", "r3")),
    row("flow_wrong_rack", "moved", ("/flows/0/to_rack", "r9")),
    row("flow_twice", "moved", ("/flows/-", flow("A", (0, 1), ("r1", "r2"), 0))),
    row("flow_missing", "moved", ("/flows/0", DROP)),
    row("flow_missing", "railed", ("/flows/5", DROP)),
    # uplinks
    row("uplink_dead", "moved", ("/flows/0/uplink", 1)),
    row("uplink_dead", "podded", ("/flows/2/uplink", 0)),
    row("uplink_dead", "podded", ("/flows/3/uplink", 0)),
    row("uplink_dead", "podded", ("/flows/0/uplink", 7), also="pod_uplink_wrong_spine"),
    row(
        "uplink_dead", "podded", ("snapshot:/racks/2/uplinks", [1]), ("/racks/r3/bound", 1),
        ("/flows/0/pod_uplink", 0),
    ),
    row("uplink_dead", "cut", ("/flows/0/uplink", 0)),
    row("uplink_dead", "cut_pods", ("/flows/0/uplink", 0)),
    row("uplink_null", "moved", ("/flows/0/uplink", None)),
    row("uplink_null", "podded", ("/flows/0/pod_uplink", None)),
    row("uplink_null", "podded", ("/flows/0/uplink", None)),
    row("pod_uplink_member", "podded", ("/flows/0/pod_uplink", DROP)),
    row("pod_uplink_member", "podded", ("/flows/2/pod_uplink", 1)),
    row("pod_uplink_member", "moved", ("/flows/0/pod_uplink", None)),
    row("pod_uplink_out_of_range", "podded", ("/flows/0/pod_uplink", 6)),
    row("pod_uplink_out_of_range", "podded", ("/flows/1/pod_uplink", 5)),
    row("pod_uplink_wrong_spine", "podded", ("/flows/0/pod_uplink", 4)),
    # shared uplinks
    row("sharing_missing", "folded", (R2_UP, DROP)),
    row("sharing_missing", "crowded_pod", ("/shared_uplinks/0", DROP)),
    row("sharing_missing", "spread", ("/flows/2/uplink", 0), also="isolation_missed"),
    row("sharing_missing", "railed", *((f"/flows/{i}/uplink", 0) for i in range(6)),
        ("snapshot:/fabric/uplink_gbps", 100), ("/racks", {}), also="isolation_missed"),
    row("sharing_false", "moved",
        ("/shared_uplinks/-", {"rack": "r1", "rail": 0, "uplink": 0, "direction": "up", "flows": [0]})),
    row("sharing_false", "folded", (R2_UP + "/direction", "sideways"), also="sharing_missing"),
    row("sharing_wrong_flows", "folded", (R2_UP + "/flows", [1])),
    row("sharing_wrong_flows", "crowded_pod", ("/shared_uplinks/1/flows", [0, 1])),
    row(
        "isolation_missed", "spread", ("/flows/2/uplink", 0),
        ("/shared_uplinks", [
            {"rack": "r1", "rail": 0, "uplink": 0, "direction": "up", "flows": [0, 2]},
            {"rack": "r2", "rail": 0, "uplink": 0, "direction": "down", "flows": [0, 2]},
        ]),
    ),
    row(
        "fold_uneven", "overfull", ("/flows/2/uplink", 0),
        ("/shared_uplinks/0/flows", [0, 2, 4]), ("/shared_uplinks/3/flows", [0, 2, 4]),
    ),
    # source ports (test_steering.py has the rest)
    row("port_missing", "hashed", ("/flows/0/udp_source_port", DROP), ("/flows/0/flow_label", DROP)),
    row("port_missing", "hashed", ("/unsteered", [])),
    row("port_out_of_range", "hashed", ("/flows/0/udp_source_port", 49151)),
    row("port_repeated", "hashed",
        ("snapshot:/fabric/uplink_gbps", 800), ("/racks/r0/bound", 8), ("/racks/r1/bound", 8),
        ("/flows/2/uplink", 0), ("/flows/2/udp_source_port", 49176), ("/flows/2/flow_label", 24)),
    row("port_unfounded", "hashed", ("snapshot:/fabric/hash", DROP), ("/unsteered", [])),
    row("port_wrong_uplink", "hashed", ("/flows/0/udp_source_port", 49168), ("/flows/0/flow_label", 16)),
    row("port_wrong_uplink", "hashed", ("snapshot:/fabric/hash/leaf/algorithm", "crc16_arc")),
    row("label_wrong", "hashed", ("/flows/0/flow_label", 16)),
    row("label_wrong", "hashed", ("/flows/0/flow_label", 0)),
    row("label_wrong", "hashed", ("/flows/1/flow_label", DROP)),
    row("unsteered_false", "hashed", ("/unsteered/0/reason", "polarised")),
    row("unsteered_false", "hashed", ("/unsteered/0/flows", [4, 5, 0])),
    row("unsteered_false", "hashed", ("/unsteered/0/flows", [4, 5, 6])),
    row("unsteered_false", "hashed", ("/unsteered/0/reason", "weather")),
    row("malformed", "hashed", ("/flows/0/flow_label", "24")),
    row("malformed", "hashed", ("/unsteered/0/reason", 1)),
    row("snapshot_unreadable", "hashed", ("snapshot:/fabric/hash/leaf/algorithm", "sha256")),
    # advice for pending jobs
    row("placement_missing", "advised", ("/placements", [])),
    row("placement_missing", "advised", ("snapshot:/pending/0/id", "X")),
    row("placement_missed", "advised", ("snapshot:/pending/2/one_per_node", False)),
    row("placement_missed", "advised", ("snapshot:/pending/2/workers", 1)),
    row("placement_impossible", "advised", ("/placements/0/nodes/1", "n4")),
    row("placement_impossible", "advised", ("/placements/0/nodes/1", "n9")),
    row("placement_impossible", "advised", ("/placements/0/nodes/1", DROP)),
    row("placement_impossible", "advised", ("/placements/1/nodes/1", "n2")),
    row("placement_impossible", "advised", ("/placements/1/nodes/1", "n5")),
    row("placement_wrong", "advised", ("/placements/1/after/r3", 2)),
    row("placement_wrong", "advised", ("/placements/1/after/r1", DROP)),
    row("placement_wrong", "advised", ("/placements/1/within_bound", True)),
    row("placement_wrong", "advised", ("/placements/1/because", [])),
    row("placement_wrong", "advised", ("/placements/2/because", [])),
    row("malformed", "advised", ("/placements/0/nodes/0", 7)),
    row("malformed", "advised", ("/placements/0/proved", DROP)),
    row("snapshot_unreadable", "advised", ("snapshot:/pending/0/workers", 0)),
    # transients, guarantees
    row("transient_missing", "drained", ("/transients/0", DROP)),
    row("transient_false", "drained", ("/transients/0/wave", 1), also="transient_missing"),
    row("transient_false", "moved", ("/transients/-", {"rack": "r1", "rail": 0, "wave": 0, "f": 2})),
    row("transient_wrong_f", "drained", ("/transients/0/f", 2)),
    row("unguaranteed_missing", "podded", ("/unguaranteed", [])),
    row("unguaranteed_missing", "cut", ("/unguaranteed", [])),
    row("unguaranteed_missing", "cut_pods", ("/unguaranteed", [])),
    row("unguaranteed_false", "moved", ("/unguaranteed/-", {"job": "A", "group": "0", "kind": "ring"})),
    row("unguaranteed_false", "moved", ("/unguaranteed/-", {"job": "Z", "group": "0", "kind": "ring"})),
    row("unguaranteed_wrong_kind", "podded", ("/unguaranteed/0/kind", "ring")),
    # certificates (tests/certificate has the rest)
    row("bad_certificate", "moved", ("/certificate", {"kind": "rack_halves", "bound": 1, "racks": ["r9"]})),
    row(
        "certificate_bound", "moved", ("/lower_bound", None), ("/status", "feasible"),
        ("/certificate", {"kind": "rack_halves", "bound": 1, "racks": ["r1"]}),
    ),
]  # fmt: skip


def edit(document: Document, pointer: str, value: Any) -> None:
    *path, last = pointer.split("/")[1:]
    target: Any = document
    for part in path:
        target = target[int(part)] if isinstance(target, list) else target[part]
    if isinstance(target, list) and last == "-":
        target.append(value)
        return
    key = int(last) if isinstance(target, list) else last
    if value is DROP:
        del target[key]
    else:
        target[key] = value


@pytest.mark.parametrize("broken", ROWS, ids=[f"{i}-{r.code}" for i, r in enumerate(ROWS)])
def test_a_broken_rule_is_named(broken: Row) -> None:
    snapshot, plan = copy.deepcopy(CASES[broken.case]())
    for pointer, value in broken.edits:
        side, _, path = pointer.rpartition(":")
        edit(snapshot if side else plan, path, value)
    faults = check(snapshot, plan)
    assert {fault.code for fault in faults} == {broken.code} | broken.also, faults


def test_every_code_has_a_row() -> None:
    # wrong_snapshot needs a model object: see test_models.py
    assert {broken.code for broken in ROWS} == set(CODES) - {"wrong_snapshot"}


def test_pointers_are_escaped_and_messages_have_the_values() -> None:
    snapshot, plan = CASES["moved"]()
    plan["racks"]["a/b~c"] = load(1, 0, 0)
    plan["moves"][0]["from"] = "n4"
    faults = {fault.code: fault for fault in check(snapshot, plan)}
    assert faults["load_of_unknown"].pointer == "/racks/a~1b~0c"
    assert faults["move_from_wrong_node"].pointer == "/moves/0/from"
    assert faults["move_from_wrong_node"].message == "says 'n4', the rank is on 'n3'"
