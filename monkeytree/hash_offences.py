"""What is wrong with the addresses of nodes and with ``fabric.hash``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any, Final

from .fabric_hash import ALGORITHMS, HASH_FIELDS, FabricHash, HashStage, LearnedPair, LearnedTable
from .limits import Real, Whole
from .offence_log import OffenceLog, Path

SEED: Final = Whole(0, 2**32 - 1)
OFFSET: Final = Whole(0, 31)
SOURCE_PORT: Final = Whole(0xC000, 0xFFFF)
FLOW_LABEL: Final = Whole(0, 0xFFFFF)
VERSION: Final = Whole(1, 2**31 - 1)
PROBES: Final = Whole(0, 2**31 - 1)
CONFIDENCE: Final = Real(0.0, 1.0)
UPLINK: Final = Whole(0, 1_000_000)
MOST_KEY_BYTES: Final = 64  # in hex as long as a string may be; switches' and NICs' keys have 40 or 52
_MOST_DIGITS: Final = 7
LABEL_MESSAGE: Final = "is a field of IPv6 headers, and the addresses are IPv4"
ADDRESS_MESSAGE: Final = "must be an IP address, written the shortest way (10.0.0.1, fd00::1)"

Places = Iterator[tuple[Path, tuple[str, ...]]]
"""The addresses of each node that has any, with the path of the node."""


def check_addresses(nodes: Places, rails: int, log: OffenceLog) -> int:
    """One address a rail, each of one node only, and all of one family: 4 or 6, 0 where there are none."""
    owner: dict[str, Path] = {}
    family = 0
    for at, addresses in nodes:
        if len(addresses) != rails:
            log.add((*at, "addresses"), f"must list {rails}, one a rail", list(addresses))
        for index, address in enumerate(addresses):
            version = version_of(address)
            if not version:
                log.add((*at, "addresses", index), ADDRESS_MESSAGE, address)
                continue
            if _is_of_no_nic(address):
                log.add((*at, "addresses", index), "must be the address of one NIC", address)
                continue
            family = family or version
            if version != family:
                log.add((*at, "addresses", index), f"must be IPv{family} as the ones before", address)
            elif address in owner:
                where = str(owner[address][-1])
                log.add((*at, "addresses", index), f"is an address of node {where!r} already", address)
            owner.setdefault(address, at)
    return family


def version_of(address: Any) -> int:
    """4 or 6, and 0 for what is no address in its shortest form; that of ::ffff:a.b.c.d is IPv4."""
    try:
        found = ip_address(address) if isinstance(address, str) else None
    except ValueError:
        return 0
    if found is not None and getattr(found, "ipv4_mapped", None) is not None:
        return 0
    # A zone (fe80::1%eth0) names an interface of one host: switches see the address alone.
    return found.version if found is not None and str(found) == address and "%" not in address else 0


def _is_of_no_nic(address: str) -> bool:
    found = ip_address(address)
    return found.is_unspecified or found.is_multicast or address == "255.255.255.255"


def number_of(text: Any) -> int:
    """The number of a switch or uplink that ``text`` writes, the shortest way; -1 for anything else."""
    plain = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if plain and str(int(text)) == text else -1


def check_hash(
    hash_: FabricHash, leaves: Mapping[str, int], pods: Mapping[str, int], log: OffenceLog, family: int = 0
) -> None:
    """List what is wrong with ``fabric.hash``.

    Args:
        leaves: rails of each rack id.
        pods: spines of each pod id.
        family: of the nodes' addresses, 4 or 6; 0 where there are none.
    """
    at: Path = ("fabric", "hash")
    if (hash_.leaf is None) == (hash_.learned is None):
        log.add(at, "must give either leaf or learned", [hash_.leaf is not None, hash_.learned is not None])
    for name, stage in (("leaf", hash_.leaf), ("pod", hash_.pod)):
        if stage is not None:
            check_stage(stage, (*at, name), log, family)
    for member, seeds, known in (
        ("leaf_seeds", hash_.leaf_seeds, leaves),
        ("pod_seeds", hash_.pod_seeds, pods),
    ):
        for name, seed in seeds.items():
            place, _, number = str(name).rpartition("/")
            if not 0 <= number_of(number) < known.get(place, 0):
                form = "RACK/RAIL" if member == "leaf_seeds" else "POD/SPINE"
                log.add((*at, member, name), f"names no switch; its name must be {form}", name)
            log.check(SEED, seed, *at, member, name)
    if hash_.learned is not None:
        for member in ("pod", "leaf_seeds", "pod_seeds"):
            if getattr(hash_, member):
                log.add((*at, member), "goes with leaf: of a learned table nothing is hashed", member)
        _check_table(hash_.learned, (*at, "learned"), log)


def check_stage(stage: HashStage, at: Path, log: OffenceLog, family: int = 0) -> None:
    """List what is wrong with one stage, for addresses of a ``family`` (4 or 6; 0: not known)."""
    log.choice(stage.algorithm, ALGORITHMS, *at, "algorithm")
    log.choice(stage.select, ("modulo", "high"), *at, "select")
    log.check(SEED, stage.seed, *at, "seed")
    log.check(OFFSET, stage.offset, *at, "offset")
    if not stage.fields:
        log.add((*at, "fields"), "must list at least one field", [])
    for index, name in enumerate(stage.fields):
        log.choice(name, HASH_FIELDS, *at, "fields", index)
        if name in stage.fields[:index]:
            log.add((*at, "fields", index), "stands twice", name)
        if name == "flow_label" and family == 4:
            log.add((*at, "fields", index), LABEL_MESSAGE, name)
    if stage.key is not None and not _is_key(stage.key):
        log.add((*at, "key"), f"must be 1 to {MOST_KEY_BYTES} bytes in hex", stage.key)
    if stage.key is not None and stage.algorithm != "toeplitz":
        log.add((*at, "key"), "belongs to toeplitz alone", stage.key)


def _is_key(text: Any) -> bool:
    try:
        return 0 < len(bytes.fromhex(text)) <= MOST_KEY_BYTES
    except (TypeError, ValueError):
        return False


def _check_table(table: LearnedTable, at: Path, log: OffenceLog) -> None:
    log.check(VERSION, table.version, *at, "version")
    log.name(table.epoch, *at, "epoch")
    seen: set[tuple[str, str]] = set()
    for index, pair in enumerate(table.pairs):
        where = (*at, "pairs", index)
        if (pair.src, pair.dst) in seen:
            log.add(where, "is a pair that stands before already", f"{pair.src} to {pair.dst}")
        seen.add((pair.src, pair.dst))
        _check_pair(pair, where, log)


def _check_pair(pair: LearnedPair, at: Path, log: OffenceLog) -> None:
    for name in ("src", "dst"):
        if not version_of(getattr(pair, name)):
            log.add((*at, name), ADDRESS_MESSAGE, getattr(pair, name))
    if {version_of(pair.src), version_of(pair.dst)} == {4, 6}:
        log.add((*at, "dst"), "must be of the family of src", pair.dst)
    log.choice(pair.method, ("probed", "affine"), *at, "method")
    log.check(PROBES, pair.probes, *at, "probes")
    log.check(CONFIDENCE, pair.confidence, *at, "confidence")
    leads_to: dict[int, int] = {}
    for uplink, ports in pair.ports.items():
        log.check(UPLINK, uplink, *at, "ports", str(uplink))
        for index, port in enumerate(ports):
            where = (*at, "ports", str(uplink), index)
            if log.check(SOURCE_PORT, port, *where) and leads_to.setdefault(port, uplink) != uplink:
                log.add(where, f"leads to uplink {leads_to[port]} already", port)
