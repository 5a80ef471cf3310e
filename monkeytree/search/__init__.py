"""The main engine: the fewest moves, proved, by lifting and placing workers."""

from __future__ import annotations

from .deepening import Finding, search

__all__ = ["Finding", "search"]
