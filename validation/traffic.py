"""Flows on their ways through one network: steered, hashed, or each job as if alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Literal

from monkeytree.ecmp.stage import Packet

from .hashing import Hashed, HashRouting, WayUnknown, default_packet
from .network import Hop, Leaf, Network

DEFAULT_BYTES = 20_000_000
"""Sent by each flow where the group does not say: long against a round trip, short to simulate."""

BACKGROUND = "(background)"
"""Stands for the job of flows that ``background`` adds."""


@dataclass(frozen=True, slots=True)
class RingFlow:
    """One hop of one ring, or a flow of the background.

    Attributes:
        source, target: leaves of the two NICs.
        src, dst: their host numbers.
        label: spine (or core) it is steered to; None inside a leaf, and where it is hashed.
        steered: False where a hash chooses its way.
        claimed: the plan claims that it shares its uplinks with nobody.
        path: nodes from NIC to NIC; empty where no live way leads there, or none is known.
        addresses: of the two NICs, where known.
        sport: UDP source port that the plan gives it.
        hashed: what sent it where it goes, under hash routing; ``planned`` is the label it was given.
        unknown: why its way is not known, where the hashes are known by a learned table alone; else "".
    """

    job: str
    group: str
    ring: int
    from_rank: int
    to_rank: int
    source: Leaf
    target: Leaf
    src: int
    dst: int
    size: int
    label: int | None = None
    steered: bool = True
    claimed: bool = True
    path: tuple[int, ...] = ()
    addresses: tuple[str, str] | None = None
    sport: int | None = None
    hashed: Hashed | None = None
    planned: int | None = None
    unknown: str = ""

    @property
    def hops(self) -> tuple[Hop, ...]:
        """Directions of the links its data takes."""
        return tuple(pairwise(self.path))

    @property
    def name(self) -> str:
        """Unique within its traffic, stable over runs: what hashes are drawn from."""
        return f"{self.job}/{self.group}/{self.ring}/{self.from_rank}>{self.to_rank}"

    @property
    def crosses_racks(self) -> bool:
        """Whether it leaves its rack (and is one of a job)."""
        return self.source != self.target and self.job != BACKGROUND


@dataclass(frozen=True, slots=True)
class Knobs:
    """What may be changed about the traffic to test isolation where it can break.

    Attributes:
        flow_bytes: bytes of each flow of a group without ``traffic_gb``.
        scale: multiplies the bytes of all flows.
        ecmp_share: part of the cross-rack flows that are hashed, not steered (0 to 1).
        background: part of the racks from which a storage-like flow leaves for another (0 to 1).
        dead: uplinks that failed after the plan was made, as (rack id, spine).
        seed: of all draws.
        steps: ring steps that the bytes of a flow are sent in, each after the one before.
        routing: ``steered``: each flow on the uplink of the plan; ``hash``: where the switches' hashes
            (``fabric.hash``) send its source port.
        ports: under hash routing the source ports of the ``plan``, or the kernel's ``default`` ones.
    """

    flow_bytes: int = DEFAULT_BYTES
    scale: float = 1.0
    ecmp_share: float = 0.0
    background: float = 0.0
    dead: tuple[tuple[str, int], ...] = ()
    seed: int = 1
    steps: int = 1
    routing: Literal["steered", "hash"] = "steered"
    ports: Literal["plan", "default"] = "plan"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Flows, each on its way through one network, in as many ring steps.

    In each step a worker passes on what it received in the step before, so a flow's part of a step
    waits for its own part and for that of the flow into its NIC of the step before.
    """

    network: Network
    flows: tuple[RingFlow, ...]
    steps: int = 1
    hashing: HashRouting | None = None

    def feeders(self, members: Sequence[int]) -> list[int | None]:
        """For each flow at these indices the position in ``members`` of the flow that ends in its NIC."""
        into = {self.flows[index].dst: at for at, index in enumerate(members)}
        return [into.get(self.flows[index].src) for index in members]


def hashed(traffic: Traffic, seed: int) -> Traffic:
    """The same flows, but each cross-rack one goes where a hash sends it (ECMP): the control.

    A learned table does not know where most ports lead: then some hash stands for the real one.
    """
    hashing = traffic.hashing
    loose = [replace(flow, steered=flow.source == flow.target) for flow in traffic.flows]
    if hashing is not None and hashing.learned:
        loose, hashing = [replace(flow, hashed=None, unknown="") for flow in loose], None
    flows = on_their_ways(traffic.network, loose, seed, hashing)
    return replace(traffic, flows=flows, hashing=hashing)


