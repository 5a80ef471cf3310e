"""The table of source ports, for Python programs that own their queue pairs.

The agent writes it next to its journal; the verbs shim reads the same file (``shim/parse.c``). Lines are
``srcIP,dstIP=port[,port...]``, the form of Huawei's ``HCCL_RDMA_QP_PORT_CONFIG_PATH``, with IPv6 addresses as
they are, without brackets; ``#`` starts a comment line. One line that is not understood discards the whole
table: half a table steers some flows onto uplinks that others were meant to have.
"""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from collections.abc import Mapping
from ipaddress import IPv6Address
from pathlib import Path

from monkeytree.ecmp.label import FIRST_PORT, LAST_PORT, label_of_port

Pair = tuple[str, str]
_LINE = re.compile(r"([0-9A-Fa-f.:]+),([0-9A-Fa-f.:]+)=([0-9]+(?:,[0-9]+)*)")


class BadTable(ValueError):
    """A line of a table of source ports is not understood."""


def parse_table(text: str) -> dict[Pair, tuple[int, ...]]:
    """Ports of each (source, target) pair of addresses in their shortest form, in the order written.

    Raises:
        BadTable: with the number of the first line that is not understood.
    """
    ports: dict[Pair, tuple[int, ...]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        pair = match and (shortest(match[1]), shortest(match[2]))
        if match is None or not pair or not all(pair) or len({":" in end for end in pair}) != 1:
            raise BadTable(f"line {number}: {line!r} is not srcIP,dstIP=port[,port...]")
        given = tuple(int(port) for port in match[3].split(","))
        if not all(FIRST_PORT <= port <= LAST_PORT for port in given):
            raise BadTable(f"line {number}: {line!r} has a port outside of {FIRST_PORT}..{LAST_PORT}")
        ports[pair] = ports.get(pair, ()) + given
    return ports


def read_table(path: Path) -> dict[Pair, tuple[int, ...]]:
    """The table at ``path``; {} where there is none.

    Raises:
        BadTable: as :func:`parse_table`, or it is no text.
    """
    try:
        return parse_table(path.read_text("ascii"))
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise BadTable(f"{path} is no text: {error}") from None


def shortest(address: str) -> str:
    """An IP address in its shortest form, ``::ffff:a.b.c.d`` as IPv4 (one GID); "" where it is none."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        packed = socket.inet_pton(family, address)
    except (OSError, ValueError):
        return ""
    if family == socket.AF_INET:
        return address
    parsed = IPv6Address(packed)
    return str(parsed if parsed.ipv4_mapped is None else parsed.ipv4_mapped)


class Labels:
    """Hands out the flow label of each new queue pair, as the shim does: a pair's ports in turn.

    Safe to call from any thread.
    """

    def __init__(self, table: Mapping[Pair, tuple[int, ...]]) -> None:
        self._table = table
        self._used: Counter[Pair] = Counter()
        self._guard = threading.Lock()

    def next_label(self, source: str, target: str) -> int:
        """The label for the next queue pair from ``source`` to ``target``; 0 (the kernel's own) for a pair
        that the table does not name."""
        pair = (shortest(source), shortest(target))
        ports = self._table.get(pair)
        if not ports:
            return 0
        with self._guard:
            nth = self._used[pair]
            self._used[pair] += 1
        return label_of_port(ports[nth % len(ports)])
