"""The whole check of two plain documents, in order: each stage relies on those before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .advice import advice_faults
from .certificate import certificate_faults
from .fault import Fault
from .flows import flow_faults
from .guarantees import unguaranteed_faults
from .loads import Loads, excess_faults, load_faults, loads_of
from .moves import move_faults, read_moves
from .outcome import Outcome, carry_out
from .placement import Placement
from .predicted import prediction_faults
from .reading import Unreadable, read_placement
from .rings import read_rings, ring_faults
from .shape import shape_faults
from .sharing import carried_flows, isolation_faults, sharing_faults
from .status import status_faults
from .steering import steering_faults
from .totals import total_faults
from .transients import transient_faults
from .uplinks import uplink_faults
from .waves import numbering_faults, restart_faults, slot_faults


def judge(snapshot: Any, plan: Any) -> list[Fault]:
    """All faults of the plan document ``plan`` for the snapshot document ``snapshot``.

    A plan whose shape, references or ring orders are broken leads to no placement: only those
    faults are reported then.
    """
    try:
        placement = read_placement(snapshot)
    except Unreadable as error:
        return [Fault("snapshot_unreadable", "", f"the snapshot cannot be read ({error})")]
    faults = shape_faults(plan)
    if faults:
        return faults
    if plan["cluster"] != placement.cluster:
        message = f"the snapshot is of cluster {placement.cluster!r}, not {plan['cluster']!r}"
        faults.append(Fault("wrong_cluster", "/cluster", message))
    steps, broken_moves = read_moves(plan["moves"], placement)
    orders, broken_rings = read_rings(plan["rings"], placement)
    if broken_moves or broken_rings:
        return faults + broken_moves + broken_rings
    outcome = carry_out(steps, orders, placement)
    faults += _action_faults(plan, outcome, placement)
    before = loads_of(
        {key: group.workers for key, group in placement.groups.items()},
        {key: group.order for key, group in placement.groups.items()},
        placement,
    )
    after = loads_of(outcome.workers, outcome.orders, placement)
    faults += load_faults(plan, before, after, placement)
    faults += excess_faults(plan, after, placement)
    faults += total_faults(plan, outcome, placement)
    faults += status_faults(plan, outcome, before, after, placement)
    faults += _wave_faults(plan, outcome, before, placement)
    faults += _flow_faults(plan, outcome, after, placement)
    faults += certificate_faults(plan, placement)
    faults += prediction_faults(plan, outcome, placement)
    faults += advice_faults(plan, outcome, after, placement)
    return faults


def _action_faults(plan: Mapping[str, Any], outcome: Outcome, placement: Placement) -> list[Fault]:
    return [
        *move_faults(outcome.steps, plan["moves"], placement),
        *ring_faults(plan["rings"], outcome.changed, placement),
    ]


def _wave_faults(
    plan: Mapping[str, Any], outcome: Outcome, before: Loads, placement: Placement
) -> list[Fault]:
    faults = [*restart_faults(outcome.steps, placement), *slot_faults(outcome.steps, placement)]
    gaps = numbering_faults(outcome.steps)
    if gaps:
        return gaps + faults
    return faults + transient_faults(plan["transients"], outcome, before, placement)


def _flow_faults(
    plan: Mapping[str, Any], outcome: Outcome, after: Loads, placement: Placement
) -> list[Fault]:
    """Faults of the flows; who shares what is only looked at once all flows have their path."""
    flows = plan["flows"]
    faults = flow_faults(flows, outcome, placement) or uplink_faults(flows, placement)
    if faults:
        return faults
    carried = carried_flows(flows, placement)
    return [
        *steering_faults(plan, outcome, placement),
        *sharing_faults(plan["shared_uplinks"], carried, placement),
        *isolation_faults(carried, after, placement),
        *unguaranteed_faults(plan["unguaranteed"], flows, placement),
    ]
