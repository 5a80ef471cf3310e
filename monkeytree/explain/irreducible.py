"""An irreducible part of a list: all of it is needed for something that more of the list keeps true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Part = TypeVar("Part")


def irreducible(parts: Sequence[Part], broken: Callable[[Sequence[Part]], bool]) -> list[Part] | None:
    """A part of ``parts`` that is broken while no proper part of it is; None if all are not broken.

    ``broken`` must be monotone: what contains something broken is broken. The parts given first are
    preferred. The shortest broken prefix ends with a part that is needed; that part is kept, what
    comes after it dropped, and the same asked again of what is left. Prefixes are tried from short to
    long, so the questions stay small where the answer is: about 2 log2(n) for each part found, and
    one where one needed part follows another (the progression of Marques-Silva, Janota and Belov,
    "Minimal Sets over Monotone Predicates in Boolean Formulae", CAV 2013).
    """
    needed: list[Part] = []
    rest = list(parts)
    last_needed = False
    while not broken(needed):
        if last_needed and rest and not broken([*needed, *rest[:-1]]):
            length: int | None = len(rest)
        else:
            length = _shortest(rest, lambda prefix: broken([*needed, *prefix]))
        if length is None:
            return None
        last_needed = length == len(rest)
        needed.append(rest[length - 1])
        rest = rest[: length - 1]
    return needed


def _shortest(rest: Sequence[Part], broken: Callable[[Sequence[Part]], bool]) -> int | None:
    """Length of the shortest broken prefix, 1 at least: doubling, then halving."""
    sound, length = 0, 1  # the prefix of length ``sound`` is not broken
    while length < len(rest) and not broken(rest[:length]):
        sound, length = length, 2 * length
    if length >= len(rest):
        length = len(rest)
        if not rest or not broken(rest):
            return None
    while length - sound > 1:
        middle = (sound + length) // 2
        if broken(rest[:middle]):
            length = middle
        else:
            sound = middle
    return length
