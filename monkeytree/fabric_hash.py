"""How the switches of a fabric choose among equal uplinks: ``fabric.hash`` of a snapshot.

Either a hash by its parameters, one for each stage that chooses (leaves; with pods the spines too), or
a table learned from probes (:mod:`monkeytree.ecmp.learn`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Algorithm = Literal[
    "crc16_ccitt", "crc16_arc", "crc16_xor1", "crc16_xor2", "crc16_xor4", "crc16_xor8", "crc32", "crc32_lo",
    "crc32_hi", "xor16", "toeplitz", "murmur3",
]  # fmt: skip
HashField = Literal["src", "dst", "protocol", "sport", "dport", "flow_label", "dst_qp"]
Select = Literal["modulo", "high"]
Method = Literal["probed", "affine"]

ALGORITHMS: tuple[str, ...] = get_args(Algorithm)
HASH_FIELDS: tuple[str, ...] = get_args(HashField)
FIVE_TUPLE: tuple[HashField, ...] = ("src", "dst", "protocol", "sport", "dport")


@dataclass(frozen=True, slots=True)
class HashStage:
    """One stage of switches that choose among uplinks by a hash.

    Attributes:
        algorithm: the hash (docs/steering.md says what each computes).
        fields: what is hashed, in this order; each in network byte order (``murmur3``: little endian,
            as ns-3's switches of the HPCC family have it). ``flow_label``: that of the IPv6 header, 20 bits
            in three bytes; for a flow with a source port the label of that port.
        seed: of this stage: XORed into the start value of a CRC and into the result of ``toeplitz`` and
            ``xor16``; the start value of ``murmur3``.
        offset: bits by which the hash is rotated right before an uplink is chosen (SAI's hash offset).
        select: ``modulo`` the number of uplinks, or by the ``high`` bits: hash x uplinks / 2^width.
        key: of ``toeplitz``, in hex; None is the well-known one of receive side scaling.
    """

    algorithm: Algorithm
    fields: tuple[HashField, ...] = FIVE_TUPLE
    seed: int = 0
    offset: int = 0
    select: Select = "modulo"
    key: str | None = None


@dataclass(frozen=True, slots=True)
class LearnedPair:
    """What probes showed of one pair of addresses.

    Attributes:
        ports: for each uplink (spine, or core where the pair is in two pods) source ports that lead there.
        method: ``probed``: these very ports were seen; ``affine``: they were computed by a fit that
            predicted probes it had not been given.
        probes: how many were sent.
        confidence: 1 - (1 / uplinks) ^ (probes that agreed though they might not have): held-out ones
            that the fit predicted, or repeated ones of one port that took the same way.
    """

    src: str
    dst: str
    ports: Mapping[int, tuple[int, ...]]
    method: Method = "probed"
    probes: int = 0
    confidence: float = 0.0


@dataclass(frozen=True)
class LearnedTable:
    """Source ports by pair of addresses and uplink.

    Attributes:
        version: grows by one each time it is learned anew.
        epoch: fingerprint of the live uplinks it was learned under
            (:func:`monkeytree.ecmp.epoch.topology_epoch`); under another topology it says nothing.
    """

    version: int
    epoch: str
    pairs: tuple[LearnedPair, ...] = ()


@dataclass(frozen=True)
class FabricHash:
    """How uplinks are chosen; either ``leaf`` or ``learned`` is given.

    Attributes:
        leaf: the hash of the leaves.
        pod: that of the spines of a pod, among cores; None: as ``leaf``.
        leaf_seeds: seeds of single leaves, by "RACK/RAIL", instead of the stage's.
        pod_seeds: seeds of single spines, by "POD/SPINE", instead of the stage's.
        learned: a table instead.
    """

    leaf: HashStage | None = None
    pod: HashStage | None = None
    leaf_seeds: Mapping[str, int] = field(default_factory=dict)
    pod_seeds: Mapping[str, int] = field(default_factory=dict)
    learned: LearnedTable | None = None


def dump_hash(hash_: FabricHash) -> dict[str, Any]:
    """The document of ``fabric.hash``, members at their default left out."""
    row: dict[str, Any] = {}
    for name, stage in (("leaf", hash_.leaf), ("pod", hash_.pod)):
        if stage is not None:
            row[name] = dump_stage(stage)
    for name, seeds in (("leaf_seeds", hash_.leaf_seeds), ("pod_seeds", hash_.pod_seeds)):
        if seeds:
            row[name] = dict(seeds)
    if hash_.learned is not None:
        row["learned"] = dump_table(hash_.learned)
    return row


def dump_table(table: LearnedTable) -> dict[str, Any]:
    """The document of a learned table."""
    return {
        "version": table.version,
        "epoch": table.epoch,
        "pairs": [
            {
                "src": pair.src,
                "dst": pair.dst,
                "ports": {str(uplink): list(ports) for uplink, ports in sorted(pair.ports.items())},
                "method": pair.method,
                "probes": pair.probes,
                "confidence": pair.confidence,
            }
            for pair in table.pairs
        ],
    }


def dump_stage(stage: HashStage) -> dict[str, Any]:
    """The document of one stage, members at their default left out."""
    row: dict[str, Any] = {"algorithm": stage.algorithm}
    if stage.fields != FIVE_TUPLE:
        row["fields"] = list(stage.fields)
    for name in ("seed", "offset"):
        if getattr(stage, name):
            row[name] = getattr(stage, name)
    if stage.select != "modulo":
        row["select"] = stage.select
    if stage.key is not None:
        row["key"] = stage.key
    return row
