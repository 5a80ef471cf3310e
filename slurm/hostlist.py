"""Slurm's hostlist expressions, such as ``node[001-004,007],login1``.

ClusterShell expands and folds them (docs/adr/0017-hostlists-and-topologies.md). It sorts, and knows an
algebra and named groups that Slurm does not; Slurm's own order is the order of ranks. So an expression
is cut into its plain ranges here, each is expanded by ClusterShell, and the order stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSetException

from monkeytree.limits import is_name

MOST_HOSTS = 1_000_000
"""Longest expansion; a short text must not ask for a huge amount of memory."""
MOST_BRACKETS = 16
"""Most brackets in one name; Slurm itself takes a handful."""
_RANGE = re.compile(r"[0-9]{1,18}(?:-[0-9]{1,18})?\Z")
_FORBIDDEN = re.compile(r"[\s!&^@%:;*()<>{}\x00-\x1f]")
NOTHING = frozenset({"", "(null)", "None", "None assigned", "N/A"})
"""How Slurm writes that there is no node."""


class BadHostlist(ValueError):
    """No hostlist expression; the message says why."""


def expand(expression: str) -> tuple[str, ...]:
    """The hosts of ``expression`` in the order in which it names them.

    Raises:
        BadHostlist: it is no hostlist, names a host twice, or is longer than :data:`MOST_HOSTS`.
    """
    if expression in NOTHING:
        return ()
    found = _FORBIDDEN.search(expression)
    if found:
        raise BadHostlist(f"{found[0]!r} cannot stand in a hostlist")
    hosts: list[str] = []
    for part in _split(expression):
        if not part:
            raise BadHostlist("an empty name between commas")
        if part.count("[") > MOST_BRACKETS:
            raise BadHostlist(f"a name has more than {MOST_BRACKETS} brackets")
        hosts += _expand_part(part, MOST_HOSTS - len(hosts))
    if len(set(hosts)) < len(hosts):
        twice, times = Counter(hosts).most_common(1)[0]
        raise BadHostlist(f"names {twice!r} {'twice' if times == 2 else f'{times} times'}")
    return tuple(hosts)


def is_host(name: str) -> bool:
    """Whether ``name`` can stand in a hostlist as itself."""
    return is_name(name) and not _FORBIDDEN.search(name) and not set(name) & set(",[]")


def fold(hosts: Iterable[str]) -> str:
    """The shortest expression of ``hosts``, sorted: ``node[1-4,7]``; "" for none."""
    return str(NodeSet.fromlist(sorted(hosts), resolver=RESOLVER_NOGROUP))


def _split(text: str) -> list[str]:
    """``text`` cut at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        if sign == "[":
            depth += 1
        elif sign == "]":
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
        if depth not in (0, 1):
            raise BadHostlist("brackets do not match")
    if depth:
        raise BadHostlist("a bracket is not closed")
    return [*parts, text[start:]]


def _expand_part(part: str, most: int) -> list[str]:
    """One name with any number of brackets; the leftmost varies slowest, as in Slurm."""
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, tail = rest.partition("]")
    tails = _expand_part(tail, most) if "[" in tail else [tail]
    hosts: list[str] = []
    for piece in inside.split(","):
        if not _RANGE.match(piece):
            raise BadHostlist(f"[{piece}] is no range such as [001-004]")
        low, _, high = piece.partition("-")
        width = int(high or low) - int(low) + 1
        if width < 1:
            raise BadHostlist(f"[{piece}] runs backwards")
        if width * len(tails) > most - len(hosts):
            raise BadHostlist(f"names more than {MOST_HOSTS:,} hosts")
        hosts += [name + tail for name in _expand_range(f"{head}[{piece}]") for tail in tails]
    return hosts


def _expand_range(simple: str) -> list[str]:
    try:
        return list(NodeSet(simple, resolver=RESOLVER_NOGROUP))
    except (NodeSetException, RangeSetException) as error:
        raise BadHostlist(str(error)) from None
