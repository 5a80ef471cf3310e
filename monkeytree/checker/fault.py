"""A fault of a plan, and the stable codes that faults have."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

CODES: Mapping[str, str] = MappingProxyType(
    {
        "snapshot_unreadable": "the snapshot is no valid snapshot document, so nothing can be checked",
        "malformed": "a member is missing or of the wrong type",
        "unsupported_format": "the plan is of another format than 1",
        "not_ready": "the plan is not in state ready",
        "wrong_cluster": "the plan names another cluster than the snapshot",
        "wrong_snapshot": "the plan names another snapshot",
        "move_of_unknown_rank": "job, group or rank of a move is not in the snapshot",
        "move_to_unknown_node": "a move's target is not in the snapshot",
        "rank_moved_twice": "a rank moves more than once",
        "move_from_wrong_node": "a move's source is not where the rank is now",
        "move_nowhere": "a move's source and target are the same node",
        "move_to_cordoned_node": "a move's target is cordoned",
        "move_to_draining_node": "a move's target is draining",
        "class_not_allowed": "a move's target is of a class its job does not accept",
        "pinned_rank_moved": "a pinned rank moves",
        "immobile_job_moved": "a rank of a job of mobility none moves",
        "fixed_group_moved": "a rank of a group with order_fixed moves",
        "wave_gap": "waves are not numbered from 0 without gaps",
        "restart_split": "a restart job moves in more than one wave",
        "move_to_full_node": "after a wave a node holds more than its slots",
        "unstaged_without_slot": "unstaged moves land on slots that were not free before the wave",
        "staged_without_need": "staged moves of a wave would fit the slots free before it",
        "ring_missing": "a group with more than one worker is not in rings",
        "ring_twice": "a group stands in rings more than once",
        "ring_unknown": "a ring names a group that is not in the snapshot or has one worker",
        "ring_not_permutation": "a ring order is no permutation of the group's ranks",
        "ring_changed_flag": "changed does not say whether the cyclic order differs",
        "fixed_ring_changed": "the order of an order_fixed group or an immobile job differs",
        "load_of_unknown": "racks or pods names one that is not in the snapshot",
        "load_missing": "a rack or pod that is over or changes is not listed",
        "wrong_bound": "a bound is not live uplinks x k",
        "wrong_before": "a fragmentation degree before the plan is wrong",
        "wrong_after": "a fragmentation degree after the plan is wrong",
        "wrong_excess": "excess is not the sum over the leaves and pods that are over",
        "wrong_moves_needed": "moves_needed is not the number of moves",
        "max_moves_exceeded": "there are more moves than planning.max_moves",
        "wrong_undrained": "undrained is not exactly the ranks left on draining nodes",
        "wrong_jobs_paused": "jobs_paused is not the number of jobs moved or reordered",
        "wrong_pause": "pause_s does not add up",
        "wrong_prediction": "GPU-seconds saved or lost are not what the snapshot's members give",
        "wrong_worthwhile": "worthwhile is not what the prediction says",
        "wrong_objective": "the objective has another name than planning.objective",
        "wrong_objective_value": "the objective's value does not add up",
        "bound_above_value": "a lower bound is above the value it bounds",
        "unknown_status": "status is none of the five",
        "unknown_limit": "limited_by is not null, max_moves or time, or names a limit that is not set",
        "status_compliant": "compliant and the snapshot's own compliance disagree, or a compliant plan acts",
        "status_optimal": "an optimal plan does not comply or lacks its proof",
        "status_feasible": "a feasible plan does not comply, or has the proof of an optimal one",
        "status_best_effort": "a best_effort plan complies unlimited, or leaves workers undrained",
        "status_infeasible": "an infeasible plan drains all",
        "flow_unknown": "a flow names a group or ring that sends nothing",
        "flow_not_departure": "a flow is no hop of its ring order that leaves a rack",
        "flow_wrong_rail": "a flow's rail is not ring mod rails",
        "flow_wrong_rack": "a flow's racks are not those of its ranks after the plan",
        "flow_twice": "a ring's departure has more than one flow",
        "flow_missing": "a ring's departure has no flow",
        "uplink_dead": "a flow's uplink is not live at a leaf it uses",
        "uplink_null": "a flow has no uplink though its leaves are connected",
        "pod_uplink_member": "pod_uplink stands on a flow inside a pod, or not on one that leaves it",
        "pod_uplink_out_of_range": "a pod has no such uplink",
        "pod_uplink_wrong_spine": "a pod uplink does not lead from the flow's spine",
        "sharing_missing": "an uplink carries more than k flows and is not in shared_uplinks",
        "sharing_false": "an entry of shared_uplinks is for an uplink that carries at most k flows",
        "sharing_wrong_flows": "an entry of shared_uplinks does not list exactly the flows that share",
        "isolation_missed": "a compliant leaf of an even fabric has an uplink with more than k flows",
        "fold_uneven": "an over leaf of an even fabric has an uplink with more than ceil(f / uplinks) flows",
        "port_missing": "a flow has no source port though it can be steered or is not in unsteered",
        "port_out_of_range": "a source port is none that a flow label reaches",
        "port_repeated": "flows of one pair of addresses have one source port, though there are others",
        "port_unfounded": "a source port stands where nothing says that it steers",
        "port_wrong_uplink": "by the hash of the switches a source port leads to another uplink",
        "label_wrong": "a flow label is 0, missing or leads to another source port",
        "unsteered_false": "an entry of unsteered is for a flow that can be steered, or has another reason",
        "transient_missing": "a leaf is over after a wave and not in transients",
        "transient_false": "an entry of transients is for a leaf that is not over after that wave",
        "transient_wrong_f": "an entry of transients has the wrong fragmentation degree",
        "unguaranteed_missing": "a group without guarantee is not listed",
        "unguaranteed_false": "a listed group is guaranteed, unknown or listed twice",
        "unguaranteed_wrong_kind": "a listed group is of another kind",
        "placement_missing": "placements are not of the pending jobs, each once and in order",
        "placement_missed": "a pending job without nodes has room",
        "placement_impossible": "a pending job cannot start on the nodes it is advised",
        "placement_wrong": "the figures or the verdict of a placement are wrong",
        "bad_certificate": "the certificate is malformed or does not prove its bound",
        "certificate_bound": "the certificate proves another bound than the plan's, or one of other plans",
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One rule of the contract that a plan breaks.

    Attributes:
        code: stable short string, a key of :data:`CODES`.
        pointer: JSON pointer (RFC 6901) into the plan; "" is the whole plan.
        message: what is wrong, with the values.
    """

    code: str
    pointer: str
    message: str


def pointer_to(*parts: str | int) -> str:
    """The JSON pointer made of ``parts``, escaped as RFC 6901 section 3 says."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def show(value: Any) -> str:
    """``value`` for a message: shortened, and safe for whatever JSON can hold."""
    try:
        return reprlib.repr(value)
    except ValueError:  # int of more digits than sys.get_int_max_str_digits()
        return f"a {type(value).__name__} too large to show"
