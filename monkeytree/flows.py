"""The flows of an arrangement, each with an uplink of its own where there can be one.

One flow leaves a rack for every departure of every ring (paper, section 3). Perfect routing (section
5.4) gives each an uplink by colouring; see :mod:`monkeytree.uplinks`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from .placement import Arrangement, sends
from .plan import Flow, Plan, SharedUplink, Unguaranteed
from .snapshot import Snapshot
from .uplinks import Hop, Topology, colour_flows

FlowKey = tuple[str, str, int, str, str]


def routed_flows(
    snapshot: Snapshot, arrangement: Arrangement, previous: Plan | None
) -> tuple[tuple[Flow, ...], tuple[SharedUplink, ...]]:
    """Every cross-rack flow with its uplink, and the uplinks that carry more than they can.

    Flows that ``previous`` had too, by job, group, ring and racks, keep their uplinks if they can.
    """
    bare = list(_bare_flows(snapshot, arrangement))
    seeds = _seeds(previous)
    hops = []
    for flow in bare:
        known = seeds[_key(flow)]
        uplink, core = known.pop(0) if known else (None, None)
        source, target = (flow.from_rack, flow.rail), (flow.to_rack, flow.rail)
        hops.append(Hop(source, target, seed=uplink, pod_seed=core))
    colouring = colour_flows(_topology(snapshot), hops)
    flows = tuple(
        replace(flow, uplink=uplink, pod_uplink=core)
        for flow, uplink, core in zip(bare, colouring.uplinks, colouring.pod_uplinks, strict=True)
    )
    shared = tuple(
        SharedUplink(share.uplink, share.direction, share.flows, share.rack, share.rail, share.pod)
        for share in colouring.shared
    )
    return flows, shared


def unguaranteed(snapshot: Snapshot, flows: tuple[Flow, ...]) -> tuple[Unguaranteed, ...]:
    """Groups that are no rings, and groups with a flow for which there is no uplink."""
    lost = {
        (flow.job, flow.group)
        for flow in flows
        if flow.uplink is None or (flow.leaves_pod and flow.pod_uplink is None)
    }
    return tuple(
        Unguaranteed(job.id, group.id, group.kind)
        for job, group in snapshot.groups
        if (group.kind != "ring" and sends(group)) or (job.id, group.id) in lost
    )


def _bare_flows(snapshot: Snapshot, arrangement: Arrangement) -> Iterator[Flow]:
    rails, rack_of = snapshot.fabric.rails, snapshot.rack_of
    for (job, group), nodes, order in zip(
        snapshot.groups, arrangement.nodes, arrangement.orders, strict=True
    ):
        if not sends(group):
            continue
        for position, rank in enumerate(order):
            next_rank = order[(position + 1) % len(order)]
            here, there = rack_of[nodes[rank]], rack_of[nodes[next_rank]]
            if here is there:
                continue
            leaves_pod = bool(snapshot.pods) and here.pod != there.pod
            for ring in range(group.rings):
                yield Flow(
                    job=job.id,
                    group=group.id,
                    ring=ring,
                    rail=ring % rails,
                    from_rank=rank,
                    to_rank=next_rank,
                    from_rack=here.id,
                    to_rack=there.id,
                    uplink=None,
                    leaves_pod=leaves_pod,
                )


def _key(flow: Flow) -> FlowKey:
    return flow.job, flow.group, flow.ring, flow.from_rack, flow.to_rack


def _seeds(previous: Plan | None) -> dict[FlowKey, list[tuple[int | None, int | None]]]:
    seeds: dict[FlowKey, list[tuple[int | None, int | None]]] = defaultdict(list)
    for flow in previous.flows if previous is not None else ():
        seeds[_key(flow)].append((flow.uplink, flow.pod_uplink))
    return seeds


def _topology(snapshot: Snapshot) -> Topology:
    rails = range(snapshot.fabric.rails)
    pod_spines: dict[str, int] = {pod.id: 0 for pod in snapshot.pods}
    for rack in snapshot.racks:
        if rack.pod is not None and rack.spines:
            pod_spines[rack.pod] = max(pod_spines.get(rack.pod, 0), rack.spines[-1] + 1)
    return Topology(
        spines={(rack.id, rail): rack.spines for rack in snapshot.racks for rail in rails},
        flows_per_uplink=snapshot.fabric.flows_per_uplink,
        pod_of={rack.id: str(rack.pod) for rack in snapshot.racks} if snapshot.pods else {},
        pod_uplinks={pod.id: pod.uplinks for pod in snapshot.pods},
        pod_spines=pod_spines,
    )
