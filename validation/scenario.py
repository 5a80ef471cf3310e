"""From a placement to its flows: every hop of every ring, each with the uplink it is given.

Cross-rack hops are the plan's flows; hops inside a rack share no uplink but load the NICs and the
leaf, so they are replayed too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from monkeytree.errors import InvalidPlan, Offence
from monkeytree.flows import routed_flows
from monkeytree.identity import snapshot_id
from monkeytree.placement import Arrangement, sends
from monkeytree.plan import Flow, Plan, SharedUplink
from monkeytree.snapshot import ReplicaGroup, Snapshot
from monkeytree.steering import steer

from .hashing import HashRouting
from .network import Leaf, Network
from .traffic import BACKGROUND, Knobs, RingFlow, Traffic, draw, on_their_ways

Routed = tuple[Sequence[Flow], Sequence[SharedUplink], set[tuple[str, str]]]
"""Cross-rack flows with their uplinks, the shared ones, and the groups nothing is claimed of."""


def traffic_before(snapshot: Snapshot, knobs: Knobs) -> Traffic:
    """The placement as it stands, each flow on the uplink that colouring gives it."""
    arrangement = Arrangement.of(snapshot)
    flows, shared = routed_flows(snapshot, arrangement, None)
    if knobs.routing == "hash":
        flows, _ = steer(snapshot, _places(snapshot, arrangement), flows)
    return _traffic(snapshot, arrangement, (flows, shared, _other_kinds(snapshot)), knobs)


def traffic_after(snapshot: Snapshot, plan: Plan, knobs: Knobs) -> Traffic:
    """The placement that ``plan`` leads to, each flow on the uplink the plan gives it.

    Raises:
        InvalidPlan: it is not a plan of this snapshot.
    """
    if plan.snapshot_id != snapshot_id(snapshot):
        message = f"is another snapshot than the one given, whose id is {snapshot_id(snapshot)}"
        raise InvalidPlan([Offence("/snapshot_id", message, plan.snapshot_id)])
    unclaimed = {(group.job, group.group) for group in plan.unguaranteed} | _other_kinds(snapshot)
    return _traffic(snapshot, _after(snapshot, plan), (plan.flows, plan.shared_uplinks, unclaimed), knobs)


def _traffic(snapshot: Snapshot, arrangement: Arrangement, routed: Routed, knobs: Knobs) -> Traffic:
    nics: list[Leaf] = []
    flows = list(_ring_flows(snapshot, arrangement, routed, knobs, nics))
    if snapshot.fabric.routing != "steered":
        flows = [replace(flow, steered=not flow.crosses_racks, claimed=False) for flow in flows]
    elif knobs.ecmp_share > 0:
        flows = [_maybe_loose(flow, knobs) for flow in flows]
    flows += _background(snapshot, knobs, nics)
    network = Network(snapshot, nics, knobs.dead)
    hashing = HashRouting(snapshot, network, knobs.dead) if knobs.routing == "hash" else None
    return Traffic(network, on_their_ways(network, flows, knobs.seed, hashing), knobs.steps, hashing)


def _ring_flows(
    snapshot: Snapshot, arrangement: Arrangement, routed: Routed, knobs: Knobs, nics: list[Leaf]
) -> Iterator[RingFlow]:
    """Every hop of every ring; adds a NIC for each worker and ring to ``nics``."""
    steered, unclaimed = _by_hop(routed), routed[2]
    rails, rack_of = snapshot.fabric.rails, snapshot.rack_of
    for (job, group), places, order in zip(
        snapshot.groups, arrangement.nodes, arrangement.orders, strict=True
    ):
        if not sends(group):
            continue
        size = _flow_bytes(group, knobs)
        claimed = (job.id, group.id) not in unclaimed
        for ring in range(group.rings):
            first = len(nics)
            rail = ring % rails
            leaves = [(rack_of[node].id, rail) for node in places]
            nics += leaves
            for rank, following in zip(order, (*order[1:], order[0]), strict=True):
                hop = (job.id, group.id, ring, rank, following)
                label, alone, port = (
                    _planned(steered, hop, leaves)
                    if leaves[rank] != leaves[following]
                    else (None, True, None)
                )
                yield RingFlow(
                    *hop, leaves[rank], leaves[following], first + rank, first + following, size,
                    label=label, claimed=claimed and alone, sport=port if knobs.ports == "plan" else None,
                    addresses=_addresses(snapshot, places[rank], places[following], rail),
                )  # fmt: skip


def _addresses(snapshot: Snapshot, source: str, target: str, rail: int) -> tuple[str, str] | None:
    """Of the NICs of two nodes on ``rail``, where both are known."""
    ends = [snapshot.node_by_id[node].addresses for node in (source, target)]
    return (ends[0][rail], ends[1][rail]) if all(ends) else None


def _places(snapshot: Snapshot, arrangement: Arrangement) -> dict[tuple[str, str], tuple[str, ...]]:
    pairs = zip(snapshot.groups, arrangement.nodes, strict=True)
    return {(job.id, group.id): nodes for (job, group), nodes in pairs}


def _flow_bytes(group: ReplicaGroup, knobs: Knobs) -> int:
    given = knobs.flow_bytes if group.traffic_gb is None else group.traffic_gb * 1e9
    return max(1, round(given * knobs.scale))


HopKey = tuple[str, str, int, int, int]


def _by_hop(routed: Routed) -> dict[HopKey, tuple[Flow, bool]]:
    flows, shared, _ = routed
    sharing = {index for share in shared for index in share.flows}
    return {
        (flow.job, flow.group, flow.ring, flow.from_rank, flow.to_rank): (flow, index not in sharing)
        for index, flow in enumerate(flows)
    }


def _planned(
    steered: Mapping[HopKey, tuple[Flow, bool]], hop: HopKey, leaves: Sequence[Leaf]
) -> tuple[int | None, bool, int | None]:
    """The uplink (spine, or core) the plan gives a hop, whether it claims it for the hop alone, its port."""
    job, group, ring, rank, following = hop
    flow, alone = steered.get(hop, (None, False))
    if flow is None or (flow.from_rack, flow.to_rack) != (leaves[rank][0], leaves[following][0]):
        message = (
            f"has no flow for ring {ring} of group {group!r} of job {job!r} from rank {rank} in rack "
            f"{leaves[rank][0]!r} to rank {following} in rack {leaves[following][0]!r}"
        )
        raise InvalidPlan([Offence("/flows", message, len(steered))])
    label = flow.pod_uplink if flow.leaves_pod else flow.uplink
    return label, alone and label is not None, flow.udp_source_port


def _maybe_loose(flow: RingFlow, knobs: Knobs) -> RingFlow:
    loose = flow.crosses_racks and draw(knobs.seed, "loose", flow.name) < knobs.ecmp_share * 2**64
    return replace(flow, steered=False, claimed=False) if loose else flow


def _background(snapshot: Snapshot, knobs: Knobs, nics: list[Leaf]) -> Iterator[RingFlow]:
    """Storage-like flows: from one NIC more in some racks to one more in another, hashed."""
    racks = [rack.id for rack in snapshot.racks if rack.spines]
    count = min(len(racks), -int(-knobs.background * len(racks) // 1)) if len(racks) > 1 else 0
    chosen = sorted(racks, key=lambda rack: draw(knobs.seed, "background", rack))[:count]
    for number, rack in enumerate(chosen):
        others = [other for other in racks if other != rack]
        target = others[draw(knobs.seed, "storage", rack) % len(others)]
        src = len(nics)
        nics += [(rack, 0), (target, 0)]
        size = max(1, round(knobs.flow_bytes * knobs.scale))
        yield RingFlow(
            BACKGROUND, "storage", 0, number, number, (rack, 0), (target, 0), src, src + 1, size,
            steered=False, claimed=False,
        )  # fmt: skip


def _other_kinds(snapshot: Snapshot) -> set[tuple[str, str]]:
    return {(job.id, group.id) for job, group in snapshot.groups if group.kind != "ring"}


def _after(snapshot: Snapshot, plan: Plan) -> Arrangement:
    """Node of each rank and order of each group once ``plan`` is carried out."""
    index_of = {(job.id, group.id): index for index, (job, group) in enumerate(snapshot.groups)}
    before = Arrangement.of(snapshot)
    nodes, orders = [list(places) for places in before.nodes], list(before.orders)
    offences = []
    for number, move in enumerate(plan.moves):
        at = index_of.get((move.job, move.group))
        if at is None or move.rank >= len(nodes[at]) or move.target not in snapshot.node_by_id:
            message = "moves a rank, or to a node, that is not in the snapshot"
            offences.append(Offence(f"/moves/{number}", message, f"{move.job}/{move.group}/{move.rank}"))
        else:
            nodes[at][move.rank] = move.target
    for number, ring in enumerate(plan.rings):
        at = index_of.get((ring.job, ring.group))
        if at is None or sorted(ring.order) != list(range(len(nodes[at]))):
            message = "is no order of that group of the snapshot"
            offences.append(Offence(f"/rings/{number}/order", message, list(ring.order)))
        else:
            orders[at] = ring.order
    if offences:
        raise InvalidPlan(offences)
    return Arrangement(tuple(tuple(places) for places in nodes), tuple(orders))
