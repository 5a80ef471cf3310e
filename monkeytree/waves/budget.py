"""How much searching one call may do, so that its time stays bounded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Budget:
    """What is left for all clusters of one call; counts, not seconds, so that answers repeat.

    Attributes:
        transitions: steps weighed by the exact search.
        checks: transfers moved to another wave on trial by the local improvement.
    """

    transitions: int = 400_000
    checks: int = 20_000
