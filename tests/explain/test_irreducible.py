"""The filter finds a part that is broken, and none of whose parts is."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from monkeytree.explain.irreducible import irreducible

some = st.frozensets(st.integers(0, 11), max_size=5)


@given(st.permutations(range(12)), st.lists(some, max_size=6))
def test_what_is_left_is_one_of_the_smallest_causes(parts: list[int], causes: list[frozenset[int]]) -> None:
    """Broken is what contains one of the causes; the irreducible broken parts are the least of these."""

    def broken(asked: Sequence[int]) -> bool:
        return any(cause <= set(asked) for cause in causes)

    found = irreducible(parts, broken)
    if not causes:
        assert found is None
    else:
        assert found is not None
        assert len(set(found)) == len(found)
        assert frozenset(found) in causes
        assert not any(cause < set(found) for cause in causes)


def test_few_questions_where_all_is_needed_or_little() -> None:
    for cause in (set(range(200)), {3, 150}):
        asked = 0

        def broken(parts: Sequence[int], cause: set[int] = cause) -> bool:
            nonlocal asked
            asked += 1
            return cause <= set(parts)

        assert set(irreducible(list(range(200)), broken) or ()) == cause
        assert asked < 2 * len(cause) + 45
