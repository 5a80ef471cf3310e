"""The parts of ``fabric.hash``: stages of hashes, or a learned table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from marshmallow import fields, missing

from monkeytree.fabric_hash import (
    ALGORITHMS,
    HASH_FIELDS,
    FabricHash,
    HashStage,
    LearnedPair,
    LearnedTable,
    Method,
    Select,
)
from monkeytree.hash_offences import (
    CONFIDENCE,
    OFFSET,
    PROBES,
    SEED,
    SOURCE_PORT,
    UPLINK,
    VERSION,
    number_of,
)
from monkeytree.offence_log import OffenceLog, Path

from .fields import Amount, Choice, Count, Listing, Name, OnePass, Ranks, refuse
from .schema import Part, PartSchema, Rows


def _about(description: str) -> dict[str, Any]:
    return {"description": description}


class Seeds(OnePass, fields.Dict):
    """Name of a switch to its seed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(values=Count(SEED), **kwargs)
        self.seed = Count(SEED)

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if not isinstance(value, Mapping):
            return refuse(log, at, "must be an object of seeds", value)
        found = {str(name): self.seed.read(seed, log, (*at, str(name))) for name, seed in value.items()}
        return {name: seed for name, seed in found.items() if seed is not missing}


class PortsByUplink(OnePass, fields.Dict):
    """Number of an uplink to the source ports that lead there."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(values=Ranks(SOURCE_PORT), **kwargs)
        self.ports = Ranks(SOURCE_PORT)

    def read(self, value: Any, log: OffenceLog, at: Path) -> Any:
        if not isinstance(value, Mapping):
            return refuse(log, at, "must be an object of source ports", value)
        found = {}
        for name, listed in value.items():
            uplink = number_of(name)
            if not UPLINK.holds(uplink):
                log.add((*at, str(name)), f"its name {UPLINK.message}, without leading zeros", name)
                continue
            ports = self.ports.read(listed, log, (*at, str(name)))
            if ports is not missing:
                found[uplink] = ports
        return found


class HashStageSchema(PartSchema):
    """A stage of switches that choose among uplinks by a hash."""

    model = HashStage
    placeholders = {"algorithm": "crc32"}  # noqa: RUF012

    algorithm = Choice(ALGORITHMS, required=True, metadata=_about("See docs/steering.md."))
    fields_ = Listing(
        Choice(HASH_FIELDS),
        data_key="fields",
        attribute="fields",
        metadata=_about("What is hashed, in order; by default addresses, protocol and ports."),
    )
    seed = Count(SEED, metadata=_about("Of this stage; default 0."))
    offset = Count(OFFSET, metadata=_about("Bits by which the hash is rotated right; default 0."))
    select = Choice(
        get_args(Select), metadata=_about("Modulo the number of uplinks (default), or high bits.")
    )
    key = Name(allow_none=True, metadata=_about("Of `toeplitz`, in hex."))


class LearnedPairSchema(PartSchema):
    """What probes showed of one pair of addresses."""

    model = LearnedPair
    placeholders = {"src": "0.0.0.0", "dst": "0.0.0.0", "ports": {}}  # noqa: RUF012

    src = Name(required=True)
    dst = Name(required=True)
    ports = PortsByUplink(required=True, metadata=_about("Uplink (spine, or core) to source ports."))
    method = Choice(get_args(Method), metadata=_about("The very ports were seen, or a proven fit."))
    probes = Count(PROBES)
    confidence = Amount(CONFIDENCE)


class LearnedTableSchema(PartSchema):
    """Source ports by pair of addresses and uplink, learned from probes."""

    model = LearnedTable
    placeholders = {"version": 1, "epoch": "-"}  # noqa: RUF012

    version = Count(VERSION, required=True, metadata=_about("Grows each time it is learned anew."))
    epoch = Name(required=True, metadata=_about("Of the topology it was learned under."))
    pairs = Rows(LearnedPairSchema, required=True)


class FabricHashSchema(PartSchema):
    """How switches choose among equal uplinks: `leaf` (and `pod`), or `learned`."""

    model = FabricHash

    leaf = Part(HashStageSchema, metadata=_about("The hash of the leaves."))
    pod = Part(HashStageSchema, metadata=_about("That of the spines of pods, among cores; as `leaf`."))
    leaf_seeds = Seeds(metadata=_about("Seeds of single leaves, by RACK/RAIL."))
    pod_seeds = Seeds(metadata=_about("Seeds of single spines, by POD/SPINE."))
    learned = Part(LearnedTableSchema, metadata=_about("A table instead."))