def jobs_alone(traffic: Traffic, flows_per_uplink: int) -> dict[str, Traffic]:
    """Each job as if no other ran: what its slowdown is measured against.

    Where the flows of one job collide among themselves, those too many get uplinks of their own, as if
    the fabric had more: else a job that is over a rack's bound by itself would never look slowed.
    """
    network = traffic.network
    by_job: dict[str, list[RingFlow]] = {}
    for flow in traffic.flows:
        if flow.job != BACKGROUND:
            by_job.setdefault(flow.job, []).append(flow)
    return {
        job: replace(traffic, flows=tuple(_apart(network, flows, flows_per_uplink)))
        for job, flows in by_job.items()
    }


def _apart(network: Network, flows: Iterable[RingFlow], flows_per_uplink: int) -> Iterator[RingFlow]:
    load: Counter[tuple[int, int]] = Counter()
    for flow in flows:
        path = flow.path
        uplinks = list(pairwise(path[1:-1]))
        if flow.source != flow.target and (
            not path or any(load[uplink] >= flows_per_uplink for uplink in uplinks)
        ):
            path = (flow.src, *network.private_way(flow.source, flow.target), flow.dst)
            flow = replace(flow, hashed=None)
        else:
            load.update(uplinks)
        yield replace(flow, path=path)


def on_their_ways(
    network: Network, flows: Iterable[RingFlow], seed: int, hashing: HashRouting | None = None
) -> tuple[RingFlow, ...]:
    """The flows with their paths; with ``hashing`` those whose addresses are known go by hash.

    The others then go where some hash sends them: without addresses nothing puts a flow on its uplink. Of
    a job's, a learned table does not know where.
    """
    return tuple(
        _on_its_way(network, flow, seed)
        if hashing is None or flow.source == flow.target
        else _where_hashed(network, flow, seed, hashing)
        if flow.addresses is not None
        else _unaddressed(network, flow, seed, hashing)
        for flow in flows
    )


def _unaddressed(network: Network, flow: RingFlow, seed: int, hashing: HashRouting) -> RingFlow:
    planned = flow.planned if flow.path else flow.label  # with a path its label is the way it took already
    loose = replace(flow, steered=False, claimed=False, planned=planned)
    if hashing.learned and flow.job != BACKGROUND:
        return replace(loose, label=None, unknown="a node of it has no addresses in the snapshot")
    return _on_its_way(network, loose, seed)


def _where_hashed(network: Network, flow: RingFlow, seed: int, hashing: HashRouting) -> RingFlow:
    """By its addresses and source port, whatever its label; the label is then the way it took."""
    assert flow.addresses is not None
    port, steered = flow.sport, flow.steered and flow.sport is not None
    if port is None or not steered:
        ends = (draw(seed, f"{end} queue pair", flow.name) for end in ("local", "remote"))
        packet = default_packet(flow.addresses, *ends)
    else:
        packet = Packet(*flow.addresses, port)
    try:
        found = hashing.route(flow.source, flow.target, packet)
    except WayUnknown as error:
        why = str(error)
        return replace(flow, label=None, path=(), steered=False, planned=flow.label, unknown=why)
    if found is None:
        return replace(flow, label=None, path=(), steered=False)
    label, hashed = found
    way = network.way(flow.source, flow.target, label)
    claimed = flow.claimed and steered
    path = flow.src, *way, flow.dst
    planned = flow.label if flow.hashed is None else flow.planned
    return replace(
        flow, label=label, steered=steered, claimed=claimed, path=path, hashed=hashed, planned=planned
    )


def _on_its_way(network: Network, flow: RingFlow, seed: int) -> RingFlow:
    label, steered = flow.label, flow.steered
    if flow.source == flow.target:
        return replace(flow, path=(flow.src, network.leaf(flow.source), flow.dst))
    labels = network.labels(flow.source, flow.target)
    if not labels:
        return replace(flow, label=None, path=())
    if not steered or label not in labels:  # its uplink failed: the switch hashes it onto another
        label, steered = labels[draw(seed, "way", flow.name) % len(labels)], False
    way = network.way(flow.source, flow.target, label)
    return replace(flow, label=label, steered=steered, path=(flow.src, *way, flow.dst))


def draw(seed: int, what: str, name: str) -> int:
    """64 bits that depend on nothing but the arguments."""
    return int.from_bytes(blake2b(f"{seed}/{what}/{name}".encode(), digest_size=8).digest())
