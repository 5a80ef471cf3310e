"""The same reasons in plain words, for people."""

from __future__ import annotations

from collections.abc import Iterable

from monkeytree.plan import Conflict, Move

_SHOWN = 7  # names beside the first; longer lists are cut


def say_because(move: Move) -> str:
    """One sentence: what undoing this move alone would break; "" where no reason is known.

    >>> say_because(Move("C", "0", 3, "n1", "n5", 0, because=("drain:n1", "r3", "move:4")))
    'n1 drains; without this move rack r3 would be over its bound; it frees the slot for move 4'
    """
    kinds: dict[str, list[str]] = {"drain": [], "rack": [], "pod": [], "move": []}
    for reason in move.because:
        kind, colon, name = reason.partition(":")
        if colon and kind in ("drain", "pod", "move"):
            kinds[kind].append(name)
        else:  # a rack's id may have a colon of its own
            kinds["rack"].append(reason)
    parts = [f"{node} drains" for node in kinds["drain"]]
    over = [*_named("rack", kinds["rack"]), *_named("pod", kinds["pod"])]
    if over:
        bound = "its bound" if len(kinds["rack"]) + len(kinds["pod"]) == 1 else "their bounds"
        parts.append(f"without this move {_listed(over)} would be over {bound}")
    if kinds["move"]:
        parts.append(f"it frees the slot for {_listed(_named('move', kinds['move']), 'or')}")
    return "; ".join(parts)


def say_conflict(conflict: Conflict) -> str:
    """One or two sentences: what cannot be met together, and that each part of it is needed.

    >>> say_conflict(Conflict(jobs=("A", "B"), racks=("r1",), pods=(), drains=("n1",)))
    'Jobs A and B cannot be placed so that rack r1 keeps within its bound and n1 is drained. Without \
any one of these it could be done.'
    """
    demands = []
    bounded = [*_named("rack", conflict.racks), *_named("pod", conflict.pods)]
    if bounded:
        one = len(conflict.racks) + len(conflict.pods) == 1
        keep = "keeps within its bound" if one else "keep within their bounds"
        demands.append(f"{_listed(bounded)} {keep}")
    if conflict.drains:
        are = "is" if len(conflict.drains) == 1 else "are"
        demands.append(f"{_listed(conflict.drains)} {are} drained")
    jobs = _listed(_named("job", conflict.jobs))
    sentence = f"{jobs} cannot be placed so that {_listed(demands)}."
    return f"{sentence[:1].upper()}{sentence[1:]} Without any one of these it could be done."


def _named(noun: str, names: Iterable[str]) -> list[str]:
    """The names, the noun before the first: ``rack r1``, or ``racks r1``, ``r2``."""
    first, *rest = list(names) or [""]
    if not first:
        return []
    if len(rest) > _SHOWN:
        rest = [*rest[: _SHOWN - 1], f"{len(rest) - _SHOWN + 1} more"]
    return [f"{noun}s {first}", *rest] if rest else [f"{noun} {first}"]


def _listed(parts: Iterable[str], word: str = "and") -> str:
    *most, last = parts
    return f"{', '.join(most)} {word} {last}" if most else last
