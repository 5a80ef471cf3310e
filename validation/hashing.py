"""Hashed ways: where the switches' hashes send a flow, from its addresses and source port alone.

The uplink that the plan gives a flow is not looked at here. Without a port of its own a flow has the one
that the kernel makes of its queue pairs' numbers (:mod:`monkeytree.ecmp.label`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from monkeytree.ecmp.label import source_port
from monkeytree.ecmp.stage import Packet, choose, hash_value
from monkeytree.ecmp.ways import Ways
from monkeytree.errors import InvalidSnapshot, Offence
from monkeytree.fabric_hash import FabricHash, HashStage
from monkeytree.snapshot import Snapshot

from .network import Leaf, Network


@dataclass(frozen=True, slots=True)
class Choice:
    """A switch that chooses the next node of a flow by its hash; nodes are those of the network."""

    at: int
    among: tuple[int, ...]
    stage: HashStage


@dataclass(frozen=True, slots=True)
class Hashed:
    """What sent a flow where it goes: its packet, and the switches that chose."""

    packet: Packet
    choices: tuple[Choice, ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        """The node that each switch chose."""
        return tuple(
            choice.among[choose(choice.stage, hash_value(choice.stage, self.packet), len(choice.among))]
            for choice in self.choices
        )


class HashRouting:
    """The hashes of one fabric.

    Raises:
        InvalidSnapshot: ``fabric.hash`` does not say how its leaves hash.
    """

    def __init__(self, snapshot: Snapshot, network: Network, dead: Iterable[tuple[str, int]]) -> None:
        hash_ = snapshot.fabric.hash
        stages = () if hash_ is None else (hash_.leaf, hash_.pod)
        if hash_ is None or hash_.leaf is None:
            message = "must give the hash of the leaves (leaf): a table does not say where other ports lead"
            raise InvalidSnapshot([Offence("/fabric/hash", message, None)])
        if any(stage is not None and "dst_qp" in stage.fields for stage in stages):
            message = "covers the queue pair, which is not known before a job runs"
            raise InvalidSnapshot([Offence("/fabric/hash", message, "dst_qp")])
        self._hash: FabricHash = hash_
        self._network = network
        self._ways = Ways(snapshot, dead)

    def route(self, source: Leaf, target: Leaf, packet: Packet) -> tuple[int, Hashed] | None:
        """The label of ``packet``'s way (spine, or core) and what chose it; None where none leads on."""
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


def kernel_port(local_qpn: int, remote_qpn: int) -> int:
    """The source port of a flow nobody gave a label."""
    return source_port(0, local_qpn & 0xFFFFFF, remote_qpn & 0xFFFFFF)
