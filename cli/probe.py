"""``monkeytree probe``: learn how switches hash, from probes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import product
from typing import TYPE_CHECKING, Any

import click

import monkeytree
from monkeytree.hash_offences import SOURCE_PORT, UPLINK
from monkeytree.offence_log import show

from .documents import DOCUMENT, end_with_reader, source
from .errors import CommandFailed, Exit
from .outputs import OutputFile, naming

if TYPE_CHECKING:
    from monkeytree.ecmp.learn import Learned, Probe
    from monkeytree.snapshot import Snapshot

WRITTEN = OutputFile()
_CORE_TTL = 3
"""Links up to a core, the least TTL that reaches one."""


@click.group()
def probe() -> None:
    """Learn how the switches of a fabric choose uplinks (docs/steering.md)."""


@probe.command()
@click.argument("source_address", metavar="SOURCE")
@click.argument("targets", metavar="TARGET...", nargs=-1, required=True)
@click.option(
    "--count", type=click.IntRange(1, 16_384), default=60, show_default=True, help="Ports a target."
)
@click.option("--repeat", type=click.IntRange(1, 100), default=2, show_default=True, help="Probes a port.")
@click.option(
    "--ttl", type=click.IntRange(1, 255), default=2, show_default=True, help="2 for spines, 3 for cores."
)
@click.option(
    "--rate", type=click.FloatRange(0.1, 1e5), default=50.0, show_default=True, help="Probes a second."
)
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(0.001, 60), default=1.0, show_default=True, metavar="S"
)
@click.option("--dscp", type=click.IntRange(0, 63), default=0, show_default=True, help="That of the traffic.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the draw of ports.")
@click.option("--output", type=WRITTEN, default="-", metavar="FILE")
def send(
    source_address: str, targets: tuple[str, ...], count: int, repeat: int, ttl: int, rate: float,
    timeout_s: float, dscp: int, seed: int, output: str,
) -> int:  # fmt: skip
    """Send probes from SOURCE, an address of this host, to each TARGET; write which switch answered.

    A probe is a UDP packet to port 4791 from a port that a flow label reaches, whose TTL ends at the switch.
    No privilege is needed (Linux). Probes without an answer are sent twice more, unless none was answered.

    Exit code: 0 all were answered, 3 some were not, 2 bad input.
    """
    from monkeytree.ecmp.label import FIRST_PORT, LAST_PORT
    from monkeytree.hash_offences import ADDRESS_MESSAGE, version_of

    from .probing import Answer, ProbeFailed, probe_all

    for address in (source_address, *targets):
        if not version_of(address):
            raise CommandFailed(f"{address!r} {ADDRESS_MESSAGE}")
        if version_of(address) != version_of(source_address):
            raise CommandFailed(f"{address!r} is no IP address of the family of {source_address!r}")
    rng = random.Random(seed)
    answers: list[Answer] = []
    try:
        for target in targets:
            ports = rng.sample(range(FIRST_PORT, LAST_PORT + 1), count) * repeat
            answers += probe_all(
                source_address, target, ports, ttl=ttl, rate=rate, timeout_s=timeout_s, dscp=dscp
            )
    except ProbeFailed as error:
        raise CommandFailed(str(error)) from None
    lost = sum(answer.hop is None for answer in answers)
    if lost:
        click.echo(f"{lost} of {len(answers)} probes were not answered", err=True)
    end_with_reader()
    document = {"format": 1, "ttl": ttl, "dscp": dscp, "probes": [asdict(answer) for answer in answers]}
    _write(output, document)
    return Exit.BEST_EFFORT if lost else Exit.OK


@probe.command()
@click.argument("snapshot", type=DOCUMENT)
@click.argument("results", type=DOCUMENT, nargs=-1, required=True)
@click.option(
    "--hops", type=DOCUMENT, required=True, metavar="FILE",
    help="JSON: address of a switch to the number of the uplink that leads there (spine, or core).",
)  # fmt: skip
@click.option("--table", type=DOCUMENT, metavar="FILE", help="The table before, to be brought up to date.")
@click.option(
    "--unprobed", is_flag=True,
    help="Also pairs of these sources and targets without probes, where a fit of their leaf predicts them.",
)  # fmt: skip
@click.option("--output", type=WRITTEN, default="-", metavar="FILE")
def learn(
    snapshot: str, results: tuple[str, ...], hops: str, table: str | None, unprobed: bool, output: str
) -> int:
    """Learn from the RESULTS of `probe send`, for the fabric of SNAPSHOT: write `fabric.hash`.

    Exit code: 0 a port is known for every uplink of every pair written, 3 not for all (told on standard
    error), 2 bad input.
    """
    from monkeytree.ecmp.epoch import topology_epoch
    from monkeytree.ecmp.learn import learn as learn_from
    from monkeytree.ecmp.learn import table_of
    from monkeytree.fabric_hash import FabricHash, dump_hash

    fabric = monkeytree.load_snapshot(source(snapshot))
    before = None if table is None else _table(_json(table))
    uplinks, leaves = _pairs(fabric)
    probes = list(_probes(results, _uplinks_by_hop(hops), fabric))
    if not probes:
        raise CommandFailed("no probe was answered: there is nothing to learn from")
    asked = {(p.src, p.dst) for p in probes}
    if unprobed:
        ends = product({p.src for p in probes}, {p.dst for p in probes})
        asked |= {(src, dst) for src, dst in ends if _is_sent(leaves[src], leaves[dst])}
    learned = learn_from(probes, {pair: uplinks(pair) for pair in asked}, leaves)
    made = FabricHash(learned=table_of(learned, topology_epoch(fabric), before))
    code = _tell(learned)
    end_with_reader()
    _write(output, dump_hash(made))
    return code


def _uplinks_by_hop(path: str) -> dict[str, int]:
    found = _json(path)
    for address, uplink in found.items():
        if not UPLINK.holds(uplink):
            raise CommandFailed(f"{path}: {address} has {show(uplink)!r}, which is no number of an uplink")
    return found


def _tell(learned: Iterable[Learned]) -> int:
    code = Exit.OK
    for found in learned:
        pair = found.pair
        how = f"fitted from {found.independent}" if pair.method == "affine" else f"as probed ({found.why})"
        line = f"{pair.src} to {pair.dst}: {pair.probes} probes, {how}, confidence {pair.confidence:.6f}"
        if found.unseen:
            code = Exit.BEST_EFFORT
            line += f"; no port for uplinks {', '.join(map(str, found.unseen))}: probe more"
        click.echo(line, err=True)
    return code


def _addresses(snapshot: Snapshot) -> dict[str, tuple[str, int]]:
    """Rack and rail of each address."""
    return {
        address: (rack.id, rail)
        for rack in snapshot.racks
        for node in rack.nodes
        for rail, address in enumerate(node.addresses)
    }


def _pairs(snapshot: Snapshot) -> tuple[Any, Mapping[str, str]]:
    """The uplinks of a pair of addresses, as a function, and the leaf of each address."""
    from monkeytree.ecmp.ways import Ways

    ways, places = Ways(snapshot), _addresses(snapshot)

    def uplinks(pair: tuple[str, str]) -> tuple[int, ...]:
        source_rack, target_rack = places[pair[0]][0], places[pair[1]][0]
        spines = ways.spines(source_rack, target_rack)
        if not ways.leaves_pod(source_rack, target_rack):
            return spines
        return tuple(sorted(core for spine in spines for core in ways.cores(source_rack, target_rack, spine)))

    return uplinks, {address: f"{rack}/{rail}" for address, (rack, rail) in places.items()}


def _is_sent(source: str, target: str) -> bool:
    """Whether flows go from one leaf, "RACK/RAIL", to another: between racks, on one rail."""
    (rack, _, rail), (there, _, rail_there) = source.rpartition("/"), target.rpartition("/")
    return rack != there and rail == rail_there


def _probes(results: Iterable[str], uplink_of: Mapping[str, int], snapshot: Snapshot) -> Iterable[Probe]:
    from monkeytree.ecmp.learn import Probe

    places, pods = _addresses(snapshot), {rack.id: rack.pod for rack in snapshot.racks}
    for name in results:
        document = _json(name)
        rows, ttl = document.get("probes"), document.get("ttl")
        if document.get("format", 1) != 1 or not isinstance(rows, list):
            raise CommandFailed(f"{name}: is no result of `probe send` (format 1): it lists no probes")
        for row in rows:
            if not _is_probe(row):
                raise CommandFailed(f"{name}: {show(row)!r} is no probe as `probe send` writes it")
            if row["hop"] is None:
                continue
            if row["hop"] not in uplink_of:
                raise CommandFailed(f"{name}: switch {row['hop']} answered, which --hops does not name")
            racks = _rack_of(row["src"], places), _rack_of(row["dst"], places)
            if racks[0] == racks[1]:
                why = f"are both in rack {racks[0]!r}: no uplink is chosen between them"
                raise CommandFailed(f"{name}: {row['src']} and {row['dst']} {why}")
            if type(ttl) is int and ttl < _CORE_TTL and pods[racks[0]] != pods[racks[1]]:
                why = f"are in two pods, and a TTL of {ttl} ends before the cores: send these with --ttl 3"
                raise CommandFailed(f"{name}: {row['src']} and {row['dst']} {why}")
            yield Probe(row["src"], row["dst"], row["port"], uplink_of[row["hop"]])


def _rack_of(address: str, places: Mapping[str, tuple[str, int]]) -> str:
    if address not in places:
        raise CommandFailed(f"{address} is an address of no node of the snapshot")
    return places[address][0]


def _is_probe(row: Any) -> bool:
    if not isinstance(row, dict) or not {"src", "dst", "port", "hop"} <= row.keys():
        return False
    ends = all(isinstance(row[end], str) for end in ("src", "dst"))
    hop = row["hop"] is None or isinstance(row["hop"], str)
    return ends and hop and SOURCE_PORT.holds(row["port"])


def _table(document: Any) -> Any:
    from monkeytree.offence_log import OffenceLog
    from monkeytree.wire.hash_parts import FabricHashSchema

    log = OffenceLog()
    read = FabricHashSchema.read(document, log, ())
    if log.listed or read.learned is None:
        wrong = next(iter(log.listed), None)
        why = f": {wrong.pointer} {wrong.message}, got {wrong.value!r}" if wrong else ""
        raise CommandFailed(f"--table: is no learned fabric.hash as this command writes it{why}")
    return read.learned


def _json(path: str) -> dict[str, Any]:
    from monkeytree.wire.reading import parse_json, read_source

    document = parse_json(read_source(source(path)))
    if not isinstance(document, dict):
        raise CommandFailed(f"{path}: must be a JSON object")
    return document


def _write(output: str, document: Any) -> None:
    with naming(output), click.open_file(output, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(document, indent=2) + "\n")
