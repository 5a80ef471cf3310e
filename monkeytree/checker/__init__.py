"""The independent plan checker: who solves does not check.

It reads the two documents of docs/contract.md (sections 1 and 2) with code of its own and shares
nothing with the model, the planner or the colouring. ``monkeytree check`` is this function.
"""

from __future__ import annotations

from .door import check
from .fault import CODES, Fault

__all__ = ["CODES", "Fault", "check"]
