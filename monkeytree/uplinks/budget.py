"""How much searching one call may do, so that its time stays bounded however hard the fabric is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Budget:
    """What is left for all components of one call; counts, not seconds, so that answers repeat.

    Attributes:
        chain_tests: ways tried in ejection chains.
        moves: single moves weighed in tabu search.
        nodes: nodes of exact searches.
    """

    chain_tests: int = 100_000
    moves: int = 20_000
    nodes: int = 40_000
