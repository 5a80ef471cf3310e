"""Reads what the verbs shim says it has set, and holds it against the table: the proof of steering.

A line of JSON a queue pair (``shim/log.c``). Jobs' own users write these files, so nothing in them is trusted
to be well formed: lines that are not such a record are counted, not believed.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from monkeytree.ecmp.label import port_of_label

from .labels import shortest

Pair = tuple[str, str]
MOST_BYTES = 64 << 20  # of one file: a job that writes more is not read further


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """One queue pair taken to RTR.

    Attributes:
        time: seconds since 1970.
        what: ``set``; ``refused`` where the device took no label and the call was made again as it was;
            ``own_label`` where the program gave one of its own, which was kept.
        nth: how many queue pairs of (source, target) the process had before, since the table changed.
        udp_source_port: what the table says.
        flow_label: what the device was given.
    """

    time: float
    pid: int
    what: str
    qp_num: int
    dest_qp_num: int
    source: str
    target: str
    nth: int
    udp_source_port: int
    flow_label: int
    result: int


@dataclass(frozen=True, slots=True)
class Log:
    """The records read, oldest first, and how many lines were none."""

    pairs: tuple[LabelledPair, ...]
    bad_lines: int = 0


@dataclass(frozen=True, slots=True)
class Proof:
    """The table held against a log.

    Attributes:
        steered: pairs of addresses with at least one queue pair, all of which carry a port of the table.
        unsteered: pairs with a queue pair that carries another port (refused, own label, an older table).
        unseen: pairs of the table without any queue pair.
    """

    steered: tuple[Pair, ...]
    unsteered: tuple[Pair, ...]
    unseen: tuple[Pair, ...]


_KINDS: dict[str, tuple[type, ...]] = {"float": (int, float), "int": (int,), "str": (str,)}
_TYPES = {field.name: _KINDS[str(field.type)] for field in fields(LabelledPair)}


def read_log(path: Path) -> Log:
    """The records of a log file, or of all ``*.jsonl`` files of a directory; none where there is no log."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    pairs: list[LabelledPair] = []
    bad = 0
    for file in files:
        for line in _lines(file):
            record = _record(line)
            if record is None:
                bad += 1
            else:
                pairs.append(record)
    pairs.sort(key=lambda pair: pair.time)
    return Log(tuple(pairs), bad)


def prove(table: Mapping[Pair, tuple[int, ...]], pairs: Iterable[LabelledPair], since: float = 0.0) -> Proof:
    """Which pairs of ``table`` are seen to be steered by records from ``since`` (seconds since 1970) on."""
    good: dict[Pair, bool] = {}
    for record in pairs:
        pair = (shortest(record.source), shortest(record.target))  # as the table's reader writes them
        if record.time >= since and pair in table:
            good[pair] = good.get(pair, True) and _carries(record, table[pair])
    steered = tuple(pair for pair in table if good.get(pair) is True)
    unsteered = tuple(pair for pair in table if good.get(pair) is False)
    return Proof(steered, unsteered, tuple(pair for pair in table if pair not in good))


def _carries(record: LabelledPair, ports: tuple[int, ...]) -> bool:
    """Whether the label that the device took leads to one of ``ports``."""
    if record.what == "refused" or record.result != 0 or not 0 < record.flow_label <= 0xFFFFF:
        return False
    return port_of_label(record.flow_label) in ports


def _lines(file: Path) -> list[bytes]:
    """The whole lines of ``file``; a last one without its end is still being written.

    None of what is no plain file: any user may put a pipe or a link there.
    """
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as stream:
            text = stream.read(MOST_BYTES) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    except OSError:
        return []
    return text.split(b"\n")[:-1]


def _record(line: bytes) -> LabelledPair | None:
    try:
        document: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(document, dict) or set(document) != set(_TYPES):
        return None
    if not all(isinstance(document[name], kind) for name, kind in _TYPES.items()):
        return None
    return LabelledPair(**document)
