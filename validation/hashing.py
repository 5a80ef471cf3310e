"""Hashed ways: where the switches' hashes send a flow, from its addresses and source port alone.

Known hashes are computed; of unknown ones a learned table says what it knows, and what it does not know is
named. The uplink that the plan gives a flow is not looked at here. Without a port of its own a flow has the
one that the kernel makes of its queue pairs' numbers (:mod:`monkeytree.ecmp.label`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from monkeytree.ecmp.epoch import topology_epoch
from monkeytree.ecmp.known import KnownWays
from monkeytree.ecmp.label import source_port
from monkeytree.ecmp.stage import Packet
from monkeytree.ecmp.ways import Ways
from monkeytree.errors import InvalidSnapshot, Offence
from monkeytree.fabric_hash import FabricHash, HashStage
from monkeytree.snapshot import Snapshot

from .network import Leaf, Network


@dataclass(frozen=True, slots=True)
class Choice:
    """A switch that chooses the next node of a flow by its hash; nodes are those of the network.

    ``stage`` is None where the hash is not known: a learned table then says which node was ``learned``.
    """

    at: int
    among: tuple[int, ...]
    stage: HashStage | None
    learned: int | None = None


@dataclass(frozen=True, slots=True)
class Hashed:
    """What sent a flow where it goes: its packet, and the switches that chose."""

    packet: Packet
    choices: tuple[Choice, ...]


class WayUnknown(Exception):
    """The learned table does not say where a packet goes."""


class HashRouting:
    """The hashes of one fabric: by their parameters, or what a learned table knows of them.

    Raises:
        InvalidSnapshot: there is no ``fabric.hash``, it covers the queue pair, or its table was learned
            under other live uplinks.
    """

    def __init__(self, snapshot: Snapshot, network: Network, dead: Iterable[tuple[str, int]]) -> None:
        hash_ = snapshot.fabric.hash
        if hash_ is None:
            message = "must say how switches hash, by leaf or learned: docs/steering.md"
            raise InvalidSnapshot([Offence("/fabric/hash", message, None)])
        _check(hash_, snapshot)
        self._hash: FabricHash = hash_
        self._network = network
        self._ways = Ways(snapshot, dead)
        self._known = None if hash_.learned is None else KnownWays(hash_.learned)
        self._before = Ways(snapshot) if self._known is not None else self._ways

    @property
    def learned(self) -> bool:
        """Whether a table says where packets go, which may not know it of all."""
        return self._known is not None

    def route(self, source: Leaf, target: Leaf, packet: Packet) -> tuple[int, Hashed] | None:
        """The label of ``packet``'s way (spine, or core) and what chose it; None where none leads on.

        Raises:
            WayUnknown: the learned table does not know it.
        """
        if self._known is not None:
            return self._learned_route(self._known, source, target, packet)
        way = self._ways.way(self._hash, packet, source[0], target[0], source[1])
        if way is None:
            return None
        spine, core = way
        pod = self._network.pod_of[source[0]]
        at = [self._network.leaf(source), self._network.spine(pod, spine)]
        choices = self._ways.choices(self._hash, source[0], target[0], source[1], spine)
        among = [tuple(self._network.spine(pod, uplink) for uplink in choices[0].uplinks)]
        among += [tuple(self._network.core(uplink) for uplink in choice.uplinks) for choice in choices[1:]]
        made = tuple(
            Choice(node, nodes, choice.stage) for node, nodes, choice in zip(at, among, choices, strict=False)
        )
        return (spine if core is None else core), Hashed(packet, made)

    def _learned_route(
        self, known: KnownWays, source: Leaf, target: Leaf, packet: Packet
    ) -> tuple[int, Hashed] | None:
        ways = self._choices(self._ways, source[0], target[0])
        if not ways:
            return None
        if ways != self._choices(self._before, source[0], target[0]):
            raise WayUnknown("an uplink of its way failed since the table was learned")
        labels = sorted(label for labels in ways.values() for label in labels)
        label = known.uplink(packet.src, packet.dst, packet.sport, labels)
        if label is None:
            raise WayUnknown(f"{packet.src} to {packet.dst} from port {packet.sport} is not in the table")
        network, pod = self._network, self._network.pod_of[source[0]]
        spine = next(spine for spine, labels in ways.items() if label in labels)
        first, last = network.leaf(source), network.spine(pod, spine)
        made = [Choice(first, tuple(network.spine(pod, one) for one in ways), None, last)]
        if network.crosses_core(source, target):
            cores = tuple(network.core(core) for core in ways[spine])
            made.append(Choice(last, cores, None, network.core(label)))
        return label, Hashed(packet, tuple(made))

    @staticmethod
    def _choices(ways: Ways, source: str, target: str) -> dict[int, tuple[int, ...]]:
        """For each spine that leads on the labels of the ways by it: itself, between pods its cores."""
        spines = ways.spines(source, target)
        if not ways.leaves_pod(source, target):
            return {spine: (spine,) for spine in spines}
        return {spine: ways.cores(source, target, spine) for spine in spines}


def _check(hash_: FabricHash, snapshot: Snapshot) -> None:
    stages = [stage for stage in (hash_.leaf, hash_.pod) if stage is not None]
    if any("dst_qp" in stage.fields for stage in stages):
        message = "covers the queue pair, which is not known before a job runs"
        raise InvalidSnapshot([Offence("/fabric/hash", message, "dst_qp")])
    if hash_.learned is not None and hash_.learned.epoch != topology_epoch(snapshot):
        message = f"was learned under other live uplinks than those of {topology_epoch(snapshot)}: probe anew"
        raise InvalidSnapshot([Offence("/fabric/hash/learned/epoch", message, hash_.learned.epoch)])


def default_packet(addresses: tuple[str, str], local_qpn: int, remote_qpn: int) -> Packet:
    """The packet of a flow nobody gave a label: its port is the kernel's, the label of its IPv6 header 0."""
    label = 0 if ":" in addresses[0] else None
    return Packet(*addresses, kernel_port(local_qpn, remote_qpn), flow_label=label)


def kernel_port(local_qpn: int, remote_qpn: int) -> int:
    """The source port of a flow nobody gave a label."""
    return source_port(0, local_qpn & 0xFFFFFF, remote_qpn & 0xFFFFFF)
