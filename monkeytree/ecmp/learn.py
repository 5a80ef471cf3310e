"""From probes to a table: which source ports lead a pair of addresses to which uplink.

The base is what was seen: a port led there, so it leads there, until the topology changes. An affine fit
saves probes, and is used only after it has predicted probes it was not given: a hash that is nothing of
the kind passes that by chance once in a million. It is tried for each pair by itself and, over addresses
and port together, for all pairs of one leaf: then pairs are predicted that were never probed, where enough
pairs followed from others.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log

from monkeytree.fabric_hash import LearnedPair, LearnedTable

from .affine import AffineFit
from .known import BASIS, PORT_BITS, first_fitted
from .label import FIRST_PORT, PORTS
from .stage import packed

WRONG_FIT = 1e-6
"""Chance at most that a hash that is not affine passes the hold-out."""
LEAST_HELD_OUT = 20
"""Held-out probes at least, so that a hash which is affine only for most ports is told apart too."""
PORTS_KEPT = 8
"""Ports listed for each uplink where a fit knows thousands."""
INDEPENDENT = PORT_BITS + 1
"""Independent probes that determine an affine function of the port: 14 bits and a constant."""

Pair = tuple[str, str]
"""(source address, destination address)."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A packet from ``src`` to ``dst`` from source port ``port`` took ``uplink`` (spine, or core)."""

    src: str
    dst: str
    port: int
    uplink: int


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned of one pair, and how.

    Attributes:
        pair: as the table has it.
        independent: probes that told the fit something new; 0 where there is none.
        held_out: probes that the fit predicted without having been given them.
        why: why nothing is predicted, in words; "" where it is.
        unseen: uplinks that no known port leads to.
    """

    pair: LearnedPair
    independent: int
    held_out: int
    why: str
    unseen: tuple[int, ...]


def held_out_needed(uplinks: int) -> int:
    """Probes a fit must predict; each is right by chance once in ``uplinks``."""
    return max(LEAST_HELD_OUT, _enough(uplinks))


def _enough(uplinks: int) -> int:
    """Right predictions in a row that come about by chance less often than :data:`WRONG_FIT`."""
    return ceil(log(1 / WRONG_FIT) / log(max(2, uplinks)))


def probes_needed(uplinks: int) -> int:
    """About how many random probes a fit of one pair takes: 15 independent, the held-out, a few more."""
    return INDEPENDENT + 3 + held_out_needed(uplinks)


def expected_probes(uplinks: int) -> float:
    """Mean number of random probes until each of ``uplinks`` was seen: n x (1 + 1/2 + ... + 1/n)."""
    return uplinks * sum(1 / k for k in range(1, uplinks + 1))


def learn(
    probes: Iterable[Probe],
    uplinks: Mapping[Pair, Sequence[int]],
    leaves: Mapping[str, str] | None = None,
    seed: int = 0,
) -> list[Learned]:
    """What the probes tell of each pair.

    Args:
        probes: in any order; of one port several where it was probed again.
        uplinks: of each pair the live ones it can take, in the order in which switches number them
            (ascending); a probed pair that is missing is taken to have those that were seen.
        leaves: the leaf of each source address; where given, pairs of one leaf are also fitted together.
        seed: of the order in which probes are given to a fit.
    """
    by_pair: defaultdict[Pair, list[Probe]] = defaultdict(list)
    for probe in probes:
        by_pair[probe.src, probe.dst].append(probe)
    known = {pair: tuple(sorted({probe.uplink for probe in sent})) for pair, sent in by_pair.items()}
    known |= {pair: tuple(given) for pair, given in uplinks.items()}
    found = {pair: _learn_pair(pair, by_pair[pair], known[pair], seed) for pair in sorted(by_pair)}
    for members in _of_one_leaf(known, leaves or {}):
        found |= _together(members, by_pair, known[members[0]], found, seed)
    return [found[pair] for pair in sorted(found)]


def table_of(learned: Iterable[Learned], epoch: str, before: LearnedTable | None = None) -> LearnedTable:
    """The next version of a table.

    Pairs of ``before`` that were not probed again are kept while the epoch is the same; after a change of
    the topology all of it is dropped.
    """
    pairs = {(found.pair.src, found.pair.dst): found.pair for found in learned}
    if before is not None and before.epoch == epoch:
        pairs = {(pair.src, pair.dst): pair for pair in before.pairs} | pairs
    version = 1 if before is None else before.version + 1
    return LearnedTable(version, epoch, tuple(pair for _, pair in sorted(pairs.items())))


@dataclass(frozen=True, slots=True)
class _Fit:
    """A fit that held, or why there is none."""

    function: AffineFit | None
    held_out: int = 0
    why: str = ""


def _learn_pair(pair: Pair, sent: Sequence[Probe], uplinks: Sequence[int], seed: int) -> Learned:
    ways = Counter(probe.port for probe in sent)
    seen = {probe.port: probe.uplink for probe in sent}
    unstable = [probe.port for probe in sent if seen[probe.port] != probe.uplink]
    if unstable:
        why = f"port {unstable[0]} took two ways: the fabric does not hash by flow, or changed meanwhile"
        return _result(pair, {}, uplinks, len(sent), _Fit(None, why=why), 0.0)
    first = first_fitted(pair)
    samples = [(port - FIRST_PORT, uplink) for port, uplink in sorted(seen.items()) if port >= first]
    fit = _fit(PORT_BITS, samples, uplinks, seed)
    if fit.function is not None:
        ports = _predicted(fit.function, 0, uplinks, seen, first)
        return _result(pair, ports, uplinks, len(sent), fit, _confidence(uplinks, fit.held_out))
    again = sum(times - 1 for times in ways.values())
    return _result(pair, _listed(seen), uplinks, len(sent), fit, _confidence(uplinks, again))


def _of_one_leaf(known: Mapping[Pair, tuple[int, ...]], leaves: Mapping[str, str]) -> list[list[Pair]]:
    """Pairs whose sources are on one leaf and that choose among the same uplinks."""
    groups: defaultdict[tuple[str, tuple[int, ...]], list[Pair]] = defaultdict(list)
    for pair, uplinks in sorted(known.items()):
        if pair[0] in leaves:
            groups[leaves[pair[0]], uplinks].append(pair)
    return list(groups.values())


def _together(
    members: Sequence[Pair],
    by_pair: Mapping[Pair, Sequence[Probe]],
    uplinks: Sequence[int],
    found: Mapping[Pair, Learned],
    seed: int,
) -> dict[Pair, Learned]:
    """Answers for the pairs that have none of their own, by one fit over addresses and port."""
    open_ = [pair for pair in members if pair not in found or found[pair].why]
    probed = [pair for pair in members if by_pair.get(pair)]
    if not open_ or not probed or any(" took two ways" in found[pair].why for pair in probed):
        return {}
    seen = {pair: {probe.port: probe.uplink for probe in by_pair.get(pair, ())} for pair in members}
    samples = [
        (_prefix(pair) << PORT_BITS | port - FIRST_PORT, uplink)
        for pair in probed
        for port, uplink in sorted(seen[pair].items())
        if port >= first_fitted(pair)
    ]
    fit = _fit(PORT_BITS + 8 * 2 * len(packed(members[0][0])), samples, uplinks, seed)
    if fit.function is None:
        return {}
    across = _held_out_across(samples, fit.function)
    answers = {}
    for pair in open_:
        own = any(port >= first_fitted(pair) for port in seen[pair])
        if not own and across < _enough(len(uplinks)):
            continue  # its constant hangs on the addresses alone, over which too little was held out
        ports = _predicted(fit.function, _prefix(pair) << PORT_BITS, uplinks, seen[pair], first_fitted(pair))
        if any(ports.values()):
            sent, agreed = len(by_pair.get(pair, ())), fit.held_out if own else across
            answers[pair] = _result(pair, ports, uplinks, sent, fit, _confidence(uplinks, agreed))
    return answers


def _held_out_across(samples: Sequence[tuple[int, int]], function: AffineFit) -> int:
    """Probes whose way followed from those of other pairs alone: what was held out over the addresses.

    A hash may be affine in the port and not in the addresses: then each pair has a constant of its own, and
    the probes determine as many numbers more as there are pairs that follow from others here.
    """
    ports, first = AffineFit(PORT_BITS), dict[int, int]()
    ports.add(0, 0)
    for value, _ in samples:
        offset = value & (PORTS - 1)
        ports.add(offset ^ first.setdefault(value >> PORT_BITS, offset), 0)
    return len(first) + ports.independent - 1 - function.independent


def _prefix(pair: Pair) -> int:
    return int.from_bytes(packed(pair[0]) + packed(pair[1]))


def _fit(bits: int, samples: Sequence[tuple[int, int]], uplinks: Sequence[int], seed: int) -> _Fit:
    """An affine fit of input to the number of the uplink. Each sample that it can predict is held out."""
    if len(uplinks) < 2:
        return _Fit(None, why="there is no choice of uplinks" if uplinks else "no live way leads there")
    if len(uplinks) & (len(uplinks) - 1):
        return _Fit(None, why=f"{len(uplinks)} uplinks are no power of two")
    number = {uplink: at for at, uplink in enumerate(uplinks)}
    strange = sorted({uplink for _, uplink in samples} - number.keys())
    if strange:
        return _Fit(None, why=f"uplinks {strange} were seen, which should not be there")
    order = list(samples)
    random.Random(seed).shuffle(order)
    function, held_out = AffineFit(bits), 0
    for value, uplink in order:
        foreseen = function.predict(value)
        if foreseen is None:
            function.add(value, number[uplink])
        elif foreseen == number[uplink]:
            held_out += 1
        else:
            return _Fit(None, why=f"not affine: a probe was predicted wrongly after {held_out} right ones")
    needed = held_out_needed(len(uplinks))
    if held_out < needed:
        return _Fit(None, why=f"only {held_out} of {needed} held-out probes so far")
    return _Fit(function, held_out)


def _predicted(
    function: AffineFit, prefix: int, uplinks: Sequence[int], seen: Mapping[int, int], first: int
) -> dict[int, list[int]]:
    """Ports for each uplink: those that were seen first, then others that the fit knows.

    Enough of them to determine the fit again, for a replay that must know the way of any port.
    """
    ports: dict[int, list[int]] = {uplink: [] for uplink in uplinks}
    for port, uplink in sorted(seen.items()):
        if len(ports[uplink]) < PORTS_KEPT:
            ports[uplink].append(port)
    short = {uplink for uplink in uplinks if len(ports[uplink]) < PORTS_KEPT}
    for offset in range(first - FIRST_PORT, PORTS):
        if not short:
            break
        at = function.predict(prefix | offset)
        if at is not None and uplinks[at] in short and FIRST_PORT + offset not in seen:
            ports[uplinks[at]].append(FIRST_PORT + offset)
            if len(ports[uplinks[at]]) >= PORTS_KEPT:
                short.remove(uplinks[at])
    _complete(function, prefix, uplinks, ports, first)
    return ports


def _complete(
    function: AffineFit, prefix: int, uplinks: Sequence[int], ports: Mapping[int, list[int]], first: int
) -> None:
    listed = AffineFit(PORT_BITS)
    for port in (port for some in ports.values() for port in some if port >= first):
        listed.add(port - FIRST_PORT, 0)
    for offset in BASIS:
        at = function.predict(prefix | offset)
        if at is not None and listed.predict(offset) is None:
            listed.add(offset, 0)
            ports[uplinks[at]].append(FIRST_PORT + offset)


def _listed(seen: Mapping[int, int]) -> dict[int, list[int]]:
    ports: defaultdict[int, list[int]] = defaultdict(list)
    for port, uplink in sorted(seen.items()):
        ports[uplink].append(port)
    return ports


def _confidence(uplinks: Sequence[int], agreed: int) -> float:
    return 1 - (1 / max(2, len(uplinks))) ** agreed


def _result(
    pair: Pair,
    ports: Mapping[int, Sequence[int]],
    uplinks: Sequence[int],
    sent: int,
    fit: _Fit,
    confidence: float,
) -> Learned:
    kept = {uplink: tuple(ports[uplink]) for uplink in sorted(ports) if ports[uplink]}
    row = LearnedPair(*pair, kept, "probed" if fit.function is None else "affine", sent, confidence)
    unseen = tuple(uplink for uplink in uplinks if uplink not in kept)
    independent = 0 if fit.function is None else fit.function.independent
    return Learned(row, independent, fit.held_out, fit.why, unseen)
